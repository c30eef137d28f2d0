"""
What the library costs, measured beside the baseline it stands on.

    python -m benchmarks.NAME --backend URL [--repeat N] [--json]

Each benchmark names measures; most have a baseline: the least that any program would pay for the same, measured in the
same run, in turns with the measure. Trust the ratios of one run, never absolute figures of two.
"""
