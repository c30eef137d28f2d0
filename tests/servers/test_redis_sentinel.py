"""Master, replica and Sentinels as real processes."""

import pytest

pytestmark = pytest.mark.every_flavour


def test_a_replica_takes_the_place_of_a_killed_master(new_sentinel_group):
    group = new_sentinel_group()
    old = group.master
    assert old is group.servers[0]
    old.command("SET", "key", "1")
    assert old.command("WAIT", 1, 10_000) == 1
    old.kill()
    new = group.wait_for_other_master(old)
    assert new.command("GET", "key") == b"1"
    assert new.command("SET", "key", "2") == b"OK"


def test_a_replica_that_became_master_is_master_after_a_restart(new_sentinel_group):
    group = new_sentinel_group(sentinels=1)
    new = group.fail_over()
    new.restart()
    assert new.info("replication")["role"] == "master"
