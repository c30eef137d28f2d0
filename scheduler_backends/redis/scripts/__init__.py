"""
The Lua scripts, one file per operation, loaded on import. Each file begins with a signature that this module parses:

    #!lua flags=…          flags for the server: see Redis' documentation of scripts
    -- NAME: what it does
    -- KEYS     names of the keys, in this order; each becomes a local variable
    -- ARGV     arguments
    -- uses     files of prelude/ that are prepended
    -- returns  what the script returns
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Final

from scheduler.states import JobState

SLICE: Final = 1_000
"""Maximum number of jobs in one script call: Lua's unpack fails near 8,000 values."""

COUNTED: Final = tuple(JobState)
"""The states in the order in which stats.lua and seal.lua count them."""


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """One script, with the text and hash that are sent."""

    name: str
    keys: tuple[str, ...]
    text: bytes
    sha: bytes


def _words(label: str, text: str, name: str) -> tuple[str, ...]:
    found = re.search(rf"^-- {label}(.*)$", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"{name}.lua has no line {label!r} in its signature")
    return tuple(found.group(1).split())


def _load(name: str) -> Script:
    folder = files(__name__)
    text = folder.joinpath(f"{name}.lua").read_text("utf-8")
    keys = _words("KEYS", text, name)
    shebang, body = text.split("\n", 1)
    prelude = [folder.joinpath("prelude", f"{part}.lua").read_text("utf-8") for part in _words("uses", text, name)]
    locals_ = f"local {', '.join(keys)} = {', '.join(f'KEYS[{number + 1}]' for number in range(len(keys)))}"
    source = "\n".join((shebang, "local call = redis.call", locals_, *prelude, body)).encode()
    return Script(name, keys, source, sha1(source, usedforsecurity=False).hexdigest().encode())


ENQUEUE = _load("enqueue")
PROMOTE_DUE = _load("promote_due")
LEASE = _load("lease")
RENEW = _load("renew")
COMPLETE = _load("complete")
RETRY = _load("retry")
BURY = _load("bury")
RELEASE = _load("release")
RECOVER_EXPIRED = _load("recover_expired")
CANCEL = _load("cancel")
REQUEUE = _load("requeue")
GET = _load("get")
LIST = _load("list")
STATS = _load("stats")
PURGE = _load("purge")
TRIM = _load("trim")
REPAIR = _load("repair")
SEARCH = _load("search")
RESTORE = _load("restore")
PAUSE = _load("pause")
QUARANTINE = _load("quarantine")
OPEN_GATE = _load("open_gate")
SEAL = _load("seal")
CLEAR = _load("clear")
IMPORT_FINISHED = _load("import_finished")
DELETE_MOVED = _load("delete_moved")
TOPOLOGY_CREATE = _load("topology_create")
TOPOLOGY_PROMOTE = _load("topology_promote")
TOPOLOGY_REMOVE = _load("topology_remove")
TOPOLOGY_PAUSE = _load("topology_pause")
LOOK = _load("look")
CHANGE = _load("change")
MARK = _load("mark")
MARKED = _load("marked")
UNMARK = _load("unmark")
UNMARK_OWN = _load("unmark_own")
