"""Text of all statements. sqlite3 prepares and caches them; see docs/decisions/0007."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.limits import MAX_ERRORS
from scheduler.states import JobState
from scheduler_backends.sql.checks import MAX_COUNTER, STRAY
from scheduler_backends.sql.columns import COLUMNS, SQLITE_TYPES, STORED
from scheduler_backends.sql.cursors import KEYS, goes_by_priority
from scheduler_backends.sql.encoding import Moments
from scheduler_backends.sql.moments import EARLIEST, LATEST
from scheduler_backends.sql.states import (
    CANCELLED,
    CODES,
    DEAD,
    FINISHED,
    LEASED,
    RETRY_WAIT,
    SCHEDULED,
    SUCCEEDED,
    WAITING,
)

_COLUMNS: Final = ", ".join(COLUMNS)
_AS_BYTES: Final = ", ".join(
    f"CAST({name} AS BLOB)" if SQLITE_TYPES[column.type] == "TEXT" else name for name, column in COLUMNS.items()
)
_PRIORITIES: Final = "(VALUES (0), (1), (2), (3))"

# Ends a lease. The token identifies the holder, so every move out of leased clears it.
_FREE: Final = "lease_token = NULL, lease_owner = NULL, lease_until = NULL"
_HELD: Final = "WHERE queue = ? AND id = ? AND lease_token = ?"

# Appends the error document :error (NULL = none), with the attempt and the moment added. If errors is not a JSON array,
# it does not change; the job is reported as unreadable when it is read.
_ERROR: Final = f"json_set(:error, '$.attempt', min(max(attempts, 0), {MAX_COUNTER}), '$.at', :now)"
_APPENDED: Final = f"""CASE WHEN :error IS NULL THEN errors WHEN errors IS NULL THEN json_array({_ERROR})
    WHEN NOT json_valid(errors) THEN errors WHEN json_type(errors) <> 'array' THEN errors
    ELSE json_insert(CASE WHEN json_array_length(errors) >= {MAX_ERRORS} THEN json_remove(errors, '$[0]')
                          ELSE errors END, '$[#]', {_ERROR}) END"""

# One attempt less, and one more. Neither leaves the range of the column.
_RETURNED: Final = "attempts = attempts - (attempts > 0 AND :returned)"
_ONE_MORE: Final = f"min({{0}}, {MAX_COUNTER - 1}) + 1"

_USED_UP: Final = "attempts > max_retries"

# A lease whose expiry is not a moment has expired.
_EXPIRY: Final = f"CASE WHEN lease_until BETWEEN {EARLIEST} AND {LATEST} THEN lease_until ELSE {EARLIEST} END"

# The position of a list. Text that is not UTF-8 is bound as bytes.
_KEY: Final = "CASE WHEN :key_is_text THEN CAST(:key AS TEXT) ELSE :key END"
_ID: Final = "CASE WHEN :id_is_text THEN CAST(:id AS TEXT) ELSE :id END"

# The condition that a waiting job comes after a position and is not due, written as one bound. SQLite uses only one
# bound for the index: with two, each page would start its scan at the present moment, or at the oldest ready job.
_AFTER_AND_NOT_DUE: Final = f"(due_at, id) > (max(:key, :now + 1), CASE WHEN :key > :now THEN {_ID} ELSE '' END)"

_WAITING: Final = f"queue = :queue AND priority IN (0, 1, 2, 3) AND state IN {WAITING}"
_NOT_DUE_STATES: Final[Mapping[JobState, str]] = {
    JobState.SCHEDULED: f"{_WAITING} AND state = {SCHEDULED}",
    JobState.RETRY_WAIT: f"queue = :queue AND state = {RETRY_WAIT}",
}
# The rows in a state. Each condition repeats the predicate of its partial index literally, or the index is not used.
_IN_STATE: Final[Mapping[JobState, str]] = {
    **{state: f"{waiting} AND due_at > :now" for state, waiting in _NOT_DUE_STATES.items()},
    JobState.READY: f"{_WAITING} AND due_at <= :now",
    JobState.LEASED: f"queue = :queue AND state = {LEASED}",
    **{
        state: f"queue = :queue AND state = {CODES[state]} AND state IN {FINISHED}"
        for state in (JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD)
    },
}

_AFTER: Final[Mapping[JobState, str]] = {
    **{state: f"{_IN_STATE[state]} AND ({key}, id) > ({_KEY}, {_ID})" for state, key in KEYS.items()},
    **{state: f"{waiting} AND {_AFTER_AND_NOT_DUE}" for state, waiting in _NOT_DUE_STATES.items()},
}


class Statements:
    """The statements for tables whose names begin with *prefix*, which has been checked."""

    def __init__(self, prefix: str) -> None:
        job, queue = f"{prefix}job", f"{prefix}queue"
        ready = f"j.queue = q.value AND j.priority = p.column1 AND j.state IN {WAITING} AND j.due_at <= :now"
        cells = f"""FROM json_each(:queues) AS q, {_PRIORITIES} AS p
