"""Compares the machine code of two builds of a library, function by function: the names of the instructions, in order.

    python3 -m tools.release.same_code build/release/lib/libusher.so build/portable/lib/libusher.so

Exit status 1: a function differs, or one build lacks it. Operands are not compared, since addresses differ between two
links.
"""

import collections
import re
import subprocess
import sys


def functions(library):
    """Returns {name: instructions}. Functions with the same name are one entry."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], check=True, text=True, capture_output=True).stdout
    found, name = collections.defaultdict(list), None
    for line in listing.splitlines():
        if heading := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            name = heading[1]
        elif name and (instruction := re.match(r"\s+[0-9a-f]+:\s+(\S+)", line)):
            found[name].append(instruction[1])
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    one, other = map(functions, sys.argv[1:])
    if not one:
        sys.exit(f"same_code: {sys.argv[1]} has no names of functions: it is stripped")
    different = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    print(f"{len(one)} functions, {len(different)} differ", *different[:20], sep="\n  ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
