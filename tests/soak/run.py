#!/usr/bin/env python3
"""Runs the soak on the C library without Usher, then under every plain-named lock of the catalogue, with condition
variables and semaphores in FIFO order and in mostly LIFO order. Each run has a new seed and a time limit. Prints a line
for each run, and for each failure the program's output and the command that repeats the run. The exit status is 1 if a
run failed.
"""

import argparse
import json
import random
import shlex
import sys
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tools"))
import harness  # noqa: E402
from harness import die  # noqa: E402

C_LIBRARY = "(C library)"
ORDERS = {"fifo": "1", "lifo": "0.001"}  # probability that a waiter is appended at the tail
COLUMNS = ["mutex", "cond", "sem", "item", "cancel", "short-lived", "fork", "thread", "eintr", "handler-post"]
QUICK_SEEDS = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]


def command_of(build, program, lock, order, seed, seconds, options):
    """Returns the command's words, its environment variables, and the command line that repeats the run."""
    soak = [str(program), "--seed", str(seed), "--seconds", f"{seconds:g}", "--patience", f"{options.patience:g}"]
    if options.threads:
        soak += ["--threads", str(options.threads)]
    if options.parts:
        soak += ["--parts", options.parts]
    if lock == C_LIBRARY:
        return soak, {}, shlex.join(soak)
    words = [str(build.usher), "run", "--lock", lock, "--"] + soak + ["--full"]
    variables = {"USHER_COND_APPEND": ORDERS[order], "USHER_SEM_APPEND": ORDERS[order]}
    return words, variables, " ".join(f"{k}={v}" for k, v in variables.items()) + " " + shlex.join(words)


def numbers(outcome):
    """Returns the operations a second of each kind, from the last line of the run's output."""
    try:
        said = json.loads(outcome.stdout.strip().splitlines()[-1])
        return {name: n / said["seconds"] for name, n in said["operations"].items()}
    except (ValueError, IndexError, KeyError, TypeError):
        return None


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", metavar="DIR")
    parser.add_argument("--program", help="the soak (in the build folder's bin)")
    parser.add_argument("--locks", help="comma-separated (all plain names; `c-library`: without Usher)")
    parser.add_argument("--seconds", type=float, default=600, help="for all runs together (600)")
    parser.add_argument("--seconds-per-lock", type=float, help="instead: for each lock")
    parser.add_argument("--seed", type=int, help="the same seed for all runs")
    parser.add_argument("--order", choices=ORDERS, help="only this order of waiters")
    parser.add_argument("--threads", type=int, help="number of workers (default: another number in each round)")
    parser.add_argument("--parts", help="only these kinds of traffic; soak --help names them")
    parser.add_argument("--patience", type=float, default=30, help="seconds within which an owed wake-up must arrive (30)")
    parser.add_argument("--quick", action="store_true", help="one short run a lock, with fixed seeds and one random")
    return parser.parse_args()


def chosen_locks(options, known):
    if not options.locks:
        return [C_LIBRARY] + known
    locks = [C_LIBRARY if name == "c-library" else name for name in options.locks.split(",") if name]
    for name in locks:
        if name != C_LIBRARY and name not in known:
            die(f"unknown lock '{name}': c-library, {', '.join(known)}")
    return locks


def plan(options, locks):
    """Returns the runs to make: (lock, order, seed, seconds)."""
    per_lock = options.seconds_per_lock or (1.0 if options.quick else options.seconds / len(locks))
    fresh = random.SystemRandom()
    runs = []
    for i, lock in enumerate(locks):
        orders = [""] if lock == C_LIBRARY else [options.order] if options.order else list(ORDERS)
        if options.quick and len(orders) > 1:
            orders = [orders[i % 2]]
        for order in orders:
            seed = options.seed if options.seed is not None else fresh.randrange(1, 1 << 32)
            if options.quick and options.seed is None:
                seed = QUICK_SEEDS[i % len(QUICK_SEEDS)]
            runs.append((lock, order, seed, per_lock / len(orders)))
    if options.quick and options.seed is None:
        runs.append((fresh.choice(locks[1:] or locks), fresh.choice(list(ORDERS)), fresh.randrange(1, 1 << 32), per_lock))
        if runs[-1][0] == C_LIBRARY:
            runs.pop()
    return runs


class Table:
    """A table that is printed line by line as the runs end."""

    def __init__(self, locks):
        self.widths = [max(11, max(len(x) for x in locks)), 5, 10, 4] + [max(7, len(c) + 2) for c in COLUMNS] + [6]
        self.line(["lock", "order", "seed", "s"] + [f"{c}/s" for c in COLUMNS] + ["result"])

    def line(self, cells):
        print("  ".join(c.ljust(w) if i < 2 or i == len(self.widths) - 1 else c.rjust(w)
                        for i, (c, w) in enumerate(zip(cells, self.widths))).rstrip(), flush=True)


def main():
    options = parse_options()
    build = harness.Build(options.build)
    program = Path(options.program).resolve() if options.program else build.folder / "bin" / "soak"
    build.need(program, build.usher, build.library)
    locks = chosen_locks(options, harness.plain_locks())
    runs = plan(options, locks)
    print(f"{len(runs)} runs, {sum(r[3] for r in runs):.0f} s and the time that each needs to end", flush=True)
    table = Table(locks)
    failures, start = [], time.monotonic()
    for lock, order, seed, seconds in runs:
        words, variables, typed = command_of(build, program, lock, order, seed, seconds, options)
        limit = 2 * seconds + 3 * options.patience + 20
        outcome = harness.run(words, limit, harness.clean_environment(variables))
        rates = numbers(outcome)
        ok = outcome.ok and rates is not None
        cells = [f"{rates[c]:.0f}" if rates else "-" for c in COLUMNS]
        table.line([lock, order, str(seed), f"{seconds:.0f}"] + cells + ["ok" if ok else "FAILED"])
        if not ok:
            why = outcome.trouble() if not outcome.ok else "its last line has no counts"
            failures.append(typed)
            print(f"\nFAILED: {why}\nrepeat: {typed}\n{outcome.stderr[-20000:]}{outcome.backtrace[-20000:]}", flush=True)
    print(f"{len(runs) - len(failures)} passed, {len(failures)} failed in {time.monotonic() - start:.0f} s")
    for typed in failures:
        print(f"repeat: {typed}")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
