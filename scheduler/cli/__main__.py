"""`python -m scheduler.cli`, which is how the supervisor starts its children."""

from scheduler.cli import main

main()
