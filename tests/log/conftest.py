"""This folder on the path, for `damaging`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
