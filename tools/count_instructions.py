#!/usr/bin/env python3
"""Instructions and locked operations of an uncontended pthread_mutex_lock and unlock through the preload: exact numbers, the
same on every run, so that a test can compare them with what is recorded.

pair_cost runs under callgrind at two iteration counts; what grew between them, divided by the difference, is the pair's.
Counted is everything outside pair_cost itself: libusher.so and what it calls. The instructions that grew are then looked
up in the disassembly, to see which of them are locked."""

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

import harness
from harness import TREE, Build, clean_environment, die, plain_locks

FEW, MANY = 1000, 3000
NATIVE = "C library"
RECORDED = ["normal", "recursive", "normal alone", "recursive alone"]
RECORD = TREE / "tests" / "cost" / "expected.json"


def executions(file):
    """How often each instruction ran: {(object, address): count}. From callgrind's text format with full names and
    positions; the line after `calls=` is what a call cost in all, and is counted where it was spent."""
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


def profile(build, lock, kind, iterations, folder):
    out = Path(folder) / f"{lock}-{kind}-{iterations}".replace(" ", "-")
    extra = {} if lock == NATIVE else {"LD_PRELOAD": str(build.library), "USHER_LOCK": lock}
    # Bound at start: else the first call of each function, and not the second, pays for its look-up.
    extra["LD_BIND_NOW"] = "1"
    outcome = harness.run(["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={out}", "--dump-instr=yes",
                           "--compress-strings=no", "--compress-pos=no",
                           build.program("pair_cost"), "--quiet", *harness.pair_options(kind), "--iterations", str(iterations)],
                          limit=60, env=clean_environment(extra))
    if not outcome.ok:
        die(f"valgrind on pair_cost under {lock}: {outcome.trouble()}", 1)
    return executions(out)


def locked(owner, addresses):
    """Those of the addresses that hold a locked instruction."""
    found = set()
    addresses = sorted(addresses)
    start = 0
    while start < len(addresses):
        end = start  # one stretch of code, without what lies between two far functions
        while end + 1 < len(addresses) and addresses[end + 1] - addresses[end] < 4096:
            end += 1
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address={addresses[start]:#x}",
                                  f"--stop-address={addresses[end] + 16:#x}", owner],
                                 capture_output=True, text=True, timeout=60).stdout
        for line in listing.splitlines():
            match = re.match(r"\s*([0-9a-f]+):\s+(.*)", line)
            if match and int(match.group(1), 16) in addresses:
                text = match.group(2)
                # An exchange with memory is locked without saying so; mfence costs as much.
                if re.match(r"lock\b|mfence", text) or re.match(r"xchg\w*\s.*\(", text):
                    found.add(int(match.group(1), 16))
        start = end + 1
    return found


def pair(build, lock, kind, folder):
    """{"instructions": n, "locked": n} of one lock and unlock."""
    few, many = (profile(build, lock, kind, n, folder) for n in (FEW, MANY))
    grown = collections.defaultdict(dict)
    pairs = MANY - FEW
    for (owner, address), count in many.items():
        times = (count - few.get((owner, address), 0)) / pairs
        # A few executions more or less in the whole run are the threads' start and end, which differ between runs: an
        # instruction belongs to a pair when it runs about once, twice, ... in each, and a fraction is kept when it is
        # really one.
        if abs(times - round(times)) < 0.1:
            times = round(times)
        if times and Path(owner).name != "pair_cost":
            grown[owner][address] = times
    total = sum(times for addresses in grown.values() for times in addresses.values())
    locks = 0
    for owner, addresses in grown.items():
        if Path(owner).is_file():
            marked = locked(owner, addresses)
            locks += sum(addresses[address] for address in marked)
    return {"instructions": round(total, 2), "locked": round(locks, 2)}


def compare(measured, recorded):
    """What got dearer, and what got cheaper."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", metavar="DIR")
    parser.add_argument("--locks", help="comma-separated (all plain names)")
    parser.add_argument("--kinds", default=",".join(RECORDED),
                        help=f"mutex kinds, and what measure_cost.py says of them ({','.join(RECORDED)})")
    parser.add_argument("--record", default=RECORD, type=Path, metavar="FILE", help="tests/cost/expected.json")
    parser.add_argument("--update", action="store_true", help="record what is measured now")
    options = parser.parse_args()
    for tool in ("valgrind", "objdump"):
        if not shutil.which(tool):
            die(f"{tool} is not installed")
    build = Build(options.build)
    build.need(build.library, build.program("pair_cost") or build.apps / "pair_cost")
    known = plain_locks(build)
    locks = options.locks.split(",") if options.locks else known
    for lock in locks:
        if lock not in known:
            die(f"unknown lock '{lock}': {', '.join(known)}")
    kinds = options.kinds.split(",")
    for kind in kinds:
        harness.pair_options(kind)

    jobs = [(kind, lock) for kind in kinds for lock in [NATIVE] + locks]
    with tempfile.TemporaryDirectory(prefix="usher-count-") as folder, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        counted = dict(zip(jobs, pool.map(lambda job: pair(build, job[1], job[0], folder), jobs)))
    measured = {kind: {lock: counted[kind, lock] for lock in locks} for kind in kinds}

    record = {}
    if options.record.is_file():
        try:
            record = json.loads(options.record.read_text())
        except ValueError as error:
            die(f"{options.record}: {error}")
    recorded = record.get("pairs", {})
    rows = []
    for kind, lock in jobs:
        now, before = counted[kind, lock], recorded.get(kind, {}).get(lock, {})
        rows.append([kind, lock, str(now["instructions"]), str(before.get("instructions", "")), str(now["locked"]),
                     str(before.get("locked", ""))])
    print(harness.table(rows, ["kind", "lock", "instructions", "recorded", "locked", "recorded"], right=(2, 3, 4, 5)))
    if options.update:
        for kind in kinds:
            recorded.setdefault(kind, {}).update(measured[kind])
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps({
            "what": "instructions and locked operations of an uncontended pthread lock and unlock through libusher.so; "
                    "written by tools/count_instructions.py --update",
            "compiler": harness.compiler(build), "pairs": recorded}, indent=1) + "\n")
        print(f"recorded in {options.record}")
        return 0
    worse, better = compare(measured, recorded)
    for line in better:
        print(f"cheaper: {line} (record it: --update)")
    for line in worse:
        print(f"DEARER: {line}")
    if worse and record.get("compiler") not in (None, harness.compiler(build)):
        print(f"(recorded with {record['compiler']}, built with {harness.compiler(build)})")
    return 1 if worse else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
