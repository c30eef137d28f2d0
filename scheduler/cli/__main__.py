"""`python -m scheduler.cli`: how the supervisor starts its worker processes."""

from scheduler.cli import main

main()
