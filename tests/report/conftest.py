"""Tests of the report use the same made-up results as the tests of the figures."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "figures"))
