"""Claims about time: every benchmark is ``python -m benchmarks.NAME --backend URL [--repeat N] [--json]``."""
