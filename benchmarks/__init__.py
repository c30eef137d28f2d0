"""
What the library costs, measured beside the floor it stands on.

    python -m benchmarks.NAME --backend URL [--repeat N] [--json]

Each benchmark names measures; most have a floor: the least that any program would pay for the same, measured in the
same run, in turns with the measure. Trust the ratios of one run, never absolute figures of two.
"""
