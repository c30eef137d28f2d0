"""The tables in the database, and the steps from one version of them to the next."""

from __future__ import annotations

from typing import Final

from scheduler_backends.sql.checks import NAMES, STRAY, check_clauses
from scheduler_backends.sql.columns import Column, column_clauses
from scheduler_backends.sql.states import FINISHED, LEASED, RETRY_WAIT, WAITING

# {s} = the schema and a dot, or nothing; {p} = the prefix of the tables' names.
# Collation "C" compares ids as bytes: faster, and the same after an upgrade of the operating system's locales.
# Every job is updated at least once, by its lease, so pages are left half empty for the new versions. At a fill factor
# of 85, a lease-and-delete cycle took 869 bytes of log instead of 618, and 35 to 77 % of the renewals were heap-only
# updates instead of 97 to 100 %. These are possible only because no index has lease_until.
# There are many dead rows: vacuum runs by their number, not by a share of the table.
_OWN_CHECKS: Final = {
    "characters": f"{NAMES} !~ '[\\u0001-\\u001f\\u007f]'",
    **{
        name: f"jsonb_typeof({name}) = '{kind}'"
        for name, kind in (("retry_policy", "object"), ("metadata", "object"), ("errors", "array"))
    },
}


def _type_of(column: Column) -> str:
    return f'{column.type} COLLATE "C"' if column.key else column.type


_FIRST: Final = (
    f"""
CREATE TABLE {{s}}{{p}}job (
{column_clauses(_type_of)},
    PRIMARY KEY (queue, id),
{check_clauses("{p}", _OWN_CHECKS)}
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 1,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 5000
)""",
    f"CREATE INDEX {{p}}job_claim ON {{s}}{{p}}job (queue, priority, due_at, id) WHERE state IN {WAITING}",
    f"CREATE INDEX {{p}}job_leased ON {{s}}{{p}}job (queue, lease_token) WHERE state = {LEASED}",
    f"CREATE INDEX {{p}}job_retry ON {{s}}{{p}}job (queue, due_at, id) WHERE state = {RETRY_WAIT}",
    f"CREATE INDEX {{p}}job_finished ON {{s}}{{p}}job (queue, state, finished_at, id) WHERE state IN {FINISHED}",
    f"CREATE INDEX {{p}}job_stray ON {{s}}{{p}}job (queue) WHERE {STRAY}",
    """CREATE TABLE {s}{p}queue (name text COLLATE "C" NOT NULL PRIMARY KEY, paused boolean NOT NULL DEFAULT false)""",
    f"""
CREATE VIEW {{s}}{{p}}job_status AS
SELECT queue, id, type, priority,
       CASE WHEN state IN {WAITING} AND due_at <= extract(epoch FROM now()) * 1000000 THEN 'ready'
            ELSE (ARRAY['scheduled', NULL, 'leased', 'retry_wait', 'succeeded', 'dead', 'cancelled'])[state + 1]
       END AS state,
       attempts, crashes, max_retries, to_timestamp(run_at / 1e6) AS run_at, to_timestamp(due_at / 1e6) AS due_at,
       to_timestamp(created_at / 1e6) AS created_at, to_timestamp(finished_at / 1e6) AS finished_at,
       timeout, lease_owner, to_timestamp(lease_until / 1e6) AS lease_expires_at, idempotency_key, metadata,
       history.errors, history.errors -> -1 AS last_error
FROM {{s}}{{p}}job AS job LEFT JOIN LATERAL (
    SELECT jsonb_agg(
        CASE WHEN error ->> 'at' ~ '^[0-9]{{{{1,17}}}}$'
             THEN error || jsonb_build_object('at', to_timestamp((error ->> 'at')::bigint / 1e6)) ELSE error END
        ORDER BY place) AS errors
    FROM jsonb_array_elements(CASE jsonb_typeof(job.errors) WHEN 'array' THEN job.errors END)
        WITH ORDINALITY AS each (error, place)
) AS history ON true""",
    "COMMENT ON VIEW {s}{p}job_status IS 'jobs for people to read: fields of Job, states by name, times as timestamps'",
)

STEPS: Final = (_FIRST,)
"""The statements of each version, from 1. A step that was ever released never changes."""
