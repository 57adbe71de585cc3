#!/usr/bin/env python3
"""Traces a program whose waits are known (programs/traced.cpp) from end to end: slices, owners, flows, counters, names of threads; and
writes its profile for OpenTelemetry.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from protobuf_text import Trace, decode

OPTIONS = None
LIMIT = 100


class Traced(unittest.TestCase):
    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        return {**env, "USHER_LIBRARY": OPTIONS.library}

    def run_usher(self, command, *options, program=None, status=0):
        """Returns the trace, and what the program says: its process, the holder, the waiter, the number of rounds."""
        with tempfile.TemporaryDirectory(prefix="usher-traced-") as folder:
            file, self.otlp = Path(folder) / "trace", Path(folder) / "otlp"
            words = [OPTIONS.usher, command, "--trace", file, *[o.replace("FOLDER", folder) for o in options], "--", *(program or [OPTIONS.program])]
            done = subprocess.run(words, env=self.environment(), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, status, done)
            trace = Trace(OPTIONS.protoc, file.read_bytes())
            if self.otlp.exists():
                self.profiles = decode(OPTIONS.protoc, "otlp.proto", "ProfilesData", self.otlp.read_bytes())[0]
        self.assertFalse(trace.has_unknown)
        return trace, [int(word) for word in done.stdout.split()]

    def check(self, trace, said, lock, is_late=False):
        """`is_late`: some rounds were before the recording; it may have begun in the middle of one."""
        process, holder, waiter, rounds = said
        waits = [s for s in trace.slices() if s[0] == waiter and s[1].startswith(f"Lock contention on {lock}")]
        if is_late:
            self.assertGreater(len(waits), 2)
            self.assertIn(waits[0][1].split("(owner tid: ")[1], (f"{holder})", "0)"))
            rounds, waits = len(waits) - 1, waits[1:]
        self.assertEqual(len(waits), rounds, trace.slices())
        for _, name, begin, end in waits:
            self.assertTrue(name.endswith(f"(owner tid: {holder})"), name)
            self.assertGreater(end - begin, 20_000_000)
        flows = sorted((f for f in trace.flows().values() if f[1][0] == waiter), key=lambda f: f[1][2])
        if is_late:
            flows = flows[-rounds:]
        self.assertEqual(len(flows), rounds)
        for (_, _, begin, end), (unlock, locked) in zip(waits, flows):
            self.assertEqual((unlock[:2], locked), ((holder, "unlock"), (waiter, "locked", end)))
            self.assertTrue(begin + 20_000_000 < unlock[2] <= end, (begin, unlock, end))
        values = next(v for name, v in trace.counters().items() if name.startswith(f"waiters: {lock}"))
        self.assertEqual([v for _, v in values], [1, 0] * (rounds + is_late))
        threads = {t["thread"][0]["tid"][0]: t["thread"][0] for t in trace.tracks.values() if "thread" in t}
        self.assertEqual(threads[waiter].get("thread_name"), ["the waiter"])
        self.assertEqual({t["process"][0]["pid"][0] for t in trace.tracks.values() if "process" in t}, {process})

    def test_under_the_c_librarys_locks(self):
        self.check(*self.run_usher("stat"), "traced_mutex")

    def test_under_a_lock_of_ours(self):
        self.check(*self.run_usher("stat", "--lock", "steady"), "traced_mutex")

    def test_programs_that_forge_their_records(self):
        for what in ("waits", "all", "circles", "ids"):
            with self.subTest(what):
                trace, _ = self.run_usher("stat", program=[OPTIONS.forger, what], status=7)
                slices = trace.slices()  # raises an error if they are not nested
                self.assertTrue(all(len(name) < 300 and name.isprintable() for _, name, _, _ in slices))
                self.assertTrue(what != "waits" or slices, "no forged wait was plausible: the test shows nothing")
                self.assertTrue(all(track in trace.tracks for _, _, track, _, _ in trace.events))

    def test_attached(self):
        program = subprocess.Popen([OPTIONS.usher, "run", "--lock", "steady", "--", OPTIONS.program, "200"], env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        with tempfile.TemporaryDirectory(prefix="usher-traced-") as folder:
            file = Path(folder) / "trace"
            end = time.monotonic() + LIMIT
            while "libusher" not in Path(f"/proc/{program.pid}/maps").read_text() and time.monotonic() < end:
                time.sleep(0.01)  # `usher run` has not become the program yet
            done = subprocess.run([OPTIONS.usher, "stat", "-p", str(program.pid), "--trace", file], env=self.environment(),
                                  capture_output=True, text=True, timeout=LIMIT)
            said = [int(word) for word in program.communicate(timeout=LIMIT)[0].split()]
            self.assertEqual(done.returncode, 0, done)
            trace = Trace(OPTIONS.protoc, file.read_bytes())
        self.check(trace, said, "traced_mutex", is_late=True)

    def test_opentelemetry(self):
        _, (_, _, _, rounds) = self.run_usher("stat", "--otlp", "FOLDER/otlp")
        tables = self.profiles["dictionary"][0]
        strings = tables["string_table"]
        names = [a.get("value", [{}])[0].get("string_value", [""])[0] for a in tables["attribute_table"]]
        delay, contentions = self.profiles["resource_profiles"][0]["scope_profiles"][0]["profiles"]
        self.assertEqual(strings[delay["sample_type"][0]["type_strindex"][0]], "delay")
        mine = lambda p: sum(s["values"][0] for s in p["samples"] if "traced_mutex" in [names[a] for a in s["attribute_indices"]])
        self.assertEqual(mine(contentions), rounds)
        self.assertGreater(mine(delay), rounds * 20_000_000)

    def test_recorded(self):
        if not OPTIONS.record:
            self.skipTest("usher record is not built")
        # One window, which opens some time after the program has begun.
        window = ("--every", "60001", "--length", "60000", "-o", "FOLDER/recording")
        self.check(*self.run_usher("record", *window, program=[OPTIONS.program, "40"]), "mutex", is_late=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--usher", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--forger", required=True)
    parser.add_argument("--protoc", required=True)
    parser.add_argument("--record", action="store_true")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
