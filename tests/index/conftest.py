"""The tools on the path, for what lays out the tables that ship."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
