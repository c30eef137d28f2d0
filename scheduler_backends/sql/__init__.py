"""What Postgres and SQLite share: how a job is stored in a row, the versions of the schema, and their command."""
