"""Reading the frames of a thread that runs. In a process of its own, since a mistake there may end it."""

from __future__ import annotations

import subprocess
import sys

from worker.harness import SOON

# A collection that starts while a frame is looked at runs Python, so the other thread runs too and leaves that frame.
# Frames of many sizes: what is left behind is then soon overwritten by something else.
_PROGRAM = """
import gc, random, sys, threading
from types import FrameType
from scheduler.worker.frames import collector_paused, frames_of, stack_of

def collecting(phase, info):
    for _ in range(200):
        pass

def of_size(size):
    names = ", ".join(f"a{i}={i}" for i in range(size))
    space = {}
    exec(
        f"def step(depth, steps, {names}):\\n"
        "  return depth and list(map(lambda _: random.choice(steps)(depth - 1, steps), [1]))",
        {"random": random}, space,
    )
    return space["step"]

def work():
    steps = [of_size(size) for size in (1, 3, 8, 15, 40, 100)]
    begun.set()
    while not over:
        random.choice(steps)(random.randrange(17), steps)

over = False
begun = threading.Event()
sys.setswitchinterval(1e-6)
gc.callbacks.append(collecting)
gc.set_threshold(20, 1_000, 1_000)
thread = threading.Thread(target=work)
thread.start()
begun.wait()
try:
    for turn in range(40_000):
        with collector_paused():
            frames = frames_of(thread.ident)
        assert {type(frame) for frame in frames} == {FrameType}, frames
        if turn % 100 == 0:
            assert "in work" in stack_of(thread.ident, 50)
finally:
    over = True
assert gc.isenabled()
thread.join()
with collector_paused():
    assert frames_of(thread.ident) == []
assert stack_of(thread.ident, 50) == ""
"""


def test_frames_of_a_running_thread_are_frames_whatever_the_collector_does() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=4 * SOON, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
