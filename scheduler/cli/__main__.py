"""Entry point of `python -m scheduler.cli`, with which the supervisor starts worker processes."""

from scheduler.cli import main

main()
