#!/usr/bin/env python3
"""Tests `usher predict` as a command, on recordings that this script writes. USHER_BIN is the command."""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "cli"))
from recording_file import ACTIONS, KINDS

USHER = os.environ["USHER_BIN"]
LIMIT = 500
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs")


def number(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def text(t):
    return number(len(t.encode())) + t.encode()


def written(objects, roles, streams, processor="a processor", length=1_000_000):
    """A recording of one window. objects: (kind, site, name); streams: {thread: [(action, object, other, work, away, wait)]}"""
    out = b"usherrec" + number(2) + number(2) + text(processor) + text("glibc") + text("pthread") + struct.pack("<4d", 30, 0, 100, 5000)
    out += number(len(objects))
    for kind, site, name in objects:
        out += bytes([KINDS.index(kind)]) + number(site) + text(name)
    out += number(len(roles)) + b"".join(number(thread) + text(role) for thread, role in roles.items())
    out += number(1) + number(0) + number(length) + number(0) + number(len(streams))
    for thread, events in streams.items():
        out += bytes([0]) + number(thread) + number(0) + number(len(events))
        for what, item, other, work, away, wait in events:
            out += bytes([ACTIONS.index(what) | 0x10 * bool(away) | 0x20 * bool(wait)])
            out += b"" if what == "end" else number(item)
            out += number(other) if what.startswith("wait") else b""
            out += number(work) + (number(away) if away else b"") + (number(wait) if wait else b"")
    return out


def sections(mutex, times, outside, inside):
    return [e for _ in range(times) for e in (("lock", mutex, 0, outside, 0, 0), ("unlock", mutex, 0, inside, 0, 0))]


HOT = written([("mutex", 1, "queue_lock"), ("mutex", 2, "")], {0: "worker", 1: "worker", 2: "listener"},
              {0: sections(0, 50, 9000, 1000), 1: sections(0, 50, 9000, 1000), 2: sections(1, 10, 50000, 500) + sections(0, 1, 100, 100)})


class Predict(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="usher-predict-")
        cls.hot = cls.file("hot.rec", HOT)
        names = subprocess.run([USHER, "list", "--json"], capture_output=True, text=True, timeout=LIMIT, check=True).stdout
        cls.locks = [n for n in ("futex", "steady") if f'"name": "{n}"' in names] or ["steady"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def file(cls, name, content=None):
        path = os.path.join(cls.folder.name, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        return path

    def predict(self, *arguments, file=None, locks=True):
        words = ["--locks", ",".join(self.locks)] if locks else []
        return subprocess.run([USHER, "predict", file or self.hot, *words, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT)

    def results(self, *arguments, **more):
        to = self.file("out.json")
        done = self.predict("--json", to, *arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        with open(to) as file:
            return json.load(file), done.stdout

    def assert_refused(self, done, *said):
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for part in said:
            self.assertIn(part, done.stderr)

    def test_tables_and_bottleneck(self):
        found, said = self.results("--threads", "1,32", "--details")
        self.assertIn("3 threads on 2 CPUs (a processor), under pthread", said)
        self.assertIn("Million lock operations a second", said)
        self.assertRegex(said, r"queue_lock is held or waited for nine tenths of the time from 32 threads on")
        at = {(p["lock"], p["threads"]): p for p in found["points"]}
        self.assertEqual(set(at), {(lock, n) for lock in self.locks for n in (1, 32)})
        one, many = at[(self.locks[0], 1)], at[(self.locks[0], 32)]
        self.assertAlmostEqual(one["operations_per_second"]["median"], 100000, delta=3000)  # one worker
        self.assertAlmostEqual(one["busiest"]["utilisation"], 0.1, delta=0.02)
        self.assertEqual(many["busiest"]["name"], "queue_lock")
        self.assertGreater(many["waiting_share"]["median"], 0.3)
        self.assertEqual(found["bottlenecks"][0]["from_threads"], 32)
        self.assertEqual({e["key"] for e in found["effects"]}, {"work", "scheduler.latency_mean", "coherence.dirty"})
        self.assertEqual([r["name"] for r in found["recording"]["roles"]], ["worker", "listener"])

    def test_changes(self):
        quick = ("--threads", "32", "--no-unknowns", "--seeds", "1")

        def throughput(*arguments):
            return self.results(*quick, *arguments)[0]["points"][0]["operations_per_second"]["median"]
        before = throughput()
        self.assertGreater(throughput("--halve", "queue_lock"), 1.3 * before)
        self.assertEqual(throughput("--halve", "0"), throughput("--halve", "site:1"))
        self.assertGreater(throughput("--split", "0=16"), 1.5 * before)
        self.assertNotEqual(throughput("--role", "listener=1"), before)
        self.assertLess(throughput("--lines", "20"), before)
        found, said = self.results(*quick, "--halve", "0", "--split", "1=2")
        self.assertEqual(found["changes"], ["Sections of 0 halved (--halve)", "Split: 1=2 (--split)"])
        self.assertIn("Sections of 0 halved", said)

    def test_the_same_each_time(self):
        quick = ("--threads", "4", "--no-unknowns")
        first, _ = self.results(*quick)
        self.assertEqual(self.results(*quick, "--jobs", "3")[0], first)

    @unittest.skipUnless(jsonschema, "no jsonschema")
    def test_results_are_as_the_schema_says(self):
        with open(os.path.join(DOCS, "schema", "predict.json")) as file:
            schema = json.load(file)
        jsonschema.validate(self.results("--threads", "2,8")[0], schema, jsonschema.Draft202012Validator)

    def test_chart(self):
        to = self.file("out.svg")
        self.assertEqual(self.predict("--threads", "2,8", "--chart", to, "--no-unknowns", "--title", "Hot").returncode, 0)
        with open(to) as file:
            content = file.read()
        for part in ("<svg", ">Hot<", "million lock operations a second", self.locks[0]):
            self.assertIn(part, content)

    def test_waits_that_no_signal_ended_are_listed(self):
        waits = self.file("waits.rec", written(
            [("mutex", 0, ""), ("condition", 0, "")], {0: "a"},
            {0: [("lock", 0, 0, 10, 0, 0), ("wait", 1, 0, 0, 0, 5000), ("unlock", 0, 0, 10, 0, 0), ("join", 2, 0, 0, 0, 9000)][:3]}))
        found, said = self.results("--threads", "2", "--no-unknowns", file=waits)
        self.assertIn("1 of 1 waits were ended by no recorded signal", said.replace("\n  ", " "))
        self.assertEqual(found["recording"]["conditions"][0]["rule"], "none")

    def test_texts_of_a_recording_do_not_control_the_terminal(self):
        evil = self.file("evil.rec", written([("mutex", 0, "\033[2Jx\u202e")], {0: "a\033b"}, {0: sections(0, 5, 100, 100)}, processor="\033]0;x\007"))
        found, said = self.results("--threads", "1", "--no-unknowns", "--details", "--split", "0=2", file=evil)
        for shown in (said, json.dumps(found, ensure_ascii=False)):
            self.assertNotRegex(shown, "[\0-\x09\x0b-\x1f\x7f\u202e]")

    def test_refusals(self):
        self.assert_refused(subprocess.run([USHER, "predict"], capture_output=True, text=True, timeout=LIMIT), "which recording")
        self.assert_refused(self.predict(file=self.file("none.rec")), "none.rec")
        self.assert_refused(self.predict(file=self.file("bad.rec", HOT[:100])), "bad.rec")
        self.assert_refused(self.predict(file=self.file("empty.rec", written([], {}, {}))), "no thread of the recording has done anything")
        for arguments, said in (
                (("--halve", "7"), "no object 7"), (("--halve", "nobody"), "no object nobody"), (("--halve", "site:9"), "no site:9"),
                (("--split", "0"), "not NAME=N"), (("--split", "0=0"), "not NAME=N"), (("--role", "waiter=1"), "no role waiter"),
                (("--role", "worker=9", "--threads", "4"), "more than 4 threads"), (("--lines", "many"), "neither auto nor a number"),
                (("--machine", "nowhere"), "unknown machine"), (("--chart", "x.png"), "svg"), (("--point", "{}"), "predict")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.predict(*arguments), said)
        self.assert_refused(self.predict("--locks", "no-lock", locks=False), "unknown lock")

    def test_how_predictions_fared_is_as_on_the_page(self):
        _, said = self.results("--threads", "1", "--no-unknowns")
        shown = " ".join(said.split())
        with open(os.path.join(DOCS, "predict.md")) as file:  # lab/tests compare this page with the results
            text = " ".join(file.read().split())
        within, points, median = re.search(r"(\d+) of (\d+) points are within 5 % \(median error ([\d.]+ %)\)", text).groups()
        self.assertIn(f"{within} of {points} points were within 5 % (median error {median})", shown)
        right, pairs = re.search(r"(\d+) of (\d+) pairs of locks that differ by 10 % are in order", text).groups()
        self.assertIn(f"{right} of {pairs} pairs of locks that differ by 10 % in order", shown)
        figures = re.search(r"Of (\d+) points, (\d+) are (within 5 %, \d+ within 15 % and \d+ within 40 % \(median error [\d.]+ %\))", text)
        self.assertIn("of {} points, {} were {}".format(*figures.groups()), shown)
        pairs, right = re.search(r"Of (\d+) pairs of locks that differ by 10 %, (\d+) are in order", text).groups()
        self.assertIn(f"of {pairs} pairs of locks that differ by 10 %, {right} in order", shown)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
