"""Names of keys: no two things share one, and a partition is one cluster slot."""

from __future__ import annotations

from itertools import product

import pytest
from redis.crc import key_slot

from scheduler_backends.redis import scripts
from scheduler_backends.redis.keys import SHARED, SUFFIXES, Keys

QUEUES = [
    "a",
    "a:b",
    "a:v1:p0",
    "a%3Ab",
    "{x}",
    "}",
    "{",
    "*",
    "%s",
    "ä/日本",
    "with space",
    "a:wake",
    "queues",
    "a:topo",
]


def test_no_two_queues_share_a_key():
    seen: dict[bytes, tuple[str, str]] = {}
    for prefix, queue in product(["p", "p:a", "{p}", "p%7D"], QUEUES):
        keys = Keys(prefix)
        names = [keys.topology(queue), keys.channel(queue)]
        names += [
            keys.partition(queue, version, number).key(name)
            for version in (1, 2)
            for number in (0, 1, 11)
            for name in SUFFIXES
        ]
        for name in names:
            assert seen.setdefault(name, (prefix, queue)) == (prefix, queue)
            assert name != keys.queues
    assert len(seen) == 4 * len(QUEUES) * (2 + 6 * len(SUFFIXES))


@pytest.mark.parametrize("queue", QUEUES)
def test_all_keys_of_a_partition_share_a_slot(queue):
    partition = Keys("{odd}:prefix").partition(queue, 3, 7)
    slots = {key_slot(partition.key(name)) for name in SUFFIXES} | {key_slot(partition.tag)}
    assert len(slots) == 1


def test_every_script_declares_keys_that_exist_and_no_more_than_it_uses():
    for script in vars(scripts).values():
        if isinstance(script, scripts.Script) and not script.name.startswith("topology"):
            assert set(script.keys) <= set(SUFFIXES) or set(script.keys) <= set(SHARED)
            text = script.text.decode()
            for name in script.keys:
                used = text.count(name) - 1 - text.count("-- KEYS")  # its local, and the line of the signature
                assert used > 0, f"{script.name} does not use {name}"
