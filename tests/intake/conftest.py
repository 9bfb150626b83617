"""Puts this folder on the path: several tests share `made_up`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
