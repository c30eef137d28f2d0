"""What Postgres and SQLite share: how a job lies in a row, the versions of the schema, and the command for them."""
