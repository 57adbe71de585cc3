#!/usr/bin/env python3
"""`make check-short`: runs every lock, waiting list, condition variable and semaphore, and every mutant, under the
checker, with few executions.

tests/check/verification.json collects the results of `make check`. A mutant must be caught here if a tenth of these
executions of one scenario sufficed in that file, or if the file does not have the mutant. Other mutants may escape.
Every run has the same executions, but a changed header changes them. With the factor of ten, the probability that such
a change lets a mutant escape by chance is below one in 20,000 (e^-10).

The last line is "N passed, M failed", which counts locks and mutants. Exit status: 0 if none failed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent.parent
RESULTS = TREE / "tests" / "check" / "verification.json"
LIMIT = 1800  # seconds for one run of the checker


def check(options, *arguments):
    """Returns the content of the JSON file that `usher check` writes. Its table is not shown."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "verdicts.json")
        command = [options.build / "bin" / "usher", "check", *arguments, "--jobs", str(options.jobs), "--quiet", "--json", file]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=LIMIT)
        if done.returncode not in (0, 1):
            print(done.stdout)
            sys.exit(f"usher check {' '.join(arguments)}: exit status {done.returncode}")
        return json.loads(file.read_text())


def of_locks(options):
    """Checks the locks. Returns how many pass and how many fail."""
    parts = check(options, "--all", "--threads", "3,4", "--executions", str(options.executions_of_locks))["parts"]
    failed = {}
    for part in parts:
        if not part["passed"]:
            failed.setdefault(part["family"], f"{part['lock']}, {part['scenario']}, {part['threads']} threads: {part['why']}; again: "
                              f"usher check {part['lock']} --scenario {part['scenario']} --threads {part['threads']} "
                              f"--replay {part['replay']}")
    for line in failed.values():
        print(f"FAIL  {line}")
    families = {part["family"] for part in parts}
    print(f"{len(families)} locks and others, {sum(part['executions'] for part in parts)} executions: {len(failed)} fail", flush=True)
    return len(families) - len(failed), len(failed)


def must_be_caught(mutant, known, executions):
    """Returns whether this mutant must be caught, so that its escape is a failure."""
    if mutant["mutation"].endswith("(known to escape)"):
        return False
    before = known.get(mutant["name"])
    if before is None:
        return True
    seed = before.get("replay") or ""
    return bool(before["caught"]) and seed.isdigit() and int(seed) * 10 <= executions


def of_mutants(options, known):
    """Checks the mutants. Returns how many have the expected result and how many do not."""
    mutants = check(options, "--mutants", "--executions", str(options.executions))["mutants"]
    escaped = [m for m in mutants if not m["caught"]]
    failed = [m for m in escaped if must_be_caught(m, known, options.executions)]
    for m in failed:
        print(f"FAIL  {m['name']}: {m['mutation']}: not caught")
    rest = sorted(m["name"] for m in escaped if m not in failed)
    if rest:
        print(f"not caught in {options.executions} executions of a scenario, as may be: {', '.join(rest)}")
    print(f"{len(mutants)} mutants, {len(mutants) - len(escaped)} caught, "
          f"{sum(m['executions'] for m in mutants)} executions: {len(failed)} fail", flush=True)
    return len(mutants) - len(failed), len(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=TREE / "build" / "release", help="the build, after make mutants")
    parser.add_argument("--executions", type=int, default=5000, help="of each scenario of a mutant (default: %(default)s)")
    parser.add_argument("--executions-of-locks", type=int, default=1000, help="of each scenario of a lock (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    known = json.loads(RESULTS.read_text())["mutants"]
    locks, mutants = of_locks(options), of_mutants(options, known)
    failed = locks[1] + mutants[1]
    print(f"{locks[0] + mutants[0]} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
