"""The main job: real files in, every digest right, and nothing that is wrong goes unseen."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.plugins import backend_from_url
from scheduler.states import JobState

SCRIPT = Path(__file__).parents[2] / "examples" / "checksums.py"
spec = importlib.util.spec_from_file_location("checksums", SCRIPT)
checksums = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checksums)


@pytest.fixture
def folder(tmp_path):
    """Files of every queue, names that are not UTF-8, an empty file, and what must be left out."""
    folder = tmp_path / "files"
    (folder / "deep" / "deeper").mkdir(parents=True)
    for number in range(20):
        (folder / "deep" / f"{number} ü.bin").write_bytes(os.urandom(number * 997))
    (folder / "deep" / "deeper" / "large").write_bytes(os.urandom(100_000))
    (folder / "empty").touch()
    Path(os.fsdecode(os.fsencode(folder) + b"/not-utf8-\xff")).write_bytes(b"\x00\xff")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "skipped").touch()
    os.mkfifo(folder / "a pipe, which nobody ever writes to")
    return folder


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_every_file_is_hashed(folder):
    """23 files, the pipe and the cache left out; the last line says that hashlib agrees."""
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert "23 jobs in" in done.stdout
    assert done.stdout.splitlines()[-1] == "Every digest is the one that hashlib computes."


def test_a_file_that_cannot_be_read_is_tried_again_and_ends_in_dead_with_the_reason(folder):
    """A link that leads nowhere: three attempts, then dead, which is no difference to what hashlib says."""
    (folder / "vanished").symlink_to(folder / "nowhere")
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert "vanished: FileNotFoundError:" in done.stdout
    [total] = [line.split() for line in done.stdout.splitlines() if line.startswith("  all ")]
    assert total[:4] == ["all", "23", "1", "1"]


def test_a_wrong_digest_a_lost_job_and_a_dead_one_are_differences(folder):
    """The check at the end would see each of them."""
    backend = backend_from_url(checksums.keeping_results("memory"))
    run = checksums.Checksums(backend)
    with run.worker:
        run.enqueue(checksums.files_under(folder), ahead=False)
        run.wait("test")
    assert list(run.differences()) == []
    changed, lost, dead, *others = run.done
    run.files[changed].write_bytes(b"changed after it was hashed")
    del run.done[lost]
    object.__setattr__(run.done[dead], "state", JobState.DEAD)
    told = list(run.differences())
    assert len(told) == 3
    for id in (changed, lost, dead):
        assert any(str(run.files[id]) in line for line in told)
    for id in others:
        assert json.loads(run.done[id].result) == hashlib.sha256(run.files[id].read_bytes()).hexdigest()


def test_an_empty_folder_and_an_unknown_store_are_refused(tmp_path):
    """With a line that says what is wrong."""
    assert run(tmp_path).returncode == 2
    (tmp_path / "file").write_text("content")
    done = run(tmp_path, "--backend", "nosuch://store")
    assert done.returncode == 2
    assert "nosuch://" in done.stderr
    assert "Traceback" not in done.stderr
