#!/usr/bin/env python3
"""Counts the instructions and locked operations of an uncontended pthread_mutex_lock and unlock through libusher.so.
The numbers are exact and the same in every run, so that a test can compare them with the recorded ones.

pair_cost runs under callgrind at two iteration counts; the difference of the two profiles, divided by that of the
counts, is the cost of a pair. Everything outside pair_cost itself counts: the library that has the lock, and the functions that it calls.
The disassembly shows which of the executed instructions are locked."""

import argparse
import collections
import concurrent.futures
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import catalog
import harness
from harness import TREE, Build, clean_environment, die, plain_locks

FEW, MANY = 1000, 3000
NATIVE = "C library"
RECORDED = ["normal", "recursive", "normal alone", "recursive alone"]
RECORD = TREE / "tests" / "cost" / "expected.json"


def executions(file):
    """Returns {(object, address): number of executions} of the instructions, from a file in callgrind's text format
    with full names and positions. The line after `calls=` is skipped: it has the sum of a called function, whose
    instructions have lines of their own."""
    counts = collections.Counter()
    owner, skip = "", False
    for line in Path(file).read_text().splitlines():
        if line.startswith("ob="):
            owner = line[3:]
        elif line.startswith("calls="):
            skip = True
        elif line.startswith("0x"):
            if not skip:
                address, _, cost = line.split()
                counts[owner, int(address, 16)] += int(cost)
            skip = False
    return counts


def profile(command, out, env):
    """Returns (executions of the command, None), or (None, the reason of the failure)."""
    # With LD_BIND_NOW the dynamic linker binds all symbols at the start. Otherwise the first call of a function would
    # include the symbol's look-up.
    outcome = harness.run(["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={out}", "--dump-instr=yes",
                           "--compress-strings=no", "--compress-pos=no", *command], limit=300, env=env | {"LD_BIND_NOW": "1"})
    return (executions(out), None) if outcome.ok else (None, outcome.trouble())


def locked(owner, addresses):
    """Returns those of the addresses at which a locked instruction is."""
    found = set()
    addresses = sorted(addresses)
    start = 0
    while start < len(addresses):
        end = start  # disassembles one contiguous part of the code, without the gap between distant functions
        while end + 1 < len(addresses) and addresses[end + 1] - addresses[end] < 4096:
            end += 1
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address={addresses[start]:#x}",
                                  f"--stop-address={addresses[end] + 16:#x}", owner],
                                 capture_output=True, text=True, timeout=300).stdout
        for line in listing.splitlines():
            match = re.match(r"\s*([0-9a-f]+):\s+(.*)", line)
            if match and int(match.group(1), 16) in addresses:
                text = match.group(2)
                # An xchg with memory is locked even without a lock prefix. An mfence counts as locked, because it costs
                # as much.
                if re.match(r"lock\b|mfence", text) or re.match(r"xchg\w*\s.*\(", text):
                    found.add(int(match.group(1), 16))
        start = end + 1
    return found


def per_operation(few, many, operations, program):
    """Returns {"instructions": n, "locked": n} of one operation: the difference between two profiles, without the
    program itself, divided by the difference between their numbers of operations."""
    grown = collections.defaultdict(dict)
    for (owner, address), count in many.items():
        times = (count - few.get((owner, address), 0)) / operations
        # Starting and ending threads executes some instructions a different number of times in each run. So a quotient near a whole
        # number is rounded; any other fraction is kept.
        if abs(times - round(times)) < 0.1:
            times = round(times)
        if times and Path(owner).name != program:
            grown[owner][address] = times
    total = sum(times for addresses in grown.values() for times in addresses.values())
    locks = 0
    for owner, addresses in grown.items():
        if Path(owner).is_file():
            locks += sum(addresses[address] for address in locked(owner, addresses))
    return {"instructions": round(total, 2), "locked": round(locks, 2)}


def pair(build, lock, kind, folder):
    """Returns the result of per_operation() for one lock and unlock."""
    env = clean_environment({} if lock == NATIVE else {"LD_PRELOAD": catalog.library_with(lock, build.library), "USHER_LOCK": lock})
    profiles = []
    for iterations in (FEW, MANY):
        out = Path(folder) / f"{lock}-{kind}-{iterations}".replace(" ", "-")
        found, why = profile([build.program("pair_cost"), "--quiet", *harness.pair_options(kind), "--iterations", str(iterations)],
                             out, env)
        if found is None:
            die(f"valgrind on pair_cost under {lock}: {why}", 1)
        profiles.append(found)
    return per_operation(*profiles, MANY - FEW, "pair_cost")