WHERE EXISTS (SELECT 1 FROM {job} AS j WHERE {ready})
  AND NOT EXISTS (SELECT 1 FROM {queue} WHERE name = q.value AND paused)"""
        next_due = f"""SELECT min((SELECT j.due_at FROM {job} AS j
        WHERE j.queue = q.value AND j.priority = p.column1 AND j.state IN {WAITING} AND j.due_at > :now
        ORDER BY j.due_at LIMIT 1)) FROM json_each(:queues) AS q, {_PRIORITIES} AS p"""
        held = f"""FROM json_each(:queues) AS q, {job} AS j
WHERE j.state = {LEASED} AND j.queue = q.value AND j.lease_token = :token"""
        stray = f"FROM json_each(:queues) AS q, {job} AS j WHERE j.queue = q.value AND {STRAY}"
        inserted = (*Moments._fields, *STORED)
        self.insert = f"""INSERT INTO {job} ({", ".join(inserted)}, state)
VALUES ({", ".join("?" for _ in inserted)}, {SCHEDULED}) ON CONFLICT DO NOTHING"""
        self.find = f"SELECT {_COLUMNS} FROM {job} WHERE queue = ? AND id = ?"
        self.find_bytes = f"SELECT {_AS_BYTES} FROM {job} WHERE queue = ? AND id = ?"
        # Whether a lease call would return anything. It needs no write lock, so an idle worker takes none.
        self.any_work = f"SELECT EXISTS (SELECT 1 {cells}) OR EXISTS (SELECT 1 {held})"
        # For waiters: whether a job is ready, and when the next one is due.
        self.pending_work = f"SELECT EXISTS (SELECT 1 {cells}), ({next_due})"
        self.cells = f"SELECT q.value, p.column1 {cells}"
        self.held = f"SELECT {', '.join('j.' + column for column in COLUMNS)} {held}"
        self.claim = f"""UPDATE {job} SET state = {LEASED}, attempts = {_ONE_MORE.format("attempts")},
    lease_token = ?, lease_owner = ?, lease_until = ?
WHERE rowid IN (SELECT rowid FROM {job} WHERE queue = ? AND priority = ? AND state IN {WAITING} AND due_at <= ?
                ORDER BY due_at, id LIMIT ?)
RETURNING {_COLUMNS}"""
        # The id is bound as bytes, because it may not be UTF-8.
        self.bury_unreadable = f"""UPDATE {job} SET state = {DEAD}, finished_at = ?, {_FREE}
WHERE queue = ? AND id = CAST(? AS TEXT) AND lease_token = ?"""
        self.any_stray = f"SELECT EXISTS (SELECT 1 {stray})"
        self.bury_stray = f"""UPDATE {job} SET errors = CASE WHEN state IN {FINISHED} THEN errors ELSE {_APPENDED} END,
    state = CASE WHEN state IN {FINISHED} THEN state ELSE {DEAD} END, finished_at = :now, {_FREE}
WHERE rowid IN (SELECT j.rowid {stray} LIMIT :limit) RETURNING queue, id"""
        self.renew = f"UPDATE {job} SET lease_until = ? {_HELD}"
        # With retention 0 a finished job is deleted at once.
        self.finish = f"DELETE FROM {job} {_HELD}"
        self.complete = f"UPDATE {job} SET state = {SUCCEEDED}, finished_at = ?, result = ?, {_FREE} {_HELD}"
        self.fail = f"""UPDATE {job} SET errors = {_APPENDED}, state = :state, due_at = coalesce(:due_at, due_at),
    finished_at = :finished_at, {_RETURNED}, {_FREE}
