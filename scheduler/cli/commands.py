"""
Commands, their options and their help.

Each command imports its implementation when it is called, because `healthcheck` is started every few seconds.
"""

from __future__ import annotations

import math
import sys

import click


@click.group(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reliable-scheduler")
def scheduler() -> None:
    """Reliable, distributed, delayed job execution."""


def _names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value is not None else None


def _finite(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value


@scheduler.command(context_settings={"show_default": True})
@click.argument("target", metavar="MODULE:WORKER")
@click.option("--processes", "-p", type=click.IntRange(1, 1024), default=1, help="Worker processes.")
@click.option("--threads", "-t", type=click.IntRange(1), help="Handler threads per process.")
@click.option("--queues", "-q", callback=_names, help="Queues to serve, separated by commas.")
@click.option("--worker-id", help="Identity in logs and on leases.  [default: host:pid:random]")
@click.option("--grace", type=click.FloatRange(0.0), help="Seconds that a stop may take.")
@click.option("--burst", is_flag=True, help="Run what is ready, then exit.")
@click.option("--max-jobs", type=click.IntRange(1), help="Exit after about this many jobs; a supervisor restarts it.")
@click.option(
    "--max-memory",
    type=click.FloatRange(1.0),
    callback=_finite,
    help="Exit above this many MiB of memory; a supervisor restarts it.",
)
@click.option(
    "--max-silence",
    type=click.FloatRange(0.0),
    callback=_finite,
    default=60.0,
    help="A supervisor replaces a process that sends no status for this many seconds; 0 = never.",
)
@click.option(
    "--watch",
    multiple=True,
    type=click.Path(exists=True),
    help="Restart when a Python file in this folder changes.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text")
@click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), default="INFO")
@click.option("--health-host", default="127.0.0.1", help="Address for --health-port.")
@click.option("--health-port", type=click.IntRange(0, 65_535), help="Serve /live and /ready on this port.")
@click.option("--metrics", is_flag=True, help="Also serve /metrics on the health port.")
def worker(**options: object) -> None:
    """
    Run the worker MODULE:WORKER, or one made by a factory, MODULE:create().

    TERM or INT: stop within the grace; a second one ends the process at once. USR2: lease no more jobs and finish the
    held ones. USR1: dump stacks. Every option can be set by an environment variable: SCHEDULER_WORKER_THREADS=8.

    Exit status: 0 stopped as requested, 1 a bug, 2 an error to correct (command line, configuration, import, schema),
    3 stuck threads, 4 jobs abandoned, 5 the store cannot be used.
    """
    from scheduler.cli.launch import launch  # noqa: PLC0415 - see above
    from scheduler.cli.options import WorkerOptions  # noqa: PLC0415 - see above

    sys.exit(launch(WorkerOptions(**options)))  # type: ignore[arg-type]  # click has checked them


@scheduler.command(context_settings={"show_default": True})
@click.option(
    "--health-port",
    required=True,
    type=click.IntRange(1, 65_535),
    envvar=["SCHEDULER_HEALTHCHECK_HEALTH_PORT", "SCHEDULER_WORKER_HEALTH_PORT"],
    help="The worker's --health-port.",
)
@click.option(
    "--health-host",
    default="127.0.0.1",
    envvar=["SCHEDULER_HEALTHCHECK_HEALTH_HOST", "SCHEDULER_WORKER_HEALTH_HOST"],
    help="The worker's --health-host.",
)
@click.option("--ready", is_flag=True, help="Check that it takes jobs, not only that it is alive.")
@click.option(
    "--timeout", type=click.FloatRange(0.01, 86_400.0), callback=_finite, default=2.0, help="Seconds in total."
)
def healthcheck(health_port: int, health_host: str, timeout: float, *, ready: bool) -> None:
    """
    Request a worker's health from its port, and print the response.

    Exit status: 0 healthy, 1 unhealthy or no response in time, 2 usage.
    """
    from scheduler.cli.healthcheck import ask  # noqa: PLC0415 - see above

    good, text = ask(health_host, health_port, "/ready" if ready else "/live", timeout)
    click.echo(text, err=not good)
    sys.exit(0 if good else 1)
