"""
Becomes a program that dies with the process that started it. Run as a script, never imported.

A script, not a `preexec_fn`: Python code between fork and exec may deadlock in a process with threads, and warns there.
Arguments: the parent's pid, the death signal's number, "uid:gid" or "-", then the program and its arguments.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, death_signal, identity, *command = sys.argv[1:]
    # A suite that was started in the background, or by nohup, ignores these, and so would all that it starts.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if identity != "-":
        uid, gid = map(int, identity.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After the change of user, which would clear it.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != int(parent):  # it died before the kernel was told
            sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 - becoming the server is the purpose


main()
