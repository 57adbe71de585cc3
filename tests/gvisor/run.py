#!/usr/bin/env python3
"""`make test-gvisor`: runs programs under Usher in gVisor (Debian's runsc), whose vDSO, memory files and /proc differ
from those of Linux.

Runs ten programs under four locks, `usher stat`, and the embedded examples. A program's output must equal that of the
same program outside of gVisor without Usher. Prints a line for each case, then `N passed, N failed, N skipped`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import catalog  # noqa: E402

LOCKS = ("steady", "mcs", "futex", "pthread")
LIMIT = 120
QUEUE = """
import queue, threading
q = queue.Queue(4)
ts = [threading.Thread(target=lambda: [q.put(i) for i in range(500)]) for _ in range(4)]
[t.start() for t in ts]
print(sum(q.get() for _ in range(2000)))
[t.join() for t in ts]
"""
SANDBOX = ["runsc", "--rootless", "--network=none", "--platform=ptrace", "do", "--"]


def programs(build, text):
    tests = build / "tests/conformance"
    return {
        "true": ["/bin/true"],
        "date": ["/bin/date", "-u", "-d", "@1000000000"],
        "sort": ["/bin/sh", "-c", f"sort --parallel=4 -S1M {text} | cksum"],
        "xz": ["/bin/sh", "-c", f"xz -T2 --block-size=65536 -c {text} | xz -d | cksum"],
        "python3": ["/usr/bin/python3", "-c", QUEUE],
        "perl": ["/usr/bin/perl", "-e", "print join(',', sort map { $_ * 7 % 11 } 1 .. 10), \"\\n\""],
        "tar": ["/bin/sh", "-c", f"tar -cf - -C {text.parent} {text.name} | tar -tf -"],
        "mutexes": [tests / "mutex_calls", "--only", "nested_in_every_order", "--only", "five_thousand_at_once"],
        "conditions": [tests / "conditions", "--only", "signal_wakes_the_waiter", "--only", "bounded_buffer_timed"],
        "semaphores": [tests / "semaphores", "--only", "bounded_buffer", "--only", "as_a_mutex"],
    }


def run(command, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("USHER_", "LD_PRELOAD"))}
    try:
        return subprocess.run([str(word) for word in command], env=environment | variables, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, -1, f"no end within {LIMIT} s: {late.stdout}")


def in_sandbox(command, **variables):
    """Reads the output through a pipe of its own: into an inherited file runsc would write at an offset that it keeps
    itself."""
    return run([*SANDBOX, "/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), *command])


class Results:
    def __init__(self):
        self.passed = self.failed = 0

    def say(self, name, done, why):
        self.passed, self.failed = self.passed + (not why), self.failed + bool(why)
        print(f"FAIL {name}: {why}; exit status {done.returncode}: {done.stdout.strip()[-400:]}" if why else f"PASS {name}", flush=True)


def test(build, results, text):
    for name, command in programs(build, text).items():
        expected = run(command)
        for lock in LOCKS:
            done = in_sandbox(command, LD_PRELOAD=catalog.library_with(lock, build / "lib/libusher.so"), USHER_LOCK=lock)
            same = (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
            results.say(f"{name} under {lock}", done, "" if same else f"not as outside: {expected.stdout.strip()[-200:]}")
    done = in_sandbox([build / "bin/usher", "stat", "--", "/usr/bin/python3", "-c", QUEUE])
    results.say("stat", done, "" if done.returncode == 0 and "Verdict:" in done.stdout else "no verdict")
    for example in ("bounded_queue", "own_lock", "accounts"):
        done = in_sandbox([build / "examples" / example])
        results.say(f"example {example}", done, "" if done.returncode == 0 else "it fails")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    build = parser.parse_args().build.resolve()
    results = Results()
    if (first := in_sandbox(["/bin/true"])).returncode != 0:
        print(f"SKIP all: runsc starts no program here: {first.stdout.strip()[-300:]}\n0 passed, 0 failed, 1 skipped")
        return
    with tempfile.TemporaryDirectory(prefix="usher-gvisor-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        text = Path(folder) / "text"
        text.write_text("".join(f"{i * 7919 % 10007} line\n" for i in range(20000)), encoding="ascii")
        test(build, results, text)
    print(f"{results.passed} passed, {results.failed} failed, 0 skipped")
    sys.exit(results.failed != 0)


if __name__ == "__main__":
    main()
