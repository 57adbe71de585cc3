"""Runs programs with known causes of waiting: in turns with the cause and without it, and once under `usher stat`."""

import contextlib
import json
import re
import statistics
import tempfile
from pathlib import Path

import harness
from lab.causes.expected import GAIN, NONE
from lab.run import rounds
from lab.run.runner import Failed, kill_session

WORTH = 1.15          # a cause is real if the throughput without it is this many times as high
ROUNDS, MOST = 3, 5   # number of rounds; number if the first rounds do not decide
LIMIT = 20            # seconds of time limit beyond the program's own length


def goes_first():
    """Called in the child before exec: gives the child's session most of the CPUs, if that is permitted, whatever else runs."""
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-20")


class Runner:
    def __init__(self, build, usher, seconds, rounds_each=(ROUNDS, MOST)):
        self.rounds_each = rounds_each
        self.program, self.usher, self.seconds = build.program("causes"), usher, seconds
        if not self.program:
            harness.die("the program causes is missing: build first (make build)")
        build.need(usher)
        self.folder = tempfile.TemporaryDirectory(prefix="usher-causes-", dir="/var/tmp", ignore_cleanup_errors=True)
        self.step_ns = self.finish([self.program, "--calibrate"], 30).stdout.strip()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.folder.cleanup()

    def finish(self, words, limit):
        process = harness.Process(words, harness.clean_environment(), self.folder.name, goes_first)
        try:
            outcome = process.finish(limit, backtrace=False)
        finally:
            kill_session(process.popen.pid)
        if not outcome.ok:
            raise Failed(outcome.trouble())
        return outcome

    def words(self, program, seconds, *more):
        return [self.program, *program.words(), "--folder", self.folder.name, "--step-ns", self.step_ns, "--seconds", str(seconds), *more]

    def rate(self, program, *more):
        text = self.finish(self.words(program, self.seconds, *more), self.seconds + LIMIT).stdout
        return json.loads(text)["rate"]

    def truth(self, program):
        """Returns {"truth": GAIN, NONE or None, "gain": the median ratio, "low", "high", "rates": of the rounds}."""
        with_cause, without = "with", "without"

        def measure(candidate):
            return self.rate(program, *(["--without", program.without] if candidate == without else []))

        rates = {with_cause: [], without: []}
        for wanted in self.rounds_each:
            more = rounds.sampled([with_cause, without], wanted - len(rates[with_cause]), measure)
            for name, values in more.items():
                rates[name] += values
            least = 1 / self.seconds  # a run without an operation counts as a run with one
            ratios = [max(b, least) / max(a, least) for a, b in zip(rates[with_cause], rates[without])]
            low, high, gain = min(ratios), max(ratios), statistics.median(ratios)
            # With five rounds, the second lowest and the second highest ratio decide, so that a single disturbed round has no effect.
            ordered = sorted(ratios)
            inner = (ordered[1], ordered[-2]) if len(ordered) >= MOST else (low, high)
            truth = GAIN if inner[0] >= WORTH else NONE if inner[1] < WORTH else None
            if truth:
                break
        return {"truth": truth, "gain": round(gain, 3), "low": round(low, 3), "high": round(high, 3), "rates": rates}

    def stat(self, program, seconds):
        """Returns the report of `usher stat` as JSON."""
        raw = Path(self.folder.name) / "stat.json"
        raw.unlink(missing_ok=True)
        self.finish([str(self.usher), "stat", "--json", str(raw), "-o", "/dev/null", "--", *self.words(program, seconds)], seconds + LIMIT)
        report = json.loads(raw.read_text())
        # Removes paths and the speed of this machine, which have no meaning elsewhere.
        for key in ("verdict", "next"):
            report[key] = report[key] and re.sub(r" --folder \S+ --step-ns \S+|/[\w./-]*/(?=[\w.-]+)", "", report[key])
        return report
