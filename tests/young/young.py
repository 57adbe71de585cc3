#!/usr/bin/env python3
"""Runs a command in a time namespace in which the machine started 30 s ago: there, a monotonic time of a minute ago is
before the clock's epoch. Exits with 77, after one line, if this machine does not permit such a namespace.
"""

import os
import subprocess
import sys
import time

UPTIME = 30


def offsets():
    """Returns the offsets that the new namespace adds to the clocks of the initial namespace. This process may already
    be in another namespace than that."""
    added = {"monotonic": 0, "boottime": 0}
    with open("/proc/self/timens_offsets", encoding="ascii") as file:
        for line in file:
            clock, seconds, _ = line.split()
            added[clock] = int(seconds)
    now = {"monotonic": time.clock_gettime(time.CLOCK_MONOTONIC), "boottime": time.clock_gettime(time.CLOCK_BOOTTIME)}
    return {clock: added[clock] + UPTIME - int(now[clock]) for clock in now}


def namespace():
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user"]
    return ["unshare", *user, "--time", "--fork", "--kill-child", *(f"--{clock}={seconds}" for clock, seconds in offsets().items())]


def refusal():
    """Returns the reason why no such namespace can be made; empty if it can be made."""
    try:
        check = "import time; assert time.monotonic() < 60"
        tried = subprocess.run([*namespace(), sys.executable, "-c", check], check=False, text=True, capture_output=True, timeout=60)
    except OSError as why:
        return str(why)
    return "" if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["unshare failed"])[-1]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    why = refusal()
    if why:
        print(f"young: skipped: no time namespace can be made here: {why}", file=sys.stderr, flush=True)
        return 77
    command = [*namespace(), *sys.argv[1:]]
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
