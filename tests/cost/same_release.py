#!/usr/bin/env python3
"""The release of MCSg must equal that of MCS (MCSg paper, Algorithm 1, line 21), instruction by instruction. Compares the machine code of
both.

same_release.py OBJECT SHARED   the compiled releases.cpp, and shared_locks.cpp, which must not use thread-local storage
"""

import re
import shutil
import subprocess
import sys


def functions(path):
    """Returns {name: instructions} of the functions, without addresses: a place in a function is given by its distance
    from the function's beginning."""
    listing = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", path], capture_output=True, text=True, check=True,
                             timeout=300).stdout
    found, name, begin = {}, None, 0
    for line in listing.splitlines():
        if match := re.match(r"([0-9a-f]+) <(\w+)>:$", line):
            begin, name = int(match[1], 16), match[2]
            found[name] = []
        elif name and (match := re.match(r"\s+([0-9a-f]+):\s+(.*)$", line)):
            text = match[2].replace(f"<{name}", "<self")
            if "R_X86_64" in text:
                found[name].append(text)
            else:
                text = re.sub(r"\b[0-9a-f]+ (<self)", r"\1", text)
                text = re.sub(r"\b[0-9a-f]+ <.*>$", "elsewhere", text) if "<self" not in text else text
                found[name].append(f"+{int(match[1], 16) - begin:x} {text}")
    return found


def main():
    if not shutil.which("objdump"):
        sys.exit("needs objdump")
    code = functions(sys.argv[1])
    for kind in ("polling", "sleeping"):
        mcs, mcsg = (trim(code[f"{lock}_{kind}"]) for lock in ("mcs", "mcsg"))
        if mcs != mcsg:
            different = [f"{a}\n    {b}" for a, b in zip(mcs, mcsg) if a != b]
            sys.exit(f"{kind}: {len(mcs)} and {len(mcsg)} instructions; differ in:\n    " + "\n    ".join(different))
        if len(mcs) < 10:
            sys.exit(f"{kind}: {len(mcs)} instructions are no release")
        print(f"{kind}: the same {len(mcs)} lines of code")

    code = functions(sys.argv[2])
    if sum("cmpxchg" in line for lines in code.values() for line in lines) < 10:
        sys.exit("no locks in the second object")
    # begin_epoch() is exempt: the native platform calls it once in each process, and it must know the calling thread.
    found = [name for name, lines in code.items() if "begin_epoch" not in name
             and any(re.search(r"TPOFF|TLSGD|TLSLD|TLSDESC|%fs:(?!0x28)", line) for line in lines)]
    if found:
        sys.exit(f"thread-local storage in locks between processes: {found}")
    print("no thread-local storage in locks between processes")


def trim(lines):
    """Returns the lines without the padding at the function's end."""
    while lines and re.search(r" (nop|xchg   %ax,%ax|cs nop|data16)", lines[-1]):
        lines = lines[:-1]
    return lines


if __name__ == "__main__":
    main()
