"""The cluster of real nodes."""

import pytest

from servers import resp

pytestmark = pytest.mark.every_flavour

SLOT_OF_FOO = 12182


def test_every_slot_is_served_by_one_of_three_nodes(redis_cluster):
    owners = {redis_cluster.node_of_slot(slot).port for slot in range(0, 16_384, 64)}
    assert owners == {node.port for node in redis_cluster.nodes}


def test_a_killed_node_comes_back_with_its_keys(new_redis_cluster):
    cluster = new_redis_cluster(persistence="always")
    node = cluster.node_of_slot(SLOT_OF_FOO)
    node.command("SET", "foo", "1")
    node.kill()
    cluster.start()
    assert node.command("GET", "foo") == b"1"


def test_a_slot_can_be_left_half_migrated_and_moved(new_redis_cluster):
    cluster = new_redis_cluster()
    source = cluster.node_of_slot(SLOT_OF_FOO)
    target = next(node for node in cluster.nodes if node is not source)
    source.command("SET", "foo", "1")
    cluster.begin_migration(SLOT_OF_FOO, target)
    assert source.command("GET", "foo") == b"1"
    with pytest.raises(resp.CommandError, match="ASK"):
        source.command("GET", "absent{foo}")
    cluster.finish_migration(SLOT_OF_FOO, target)
    assert target.command("GET", "foo") == b"1"
    with pytest.raises(resp.CommandError, match="MOVED"):
        source.command("GET", "foo")
