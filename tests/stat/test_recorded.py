#!/usr/bin/env python3
"""Recording must change nothing: the programs of other tests must pass while they are recorded, and the sums in their
records must be consistent.

    test_recorded.py LIMIT CMD…              runs a command that starts programs under Usher, which then record
    test_recorded.py --streams LIMIT CMD…    the same under usher record, whose windows are open for half of the time

USHER_BIN names the command `usher`, USHER_LIB libusher.so. Scripts such as tests/conformance/run.py and
tests/traps/run_traps.py start programs with a lock that they choose. They leave USHER_STAT and USHER_STREAM unchanged,
so that these programs write into the record of CMD, and load libusher-stat.so, which USHER_COMPANION names.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
import recording_file


def what_does_not_add_up(row):
    """Yields the counters that are impossibly large: if a count is subtracted from an entry to which it was never
    added, the unsigned result is huge."""
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


def run(limit, arguments, command):
    """Runs the command under `usher` with these arguments. Returns an error message, or None."""
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "USHER_LOCK", "USHER_STAT", "USHER_STREAM")}
    env["USHER_LIBRARY"] = os.environ["USHER_LIB"]
    process = subprocess.Popen([os.environ["USHER_BIN"], *arguments, "--", *command], env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        status = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"still running after {limit} s"
    return f"ended with {status}" if status != 0 else None


def stat(limit, command, folder):
    file = os.path.join(folder, "report.json")
    if failed := run(limit, ["stat", "--objects", "262144", "--json", file, "--output", os.path.join(folder, "report.txt")], command):
        return failed
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


def record(limit, command, folder):
    file = os.path.join(folder, "usher.recording")
    if failed := run(limit, ["record", "--every", "40", "--length", "20", "--windows", "1000", "-o", file], command):
        return failed
    r = recording_file.read(file)
    threads = {s.thread for w in r.windows for s in w.streams}
    calls = sum(len(s.events) - 1 for w in r.windows for s in w.streams)
    print(f"{calls} calls of {len(threads)} threads in {len(r.windows)} windows were recorded")
    return "the programs were not recorded" if len(threads) < 20 or calls < 1000 else None


def main():
    streams = sys.argv[1] == "--streams"
    limit, command = float(sys.argv[2 if streams else 1]), sys.argv[3 if streams else 2:]
    with tempfile.TemporaryDirectory(prefix="usher-stat-") as folder:
        return (record if streams else stat)(limit, command, folder)


if __name__ == "__main__":
    sys.exit(main())
