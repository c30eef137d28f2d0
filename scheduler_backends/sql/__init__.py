"""Code shared by the Postgres and SQLite stores: rows of jobs, versions of the schema, and the migration command."""