def compare(measured, recorded):
    """Returns two lists of lines: about the counts that have grown, and about those that have shrunk."""
    worse, better = [], []
    for kind, locks in measured.items():
        for lock, now in locks.items():
            before = recorded.get(kind, {}).get(lock)
            if before is None:
                worse.append(f"{lock}, {kind}: not recorded yet: run with --update")
                continue
            for what, value in now.items():
                line = f"{lock}, {kind}: {what} {value}, recorded {before[what]}"
                if value > before[what]:
                    worse.append(line)
                elif value < before[what]:
                    better.append(line)
    return worse, better


def read_record(file):
    """Returns {kind: {lock: {"instructions": n, "locked": n}}}, and the compiler's name or None."""
    if not file.is_file():
        return {}, None
    try:
        record = json.loads(file.read_text())
    except ValueError as error:
        die(f"{file}: {error}")
    recorded = {}
    for lock, kinds in record["locks"].items():
        for kind, (instructions, locks) in kinds.items():
            recorded.setdefault(kind, {})[lock] = {"instructions": instructions, "locked": locks}
    return recorded, record["compiler"]


def write_record(file, recorded, compiler):
    """Writes one line for each lock, so that a change of one lock changes one line."""
    by_lock = {}
    for kind, locks in recorded.items():
        for lock, now in locks.items():
            by_lock.setdefault(lock, {})[kind] = [now["instructions"], now["locked"]]
    what = ("[instructions, locked operations] of an uncontended pthread lock and unlock through libusher.so, by kind of mutex; "
            "written by tools/count_instructions.py --update")
    lines = ",\n".join(f"  {json.dumps(lock)}: {json.dumps(kinds)}" for lock, kinds in by_lock.items())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'{{\n "what": {json.dumps(what)},\n "compiler": {json.dumps(compiler)},\n "locks": {{\n{lines}\n }}\n}}\n')


def count(build, locks, kinds):
    """Returns {(kind, lock): result of pair()}, with the C library's mutex as a lock of its own."""
    jobs = [(kind, lock) for kind in kinds for lock in [NATIVE] + locks]
    with tempfile.TemporaryDirectory(prefix="usher-count-") as folder, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(jobs, pool.map(lambda job: pair(build, job[1], job[0], folder), jobs)))


def table(counted, recorded):
    rows = []
    for (kind, lock), now in counted.items():
        before = recorded.get(kind, {}).get(lock, {})
        rows.append([kind, lock, str(now["instructions"]), str(before.get("instructions", "")), str(now["locked"]),
                     str(before.get("locked", ""))])
    return harness.table(rows, ["kind", "lock", "instructions", "recorded", "locked", "recorded"], right=(2, 3, 4, 5))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", metavar="DIR")
    parser.add_argument("--locks", help="comma-separated (all plain names)")
    parser.add_argument("--kinds", default=",".join(RECORDED),
                        help=f"mutex kinds, as lab/costs/measure_cost.py names them ({','.join(RECORDED)})")
    parser.add_argument("--record", default=RECORD, type=Path, metavar="FILE", help="tests/cost/expected.json")
    parser.add_argument("--update", action="store_true", help="record the present figures")
    options = parser.parse_args()
    for tool in ("valgrind", "objdump"):
        if not shutil.which(tool):
            die(f"{tool} is not installed")
    build = Build(options.build)
    build.need(build.library, build.program("pair_cost") or build.programs / "pair_cost")
    known = plain_locks()
    locks = options.locks.split(",") if options.locks else known
    for lock in locks:
        if lock not in known:
            die(f"unknown lock '{lock}': {', '.join(known)}")
    kinds = options.kinds.split(",")
    for kind in kinds:
        harness.pair_options(kind)

    counted = count(build, locks, kinds)
    recorded, compiler = read_record(options.record)
    print(table(counted, recorded))
    measured = {kind: {lock: counted[kind, lock] for lock in locks} for kind in kinds}
    if options.update:
        for kind in kinds:
            recorded.setdefault(kind, {}).update(measured[kind])
        write_record(options.record, recorded, harness.compiler(build))
        print(f"recorded in {options.record}")
        return 0
    worse, better = compare(measured, recorded)
    for line in better:
        print(f"cheaper: {line} (record it: --update)")
    for line in worse:
        print(f"DEARER: {line}")
    if worse and compiler not in (None, harness.compiler(build)):
        print(f"(recorded with {compiler}, built with {harness.compiler(build)})")
    return 1 if worse else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
