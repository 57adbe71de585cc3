#!/usr/bin/env python3
"""Tests `usher sim --trace`, `calibrate` and `validate` as commands: their output is well-formed and agrees with its own figures, and wrong
options are refused. The figures' correctness is not tested, since other programs use the machine, too. USHER_BIN is the command."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "cli"))
from refusals import Refusals, cpu_seconds, wait_for

USHER = os.environ["USHER_BIN"]
LIMIT = 500

KEYS = {"machine": ["title", "mhz", "sockets", "cores", "hardware_threads", "step"],
        "coherence": ["protocol", "hit", "modify", "clean", "dirty", "invalidate", "memory", "per_sharer", "per_read", "poll_period",
                      "exit_penalty", "jitter"],
        "scheduler": ["slice", "context_switch", "syscall", "wake", "wake_queued", "yields_after", "latency_least", "latency_mean"]}


def sim(*arguments, on_one_cpu=False):
    def pin():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return subprocess.run([USHER, "sim", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT, preexec_fn=pin if on_one_cpu else None)


def sections_of(text):
    """Returns the values of each section by key."""
    sections, here = {}, None
    for line in text.splitlines():
        if line.startswith("["):
            here = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, value = line.split(" = ", 1)
            here[key] = value
    return sections


def spinning_locks():
    done = subprocess.run([USHER, "list", "--json"], capture_output=True, text=True, timeout=LIMIT, check=True)
    return re.findall(r'"name": "([^"]*-spin)"', done.stdout)


def spinning_lock():
    names = spinning_locks()
    return next((n for n in ("ttas-spin", "loiter-spin") if n in names), names[0])


class NativeSim(Refusals, unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="usher-native-sim-")
        cls.file = os.path.join(cls.folder.name, "here.toml")
        cls.calibrated = sim("calibrate", "-o", cls.file)
        cls.lock = spinning_lock()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    # calibrate

    def check_machine_file(self, text):
        sections = sections_of(text)
        for section, keys in KEYS.items():
            self.assertEqual([k for k in keys if k not in sections[section]], [], section)
        for section, keys in sections.items():
            for key, value in keys.items():
                if key != "title":
                    self.assertRegex(value, r'source = "(measured: |assumed|the kernel|of the same)', f"{section}.{key}")
        self.assertRegex(text, r"(?m)^# Made by `usher sim calibrate.*` on \d{4}-\d\d-\d\d \d\d:\d\d, Linux ")
        self.assertRegex(text, r"(?m)^# Others took \d+\.\d % of the CPU time")
        self.assertNotRegex(text, rf"\b{re.escape(os.uname().nodename)}\b")
        return sections

    def test_the_machine_file_is_complete_and_can_be_simulated(self):
        self.assertEqual((self.calibrated.returncode, self.calibrated.stdout, self.calibrated.stderr), (0, "", ""))
        with open(self.file) as file:
            self.check_machine_file(file.read())
        done = sim("mutexbench", "--machine", self.file, "--locks", self.lock, "--threads", "1", "--seeds", "1", "--ms", "0.1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_on_one_cpu_what_takes_two_is_assumed(self):
        done = sim("calibrate", on_one_cpu=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        sections = self.check_machine_file(done.stdout)
        for key in ("clean", "dirty", "invalidate"):
            self.assertIn("assumed: the X5-2's; with one CPU it cannot be measured", sections["coherence"][key])
        self.assertIn("value = 1,", sections["machine"]["cores"])

    # validate

    def test_validate_says_both_numbers(self):
        out = os.path.join(self.folder.name, "validated.json")
        for seconds in "0.02", "0.5", "10":
            done = sim("validate", "--machine", self.file, "--locks", self.lock, "--threads", "1,2", "--rounds", "2", "--seeds", "1",
                       "--seconds", seconds, "--pinned", "--json", out)
            if "inf %" not in done.stdout:  # else other programs had the CPU for the whole run
                break
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, r"(?m)^ +1  \S+ .* [+-]\d+\.\d %$")
        self.assertRegex(done.stdout, r"Within 10 %: \d of 2; within 25 %: \d\. Others took")
        with open(out) as file:
            said = json.load(file)
        self.assertEqual([(p["lock"], p["threads"]) for p in said["points"]], [(self.lock, 1), (self.lock, 2)])
        for p in said["points"]:
            self.assertGreater(p["native"]["median"], 0)
            self.assertGreater(p["simulated"]["median"], 0)
            self.assertEqual(len(p["native"]["runs"]), 2)
            self.assertAlmostEqual(p["error"], p["simulated"]["median"] / p["native"]["median"] - 1)
        self.assertIs(said["pinned"], True)
        self.assertEqual((said["pairs"], said["pairs_in_order"]), (0, 0), "no two locks with as many threads")

    def test_validate_compares_the_order_of_locks(self):
        if "ticket-spin" not in spinning_locks() or not self.lock.startswith(("ttas", "loiter")):
            self.skipTest("this build has only a few locks")
        out, threads = os.path.join(self.folder.name, "order.json"), 3 * len(os.sched_getaffinity(0))
        # ticket-spin is slow here, because it hands the lock to threads that are not running.
        done = sim("validate", "--machine", self.file, "--locks", "ticket-spin," + self.lock, "--threads", str(threads), "--rounds", "3",
                   "--seeds", "1", "--seconds", "0.3", "--json", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\A(usher: warning: validate: .* have not settled\n)*\Z")
        with open(out) as file:
            said = json.load(file)
        # The report must give the order of the measured throughputs, whichever lock is faster on this computer.
        one, other = said["points"]
        runs, medians = (one["native"]["runs"], other["native"]["runs"]), (one["simulated"]["median"], other["simulated"]["median"])
        pairs = int(max(runs[0]) < min(runs[1]) or max(runs[1]) < min(runs[0]))
        in_order = int(pairs and (max(runs[0]) < min(runs[1])) == (medians[0] < medians[1]))
        self.assertEqual((said["pairs"], said["pairs_in_order"]), (pairs, in_order))
        if pairs:
            self.assertIn(f"In the native order: {in_order} of 1 pairs of locks whose native runs do not overlap.", done.stdout)

    def test_an_interrupted_calibration_leaves_no_file(self):
        to = os.path.join(self.folder.name, "interrupted.toml")
        # A shell ignores SIGINT in background programs, and the test may be one: the child restores the default.
        running = subprocess.Popen([USHER, "sim", "calibrate", "-o", to], stdin=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        wait_for(lambda: cpu_seconds(running.pid) >= 0.1, LIMIT)  # then it is at work, however busy the machine is
        self.assertIsNone(running.poll())
        running.send_signal(signal.SIGINT)
        self.assertNotEqual(running.wait(timeout=LIMIT), 0)
        self.assertFalse(os.path.exists(to))

    # --trace

    def test_a_trace_is_of_one_point_and_repeats(self):
        arguments = ["mutexbench", "--locks", self.lock, "--threads", "3", "--trace", "2"]
        first, second, other = sim(*arguments), sim(*arguments), sim(*arguments, "--seed", "2")
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        self.assertEqual(first.stdout, second.stdout)
        self.assertNotEqual(first.stdout, other.stdout)
        for words in ("arrives at lock", "enters lock", "leaves lock", "modifies lock+0", "cycles, own socket"):
            self.assertIn(words, first.stdout)

    # Errors

    def test_what_is_refused(self):
        bare = os.path.join(self.folder.name, "bare.toml")
        with open(self.file) as file, open(bare, "w") as to:
            to.write(file.read().split("[scheduler]")[0])
        for status, arguments, words in (
                (2, ["mutexbench", "--trace", "1"], ["--locks", "--threads"]),
                (2, ["mutexbench", "--trace", "0"], ["--trace"]),
                (2, ["mutexbench", "--locks", self.lock, "--threads", "2", "--trace", "5", "--ms", "0.001"], ["--ms"]),
                (2, ["mutexbench", "--locks", "nothing", "--threads", "2", "--trace", "5"], ["nothing"]),
                (2, ["mutexbench", "--seed", "2"], ["--seed", "--trace"]),
                (2, ["mutexbench", "--trace", "1", "--json", "/dev/null"], ["--json", "--trace"]),
                (2, ["--merge", "/dev/null", "--seeds", "2"], ["--seeds", "--merge"]),
                (2, ["mutexbench", "--trace", "1", "--seeds", "2"], ["--seeds", "--trace"]),
                (2, ["mutexbench", "--list-points", "--csv", "/dev/null"], ["--csv", "--list-points"]),
                (2, ["--point", "{}", "--seeds", "2"], ["--seeds", "--point"]),
                (2, ["--json", "/dev/null", "validate"], ["validate", "--json", "after the word"]),
                (2, ["mutexbench", "calibrate"], ["calibrate", "workload"]),
                (2, ["mutexbench", "--set", "foo=1"], ["'foo'", "--list"]),
                (2, ["mutexbench", "--locks", "ticket-spn"], ["'ticket-spn'", "did you mean"]),
                (2, ["--merge", "/dev/null"], ["/dev/null", "no results"]),
                (2, ["calibrate", "mutexbench"], ["mutexbench"]),
                (125, ["calibrate", "-o", "/no/such/folder/f"], ["/no/such/folder/f"]),
                (2, ["validate", "--machine", "nothing"], ["nothing"]),
                (2, ["validate", "--machine", "/no/such/file.toml"], ["/no/such/file.toml"]),
                (2, ["validate", "--locks", "nothing"], ["nothing"]),
                (2, ["validate", "--threads", "0"], ["--threads"]),
                (2, ["validate", "--machine", bare, "--locks", self.lock, "--threads", "1000"], ["bare.toml", "[scheduler]", "1000"])):
            with self.subTest(arguments):
                self.assert_refused(sim(*arguments), status, *words)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