WHERE queue = :queue AND id = :id AND lease_token = :token"""
        self.release = f"""UPDATE {job} SET state = {SCHEDULED}, attempts = attempts - (attempts > 0), {_FREE}
{_HELD}"""
        expired = f"""FROM json_each(:queues) AS q, {job} AS j
WHERE j.state = {LEASED} AND j.queue = q.value AND {_EXPIRY} <= :now"""
        self.recover = f"""UPDATE {job} SET errors = {_APPENDED}, due_at = :now,
    state = CASE WHEN {_USED_UP} THEN {DEAD} ELSE {SCHEDULED} END, finished_at = CASE WHEN {_USED_UP} THEN :now END,
    crashes = {_ONE_MORE.format("crashes")}, {_FREE}
WHERE rowid IN (SELECT j.rowid {expired} LIMIT :limit) RETURNING queue, state"""
        self.delete_used_up = f"""DELETE FROM {job}
WHERE rowid IN (SELECT j.rowid {expired} AND {_USED_UP} LIMIT :limit)"""
        self.next_due = next_due
        self.next_expiry = f"""SELECT min({_EXPIRY}) FROM json_each(:queues) AS q, {job} AS j
WHERE j.state = {LEASED} AND j.queue = q.value"""
        self.state_of = f"SELECT rowid, state, due_at <= ? FROM {job} WHERE queue = ? AND id = ?"
        self.cancel = f"UPDATE {job} SET state = {CANCELLED}, finished_at = :now WHERE rowid = :rowid"
        self.requeue = f"""UPDATE {job} SET state = {SCHEDULED}, due_at = :now, finished_at = NULL, attempts = 0,
    crashes = 0 WHERE rowid = :rowid"""
        self.delete_row = f"DELETE FROM {job} WHERE rowid = :rowid"
        self.add_queue = f"INSERT INTO {queue} (name) VALUES (?) ON CONFLICT DO NOTHING"
        self.pause = f"""INSERT INTO {queue} (name, paused) VALUES (:queue, :paused)
ON CONFLICT (name) DO UPDATE SET paused = :paused"""
        self.trim = f"""DELETE FROM {job} WHERE rowid IN (SELECT rowid FROM {job}
WHERE queue = ? AND state = ? AND state IN {FINISHED} AND finished_at <= ? ORDER BY finished_at LIMIT ?)"""
        self.any_outdated = f"""SELECT EXISTS (SELECT 1 FROM {job}
WHERE queue = ? AND state = ? AND state IN {FINISHED} AND finished_at <= ?)"""
        self.purge = {
            state: f"DELETE FROM {job} WHERE rowid IN (SELECT rowid FROM {job} WHERE {shown_state} LIMIT :limit)"
            for state, shown_state in _IN_STATE.items()
        }
        self.walk = {
            state: f"""SELECT {_COLUMNS} FROM {job}
WHERE {_AFTER[state]} {"AND priority = :priority" if goes_by_priority(state) else ""}
ORDER BY {KEYS[state]}, id LIMIT :limit"""
            for state in JobState
        }
        # The count of SCHEDULED includes the waiting retries, because no index distinguishes them.
        self.counts = {
            state: f"SELECT count(*) FROM (SELECT 1 FROM {job} WHERE {shown_state} LIMIT :cap)"
            for state, shown_state in {**_IN_STATE, JobState.SCHEDULED: f"{_WAITING} AND due_at > :now"}.items()
        }
        self.oldest_ready = f"""SELECT min((SELECT j.due_at FROM {job} AS j
    WHERE j.queue = :queue AND j.priority = p.column1 AND j.state IN {WAITING} AND j.due_at <= :now
    ORDER BY j.due_at LIMIT 1)) FROM {_PRIORITIES} AS p"""
        self.paused = f"SELECT name FROM {queue} WHERE paused"
        self.known_queues = f"""WITH RECURSIVE used (name) AS (
    SELECT min(queue) FROM {job}
    UNION ALL SELECT (SELECT min(queue) FROM {job} WHERE queue > used.name) FROM used WHERE used.name IS NOT NULL)
SELECT name FROM used WHERE name IS NOT NULL UNION SELECT name FROM {queue}"""
