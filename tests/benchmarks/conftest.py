"""The benchmarks are no part of what is installed; they stand beside the tests."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Last on the path: whatever is installed under test goes first.
sys.path.append(str(ROOT))
