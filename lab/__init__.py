"""The laboratory, which measures and judges Usher. Its scripts run from the tree's root, `python3 -m lab.arena list`;
they import the modules of tools/ by name."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
