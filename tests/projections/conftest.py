"""Puts this folder on the path: the tests of every projector share `law` and `journal`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
