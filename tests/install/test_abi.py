#!/usr/bin/env python3
"""Tests the interface of libusher-locks.so for programs that were linked with it: its soname, its functions (those of
usher.h and no others), the symbol of the process-wide state, the libraries that it needs.
debian/libusher-locks0.symbols has the same list of symbols, with the release of each function.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
STATE = "usher_process_state_v2"

failures = []


def expect(what, found, wanted):
    ok = found == wanted
    print(f"{'ok  ' if ok else 'FAIL'}  {what}")
    if not ok:
        failures.append(what)
        print(f"  found {found}\n  instead of {wanted}")


def said(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=150).stdout


def declared():
    """Returns the functions of usher.h; comments are ignored."""
    text = re.sub(r"/\*.*?\*/", "", (TREE / "include/usher/usher.h").read_text(), flags=re.DOTALL)
    return set(re.findall(r"\b(usher_\w+)\([^()]*\);", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--release", action="store_true", help="the library is optimised and must need the C library alone")
    options = parser.parse_args()

    symbols = {fields[-1]: fields[-2] for fields in map(str.split, said("nm", "-D", "--defined-only", options.library).splitlines())}
    expect("exports the functions of usher.h and the process's state", sorted(symbols), sorted(declared() | {STATE}))
    expect("the process's state is one object, however it is loaded", symbols.get(STATE), "u")
    listed = re.findall(r"^ (\w+)@Base \d+\.\d+\.\d+$", (TREE / "debian/libusher-locks0.symbols").read_text(), re.MULTILINE)
    expect("Debian's list has the same symbols", listed, sorted(symbols))

    dynamic = said("readelf", "--dynamic", "--wide", options.library)
    expect("soname", re.findall(r"\(SONAME\).*\[(.*)\]", dynamic), ["libusher-locks.so.0"])
    folder = options.library.resolve().parent
    expect("the symbolic links", {name: (folder / name).resolve() for name in ("libusher-locks.so", "libusher-locks.so.0")},
           {name: options.library.resolve() for name in ("libusher-locks.so", "libusher-locks.so.0")})
    if options.release:
        # The library needs the loader only if it uses thread-local storage.
        expect("needs the C library and nothing else",
               set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) - {"ld-linux-x86-64.so.2"}, {"libc.so.6"})
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
