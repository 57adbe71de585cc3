#!/usr/bin/env python3
"""Runs the cases about deadlines of the conformance tests and of programs that use read-write locks, under the C
library's locks and under Usher's. young.py runs this script so that the machine seems to have just started. USHER_LIB
names libusher.so, USHER_BUILD the build. The last line is `N passed, N failed, N skipped`.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BUILD = Path(os.environ["USHER_BUILD"])
CASES = {
    "conformance/mutex_calls": ("relock_by_owner", "timed_on_free", "timed_on_held", "timed_gets_it_in_time"),
    "conformance/conditions": ("past_deadline_gives_the_mutex_away", "times_out", "invalid_deadline", "timed_out_in_the_middle_of_the_queue"),
    "conformance/semaphores": ("times_out_at_once", "times_out_in_time", "invalid_nanoseconds", "far_deadlines"),
    "conformance/read_write": ("time_out", "in_time", "invalid_times"),
    "conformance/standard_library": ("std_timed_calls", "std_shared_timed_mutex", "std_condition_deadlines"),
    "traps/read_write_users": ("shared_timed_mutex_by_steady_clock", "shared_timed_mutex_by_system_clock"),
}
OURS = ("LD_PRELOAD", "USHER_LOCK", "USHER_RWLOCK", "USHER_SPIN_NS", "USHER_YIELD_NS", "USHER_SLEEP_NS")
WAYS = {"the C library": {}, "steady": {"USHER_LOCK": "steady", "USHER_RWLOCK": "phase-fair"},
        "twa": {"USHER_LOCK": "twa", "USHER_RWLOCK": "bravo"}}
LIMIT = 240


def run(way, program):
    environment = {key: value for key, value in os.environ.items() if key not in OURS} | WAYS[way]
    if WAYS[way]:
        environment["LD_PRELOAD"] = os.environ["USHER_LIB"]
    only = [word for case in CASES[program] for word in ("--only", case)]
    done = subprocess.run(["timeout", "--signal=KILL", str(LIMIT), BUILD / "tests" / program, "--fresh", *only], env=environment, check=False,
                          text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    counts = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", done.stdout, re.M)
    return way, program, done.stdout, tuple(map(int, counts.groups())) if counts else (0, 1, 0)


def main():
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda job: run(*job), [(way, program) for way in WAYS for program in CASES]))
    for way, program, output, (passed, failed, _) in results:
        if failed or not passed:
            print(f"{way}, {program}:", *re.findall(r"^(?!PASS).*", output, re.M), sep="\n  ")
    sums = [sum(counts[i] for *_, counts in results) for i in range(3)]
    print("{} passed, {} failed, {} skipped".format(*sums))
    return 1 if sums[1] or not sums[0] else 0


if __name__ == "__main__":
    sys.exit(main())
