#!/usr/bin/env python3
"""libusher.so, which is mapped into every program that runs under Usher, must stay small: locks that few programs use belong
into libusher-all.so. The limit holds for the file as it is built, with its symbols."""

import sys
from pathlib import Path

MOST_BYTES = 1_800_000

usual, full = (Path(path).stat().st_size for path in sys.argv[1:])
print(f"libusher.so has {usual} bytes, at most {MOST_BYTES}; libusher-all.so has {full}")
sys.exit(0 if usual <= MOST_BYTES and usual < full else 1)
