"""
The conformance suite: what every backend must do, as one class of tests.

A backend's own test file says how to open one, and that is all::

    class TestMemoryBackend(BackendContract):
        @pytest.fixture
        def open_backend(self):
            return MemoryBackend

`open_backend` gives a callable that takes `clock` and `retention` and returns a new backend; pytest's parameters, such
as ``params=[1, 8]`` for numbers of partitions, work as usual. Backends opened within one test share one store, unless
they are `in_process`. The suite asks a backend what it can do and skips, with the reason, what it does not offer. It
needs fresh queue names only, so the store may be shared and full.

A store that decodes what it reads joins the chapter on damage by saying how to spoil a record behind its back::

    class TestMyBackend(BackendContract):
        damages = {
            "priority 9": Damage(field="priority", write=lambda backend, queue, id: ...),
        }

Each case is tried in each state in which a job can lie. `damages_of_id`, of `IdDamage`, is for ids that no job can
have. `damages_of_queue`, of `QueueDamage`, is for what a store keeps of a queue rather than of a job. See
`scheduler.testing.contract.damage`.

Without a file, a backend that an installed package offers by URL is tested by
``pytest --pyargs scheduler.testing.contract --scheduler-backend URL``.

Needs the extra `testing`. Each file holds one move or one aspect. A guarantee that it names by number stands in
docs/guarantees.md.
"""

from pkgutil import iter_modules

import pytest

# Before the files are imported, so that their plain asserts explain themselves when they fail.
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
