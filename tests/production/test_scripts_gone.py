"""A worker does not notice that its server has forgotten the scripts."""

from __future__ import annotations

import pytest

from production.conftest import STORES
from production.embedded import LEASE, service_threads
from production.place import Place
from programs import wait_until


@pytest.mark.integration
def test_a_worker_goes_on_while_the_script_cache_is_flushed(request, tmp_path, redis_url, new_crew):
    """Guarantee 21: twenty times, while jobs flow and others last longer than their lease."""
    redis = pytest.importorskip("redis")
    place = Place(STORES["redis"](request), tmp_path)
    crew = new_crew(place.url, concurrency=4)
    quick = []
    crew.worker.handle("quick", lambda job, ctx: crew.runs.update([job.id]))
    with crew.worker, redis.Redis.from_url(redis_url) as raw:
        lasting = [place.add("work", max_retries=3) for _ in range(2)]
        wait_until(lambda: len(crew.runs) == 2)
        threads = service_threads()
        renewed = crew.calls["renew"]
        for _ in range(20):
            quick += [place.add("quick", max_retries=3) for _ in range(5)]
            raw.script_flush()
            count = len(quick)
            wait_until(lambda count=count: len(crew.runs) >= count)  # all of them but two: the lasting ones count too
        wait_until(lambda: crew.calls["renew"] > renewed + LEASE / 0.3)
        crew.go.set()
        place.until_finished(*lasting, *quick)
        assert service_threads() == threads
    assert place.states([*lasting, *quick]) == {"succeeded": 102}
    assert crew.runs == dict.fromkeys([*lasting, *quick], 1)
    assert {(job.attempts, job.crashes) for job in map(place.job, [*lasting, *quick])} == {(1, 0)}
    assert not [name for name in crew.metrics.counts if name.startswith("call_failed")]
    place.close()
