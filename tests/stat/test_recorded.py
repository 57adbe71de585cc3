#!/usr/bin/env python3
"""Recording must change nothing: programs of other tests pass while they are recorded, and the sums of their records are consistent.

    test_recorded.py LIMIT CMD…    runs a command that starts programs under Usher, which then record

USHER_BIN is the command, USHER_LIB the library. The scripts that choose the lock of a program (tests/conformance/run.py,
tests/traps/run_traps.py) leave USHER_STAT unchanged, so that their programs write into the record of CMD. They also load USHER_COMPANION,
libusher-stat.so."""

import json
import os
import signal
import subprocess
import sys
import tempfile


def what_does_not_add_up(row):
    """Yields the counters that are too large: if a count is subtracted from an entry to which it was never added, the result is huge."""
    for key in ("most_waiting", "still_waiting", "herd"):
        if row.get(key, 0) > 2000:
            yield f"{key} {row[key]}"
    if row["kind"] == "condition":
        if row["woken"] + row["timeouts"] > row["acquisitions"]:
            yield f"{row['woken']} woken and {row['timeouts']} timeouts of {row['acquisitions']} waits"
        if row["unheard"] > row["signals"]:
            yield f"{row['unheard']} of {row['signals']} signals unheard"
    elif row["contended"] > row["acquisitions"] + row["still_waiting"]:
        yield f"{row['contended']} of {row['acquisitions']} contended, {row['still_waiting']} still wait"
    if row["waiting"]["total"] > 3600:
        yield f"waited {row['waiting']['total']} s"


def main():
    limit, command = float(sys.argv[1]), sys.argv[2:]
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "USHER_LOCK", "USHER_STAT")}
    env["USHER_LIBRARY"] = os.environ["USHER_LIB"]
    with tempfile.TemporaryDirectory(prefix="usher-stat-") as folder:
        file = os.path.join(folder, "report.json")
        process = subprocess.Popen([os.environ["USHER_BIN"], "stat", "--objects", "262144", "--json", file, "--output",
                                    os.path.join(folder, "report.txt"), "--", *command], env=env,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"still running after {limit} s"
        if status != 0:
            return f"ended with {status}"
        with open(file) as f:
            report = json.load(f)
    wrong = [f"{row['kind']} {row['name']}: {what}" for row in report["rows"] for what in what_does_not_add_up(row)]
    calls = sum(row["acquisitions"] for row in report["rows"])
    print(f"{calls} acquisitions in {report['processes']} processes and {report['threads']} threads were recorded")
    if report["processes"] < 20 or calls < 1000:
        wrong.append("the programs were not recorded")
    if report["deadlocks"]:
        wrong.append(f"{len(report['deadlocks'])} deadlocks")
    return "\n".join(wrong) or None


if __name__ == "__main__":
    sys.exit(main())
