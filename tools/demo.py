#!/usr/bin/env python3
"""Two real programs under four locks, as `make demo` shows them: throughput, ratio to the C library's mutex, context
switches. Every run has a time limit; a failed or hung run is reported and makes the exit status 1."""

import argparse
import os
import re
import statistics
import sys

from harness import Build, OthersShare, die, median_range, run, table

LOCKS = ["pthread", "loiter", "mcscr", "twa"]


class Subject:
    def __init__(self, name, command, pattern, unit):
        self.name, self.command, self.pattern, self.unit = name, command, re.compile(pattern), unit

    def throughput(self, outcome):
        """What the program says of itself, per second; None when it does not say it."""
        found = self.pattern.search(outcome.stdout)
        if not found:
            return None
        seconds = float(found.group("seconds")) if "seconds" in found.groupdict() else 1
        return float(found.group("count")) / seconds


def subjects(build, seconds):
    return [
        Subject("sysbench threads",
                ["sysbench", "threads", "--threads=8", "--thread-locks=1", "--thread-yields=10",
                 f"--time={seconds}", "run"],
                r"(?s)total time:\s+(?P<seconds>[\d.]+)s.*?total number of events:\s+(?P<count>\d+)", "events/s"),
        Subject("sqlite_shared",
                [build.program("sqlite_shared"), "--threads", "8", "--seconds", str(seconds), "--check"],
                r"throughput: (?P<count>[\d.]+)", "operations/s"),
    ]


def quantity(value):
    return f"{value:,.0f}"


def spread(values):
    return f"{quantity(statistics.median(values))} ({quantity(min(values))}–{quantity(max(values))})"


def verdict(name, ratios_by_lock):
    """One clause on what was seen of a program. Rounds that point both ways, or a difference below two percent, are no
    clear difference."""
    ran, unclear = [], []
    for lock, ratios in ratios_by_lock.items():
        middle = statistics.median(ratios)
        if abs(middle - 1) < 0.02 or min(ratios) <= 1 <= max(ratios):
            unclear.append(lock)
        else:
            ran.append(f"{middle:.2f} times as fast under {lock}")
    if unclear:
        ran.append("with no clear difference under " + " and ".join(unclear))
    return f"{name} ran " + ", ".join(ran)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="length of a run (2)")
    parser.add_argument("--locks", default=",".join(LOCKS), help="the first is what the others are compared with")
    options = parser.parse_args()
    build = Build(options.build)
    build.need(build.usher, build.library)
    if options.rounds < 1 or options.seconds < 1:
        parser.error("--rounds and --seconds start at 1")
    programs = subjects(build, options.seconds)
    if programs[1].command[0] is None:
        die("sqlite_shared was not built: install libsqlite3-dev and build again")
    locks = options.locks.split(",")
    base = locks[0]

    others = OthersShare()
    rates = {(p.name, lock): {} for p in programs for lock in locks}
    switches = {(p.name, lock): [] for p in programs for lock in locks}
    trouble = {}
    cells = len(programs) * len(locks)
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}: {cells} runs of {options.seconds} s …", flush=True)
        for program in programs:
            for lock in locks:
                cell = (program.name, lock)
                if cell in trouble:
                    continue  # once is enough: a hung run has cost its time limit
                outcome = run([build.usher, "run", "--lock", lock, "--"] + program.command,
                              limit=3 * options.seconds + 4, backtrace=False)
                rate = program.throughput(outcome) if outcome.ok else None
                if rate is None:
                    trouble[cell] = outcome.trouble() if not outcome.ok else "no throughput in its output"
                    continue
                rates[cell][number] = rate
                switches[cell].append((outcome.voluntary, outcome.involuntary))

    rows, compared = [], {}
    for program in programs:
        for lock in locks:
            cell = (program.name, lock)
            if cell in trouble:
                rows.append([program.name, lock, "FAILED", "", "", ""])
                continue
            paired = [rate / rates[(program.name, base)][r] for r, rate in rates[cell].items()
                      if rates[(program.name, base)].get(r)]
            rows.append([program.name, lock, f"{spread(list(rates[cell].values()))} {program.unit}",
                         "1" if lock == base else median_range(paired),
                         quantity(statistics.median(v for v, _ in switches[cell])),
                         quantity(statistics.median(i for _, i in switches[cell]))])
            if lock != base and paired:
                compared.setdefault(program.name, {})[lock] = paired
    print()
    print(table(rows, ["program", "lock", "throughput: median (range)", f"ratio to {base}",
                       "voluntary switches", "involuntary"], right=(4, 5)))
    print()
    cpus = len(os.sched_getaffinity(0))
    if compared:
        clauses = "; ".join(verdict(name, ratios) for name, ratios in compared.items())
        print(f"Compared with {base}, on this machine with {cpus} core{'' if cpus == 1 else 's'} and 8 threads a "
              f"program: {clauses}.")
    print(f"(Other programs took {100 * others.share():.0f} % of the CPU time meanwhile.)")
    for (name, lock), why in trouble.items():
        print(f"FAILED: {name} under {lock}: {why}")
    return 1 if trouble else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
