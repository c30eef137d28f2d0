"""
Benchmarks of the library, measured against baselines.

    python -m benchmarks.NAME --backend URL [--repeat N] [--json]

Each benchmark has one or more measures. Most have a baseline: the least that any program would pay for the same work.
Measure and baseline run alternately. Compare ratios of one run, never absolute figures of two runs.
"""
