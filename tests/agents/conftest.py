"""Lets the tests of this folder share what drives the clients."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
