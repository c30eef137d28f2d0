"""
The cost of the library, measured beside a baseline.

    python -m benchmarks.NAME --backend URL [--repeat N] [--json]

Each benchmark names measures; most have a baseline: the least that any program would pay for the same, run alternately
with the measure. Compare ratios of one run, never absolute figures of two runs.
"""
