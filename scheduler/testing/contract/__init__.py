"""
The conformance suite: one test class that checks what every backend must do.

The test file of a backend only says how to open one::

    class TestMemoryBackend(BackendContract):
        @pytest.fixture
        def open_backend(self):
            return MemoryBackend

`open_backend` gives a callable that takes `clock` and `retention` and returns a new backend; pytest's parameters, such
as ``params=[1, 8]`` for numbers of partitions, work as usual. Backends opened within one test share one store, unless
they are `in_process`. Tests of abilities that the backend lacks are skipped with the reason, or not collected if
`backend_type` is set. Every test uses new queue names, so the store may be shared and contain other jobs.

If a store decodes records, its test class also says how to damage one, bypassing the store::

    class TestMyBackend(BackendContract):
        damages = {
            "priority 9": Damage(field="priority", write=lambda backend, queue, id: ...),
        }

Each case is tested in each state that a job can have. `damages_of_id` (`IdDamage`) gives a job an id that no job can
have. `damages_of_queue` (`QueueDamage`) damages a record of a queue rather than of a job. See
`scheduler.testing.contract.damage`.

A backend that an installed package offers by URL can be tested without a test file:
``pytest --pyargs scheduler.testing.contract --scheduler-backend URL``.

Needs the extra `testing`. Each module tests one move or one aspect. The numbered guarantees are listed in
docs/guarantees.md.
"""

from pkgutil import iter_modules

import pytest

# Must come before the imports below, so that pytest rewrites the asserts of these modules.
pytest.register_assert_rewrite(
    "scheduler.testing.reading",
    "scheduler.testing.harness",
    "scheduler.testing.job_states",
    "scheduler.testing.invariants",
    *(f"{__name__}.{module.name}" for module in iter_modules(__path__) if not module.name.startswith("test_")),
)

from scheduler.testing.contract.damage_cases import Damage, IdDamage, QueueDamage  # noqa: E402 - after the line above
from scheduler.testing.contract.suite import BackendContract  # noqa: E402 - after the line above, whose point it is

__all__ = ["BackendContract", "Damage", "IdDamage", "QueueDamage"]
