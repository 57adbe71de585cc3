#!/usr/bin/env python3
"""Counts the instructions of an uncontended pthread_mutex_lock() and pthread_mutex_unlock() on AArch64: those of the C library, and
those of libusher.so under the default lock.

  tests/aarch64/fast_paths.py [--build build/aarch64] [--list]     after make arm

qemu-aarch64 executes fast_paths.c one instruction at a time and writes a trace; objdump names the instructions. The
program has two threads. The counts are of the third lock and unlock, without the program's own instructions. They say
nothing about time.

Each count is made for two processors. On `max`, libgcc's outlined atomic functions (-moutline-atomics, gcc's default)
execute the atomic instructions of LSE; on `cortex-a57` they execute loops of exclusive loads and stores. The status is
1 if the library has more instructions that order memory than the C library: acquire and release loads and stores,
atomic instructions and barriers.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
ORDERING = re.compile(r"(ldar|ldapr|stlr|ld[a]?xr|st[l]?xr|ldaxr|stlxr|swp|cas|ldadd|ldset|ldclr|ldeor|dmb|dsb|isb)")


def output(*command, env=None):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=120, env=env).stdout


def disassembly(path):
    """Returns {address: (mnemonic, operands)} of a file."""
    lines = output("aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", path).splitlines()
    found = (re.match(r"\s*([0-9a-f]+):\t(\S+)\s*(.*)", line) for line in lines)
    return {int(m[1], 16): (m[2], m[3]) for m in found if m}


class Tracer:
    def __init__(self, build, folder):
        self.root, self.folder = TREE / "build/aarch64-root", Path(folder)
        self.emulator = TREE / "build/qemu-root/usr/bin/qemu-aarch64"
        self.library = build / "lib/libusher.so"
        self.program = self.folder / "fast_paths"
        self.code = {}
        output("aarch64-linux-gnu-gcc-12", f"--sysroot={self.root}", "-O2", "-Wl,-z,now", "-o", self.program,
               Path(__file__).with_suffix(".c"))

    def instructions(self, processor, preload):
        """Returns the instructions of one lock and of one unlock, each as a list of (mnemonic, operands)."""
        trace = self.folder / "trace"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "USHER_"))}
        set_there = ["-E", f"LD_PRELOAD={self.library},USHER_LOCK=steady"] if preload else []
        maps = output(self.emulator, "-cpu", processor, "-L", self.root, *set_there, "-one-insn-per-tb", "-d", "exec,nochain", "-D",
                      trace, self.program, env=env)
        modules = [(int(m[1], 16), int(m[2], 16), int(m[3], 16), m[4])
                   for m in re.finditer(r"^(\w+)-(\w+) r-xp (\w+) \S+ \S+ +(/\S+)$", maps, re.M)]
        program = next(m for m in modules if m[3].endswith("/fast_paths"))
        marks = {program[0] - program[2] + int(address, 16): name for address, name in re.findall(
            r"^(\w+) . (begin_lock|begin_unlock|end)$", output("aarch64-linux-gnu-nm", self.program), re.M)}
        calls, now = collections.defaultdict(list), None
        for pc in re.finditer(r"\[\w+/(\w+)/", trace.read_text(encoding="utf-8")):
            pc = int(pc[1], 16)
            if pc in marks:
                now = marks[pc]
                if now != "end":
                    calls[now] = []
            elif now and not program[0] <= pc < program[1]:
                begin, _, offset, path = next(m for m in modules if m[0] <= pc < m[1])
                if path not in self.code:
                    self.code[path] = disassembly(path)
                calls[now].append(self.code[path][pc - begin + offset])
        return calls["begin_lock"], calls["begin_unlock"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=TREE / "build/aarch64")
    parser.add_argument("--list", action="store_true", help="print the instructions, too")
    options = parser.parse_args()
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        tracer = Tracer(options.build.resolve(), folder)
        print("| | | instructions | that order memory |\n|---|---|---|---|")
        for processor, atomics in (("max", "LSE"), ("cortex-a57", "exclusive")):
            for preload in (False, True):
                for what, code in zip(("lock", "unlock"), tracer.instructions(processor, preload)):
                    orders = [name for name, _ in code if ORDERING.match(name)]
                    counts[processor, what, preload] = len(orders)
                    print(f"| {what}, {atomics} | {'libusher.so' if preload else 'C library'} | {len(code)} | "
                          f"{len(orders)}: {', '.join(f'`{name}`' for name in orders)} |")
                    if options.list:
                        print("".join(f"    {name}\t{rest}\n" for name, rest in code))
    more = [key for key, n in counts.items() if key[2] and n > counts[key[0], key[1], False]]
    for processor, what, _ in more:
        print(f"{what} on {processor} orders memory more often than the C library's")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
