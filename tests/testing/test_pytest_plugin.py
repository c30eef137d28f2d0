"""Tests of `--scheduler-backend URL` in a separate project, as a third party uses it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_backend.py"
SUITE = ("--pyargs", "scheduler.testing.contract")
STRICT = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-W", "error", "--strict-markers", "--strict-config")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*STRICT, *arguments, timeout=300)


def test_the_suite_runs_over_every_backend_named(pytester: pytest.Pytester) -> None:
    urls = ("--scheduler-backend", "memory", "--scheduler-backend", "memory://?partitions=8")
    result = run(pytester, *SUITE, *urls, "-k", "a_leased_job_is_not_leased_again", "-vv")
    result.assert_outcomes(passed=2, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*leased_again?memory1?*", "*leased_again?memory2?*"])


def test_a_url_with_a_password_is_not_shown(pytester: pytest.Pytester) -> None:
    """Neither in test names nor in the arguments that a failing test shows."""
    pytester.makepyfile("def test_mine(scheduler_backend_url): assert not scheduler_backend_url")
    result = run(pytester, "--scheduler-backend", "redis://user:secret@127.0.0.1:1/0", "-vv")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["scheduler_backend_url = *redis://user:[*][*][*]@127.0.0.1:1/0*"])
    assert not [line for line in result.outlines if "secret" in line and "running:" not in line]


def test_without_a_url_the_suite_is_skipped_and_says_why(pytester: pytest.Pytester) -> None:
    result = run(pytester, *SUITE, "-rs", "-k", "ping_returns")
    result.assert_outcomes(skipped=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*no backend to test: give --scheduler-backend URL*"])


def test_what_a_backend_does_not_offer_is_skipped_with_the_reason(pytester: pytest.Pytester, own: str) -> None:
    result = run(
        pytester,
        *SUITE,
        "--scheduler-backend",
        own,
        "-rs",
        "-k",
        "test_every_waiter_of_a_queue_wakes_up or unused_queue",
    )
    result.assert_outcomes(skipped=2, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*does not offer TopologyAdmin*", "*does not offer Wakeups*"])


def test_a_stranger_s_backend_is_found_by_its_url_and_passes(pytester: pytest.Pytester, own: str) -> None:
    """Runs the whole suite, except for slow tests."""
    result = run(pytester, *SUITE, "--scheduler-backend", own, "-k", "not many and not large and not sequence")
    outcomes = result.parseoutcomes()
    assert result.ret == 0, result.stdout.str()
    assert outcomes["passed"] > 400
    assert "failed" not in outcomes


def test_an_unknown_url_fails_with_a_clear_error(pytester: pytest.Pytester) -> None:
    result = run(pytester, *SUITE, "--scheduler-backend", "nosuch://", "-k", "ping_returns")
    result.assert_outcomes(errors=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*no installed package offers a backend for nosuch://*"])


def test_a_program_s_own_tests_can_run_over_the_urls_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from scheduler import backend_from_url

        def test_mine(scheduler_backend_url):
            backend_from_url(scheduler_backend_url).ping()
        """
    )
    run(pytester, "--scheduler-backend", "memory", "--scheduler-backend", "memory").assert_outcomes(passed=2)
    run(pytester).assert_outcomes(skipped=1)


def test_the_option_is_explained(pytester: pytest.Pytester) -> None:
    run(pytester, "--help").stdout.fnmatch_lines(["*--scheduler-backend=URL*"])


def test_a_failing_assert_of_the_suite_explains_itself(pytester: pytest.Pytester) -> None:
    """The asserts of the suite are rewritten, although its modules are no test modules."""
    pytester.makepyfile(
        """
        import pytest
        from scheduler.testing.contract import BackendContract
        from scheduler_backends.memory import MemoryBackend

        class NoAttempts(MemoryBackend):
            def lease(self, queues, **options):
                return []

        class TestBroken(BackendContract):
            @pytest.fixture
            def open_backend(self):
                return NoAttempts
        """
    )
    result = run(pytester, "-k", "test_a_job_for_now_can_be_leased_at_once")
    result.stdout.fnmatch_lines(["E*assert *[[]] == [[]'*']*"])


@pytest.mark.parametrize("joins", [False, True])
def test_the_end_of_a_run_names_a_chapter_only_if_no_class_of_the_backend_joined_it(
    pytester: pytest.Pytester, *, joins: bool
) -> None:
    """A backend may have a separate test class for its damages."""
    pytester.makepyfile(
        f"""
        import pytest
        from scheduler.testing.contract import BackendContract, Damage
        from scheduler_backends.memory import MemoryBackend

        class TestMine(BackendContract):
            backend_type = MemoryBackend

            @pytest.fixture
            def open_backend(self):
                return MemoryBackend

        class TestMineDamaged(TestMine):
            damages = {{"none": Damage(field="type", write=lambda backend, queue, id: None)}} if {joins} else {{}}
        """
    )
    result = run(pytester, "-k", "test_ping")
    assert result.ret == 0
    lines = [line for line in result.outlines if line.startswith("MemoryBackend: ")]
    assert any("TransactionalEnqueue" in line for line in lines)
    assert any("records that can be spoilt" in line for line in lines) != joins


@pytest.fixture
def own(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install the example as a third-party package that offers the scheme own://."""
    packages = pytester.mkdir("site")
    shutil.copy(EXAMPLE, packages / "own_backend.py")
    about = packages / "own_backend-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-backend\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[scheduler.backends]\nown = own_backend:DictBackend\n")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    return "own://"
