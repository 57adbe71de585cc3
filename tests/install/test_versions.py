#!/usr/bin/env python3
"""Loads two releases of the headers into one process. Plugins of different releases must share neither state nor code,
however they are loaded: one is built from the headers, the other from a copy with the next version and another layout.
Plugins of one release must share both.
"""

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def next_release(include, copy):
    """Makes headers of a next release: they have the next version, and a process-wide state with a new member in the
    middle."""
    shutil.copytree(include, copy)
    added = sized = 0
    for header in itertools.chain(copy.rglob("*.hpp"), copy.rglob("*.h")):
        text = header.read_text()
        text = text.replace("inline v2", "inline v3").replace("usher_process_state_v2", "usher_process_state_v3")
        text, grown = re.subn(r"(\n  alignas\(4096\) [^\n]* waiting_array\b)", r"\n  unsigned char grown[4096];\1", text)
        text, resized = re.subn(r"(#define USHER_STATE_BYTES )(\d+)", lambda m: m[1] + str(int(m[2]) + 4096), text)
        added, sized = added + grown, sized + resized
        header.write_text(text)
    assert added == 1 and sized == 2, "the next release's layout has not changed: this test must be adapted"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    compilers = {os.path.realpath(shutil.which(c)): c for c in (options.cxx, "clang++-16") if shutil.which(c)}.values()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="usher-versions-") as temporary:
        folder = Path(temporary)
        next_release(options.include, folder / "next")

        def build(cxx, include, output, *flags):
            subprocess.run([cxx, "-std=c++20", "-O0", "-Wall", "-Werror", "-pthread", f"-I{include}", *flags, "-o",
                            folder / output], check=True, timeout=600)

        host = folder / "host"
        build(options.cxx, options.include, host, HERE / "versions" / "host.cpp", "-ldl")
        plugins = []
        for cxx in compilers:
            for release, include in (("this", options.include), ("next", folder / "next")):
                name = f"{release}-{Path(cxx).name}.so"
                build(cxx, include, name, "-fPIC", "-shared", HERE / "versions" / "plugin.cpp")
                plugins.append((release, folder / name))
        for (first, a), (second, b) in itertools.combinations(plugins, 2):
            for scope in ("local", "global"):
                for one, other in ((a, b), (b, a)):
                    expected = "shared" if first == second else "apart"
                    done = subprocess.run([host, scope, expected, one, other], timeout=300, text=True, capture_output=True)
                    ok = done.returncode == 0
                    print(f"{'ok  ' if ok else 'FAIL'}  {one.name}, then {other.name}, {scope}: {expected}")
                    if not ok:
                        failures += 1
                        print(done.stdout + done.stderr)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
