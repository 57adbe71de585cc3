#!/usr/bin/env python3
"""The command `usher diff`: exit status, files that it refuses, its JSON, and the windows of real recordings, which it
needs. tests/stat/diff_test.cpp tests the comparison itself.
"""

import copy
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from planted import LIMIT, USHER, Planted, schema

WINDOWS, WINDOW, THREADS = 40, 0.05, 4


def recording(share, name="worker server.cpp:12"):
    """Returns a recording with one mutex that threads wait for during this share of their time, by a tenth more and less in
    turns."""
    waited = [share * THREADS * WINDOW * (0.9 + i // 3 % 3 * 0.1) for i in range(WINDOWS)]
    row = {"kind": "mutex", "name": name, "module": None, "acquisitions": 100, "contended": 50, "waiting": {"total": sum(waited)},
           "held_share": 0.5, "windows": waited, "waiters": [], "holders": []}
    return {"version": 1, "command": ["./server"], "lock": "pthread", "seconds": WINDOWS * WINDOW, "threads": THREADS,
            "thread_seconds": WINDOWS * WINDOW * THREADS, "rows": [row],
            "windows": {"ends": [WINDOW * (i + 1) for i in range(WINDOWS)], "thread_seconds": [WINDOW * THREADS] * WINDOWS}}


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="usher-diff-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write("a.json", recording(0.2))
        self.write("b.json", recording(0.5, "worker server.cpp:20"))

    def write(self, name, content):
        (self.folder / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def diff(self, *words, status=0):
        done = subprocess.run([USHER, "diff", *words], cwd=self.folder, text=True, capture_output=True, timeout=LIMIT)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_a_change_is_named(self):
        said = self.diff("a.json", "b.json").stdout
        self.assertIn("Verdict: worker server.cpp:20 became hotter: threads waited", said)
        self.assertIn("One run of each side", said)
        self.assertIn("became cooler", self.diff("b.json", "a.json").stdout)
        self.assertIn("No difference that these runs can show", self.diff("a.json", "a.json").stdout)

    def test_the_limit(self):
        self.assertIn("Failed: ", self.diff("--fail-above", "10%", "a.json", "b.json", status=1).stdout)
        self.assertIn("Failed: ", self.diff("--fail-above", "10", "a.json", "b.json", status=1).stdout)
        self.assertIn("Passed: ", self.diff("--fail-above", "29.9%", "a.json", "b.json").stdout)
        self.assertIn("Passed: ", self.diff("--fail-above", "0%", "a.json", "a.json").stdout)
        self.diff("--fail-above", "10%", "b.json", "a.json")
        short = recording(0.9)
        short["seconds"] = 1
        self.write("short.json", short)
        said = self.diff("--fail-above", "10%", "a.json", "short.json")
        self.assertIn("--fail-above was not tested: B lasted 1.00 s", said.stderr)
        self.assertIn("These runs cannot show a difference", said.stdout)

    def test_several_runs(self):
        for i, share in enumerate((0.19, 0.20, 0.21)):
            self.write(f"a{i}.json", recording(share))
            self.write(f"b{i}.json", recording(share + 0.1))
        for words in (("a0.json,a1.json,a2.json", "b0.json,b1.json,b2.json"),
                      ("--a", "a0.json", "a1.json", "a2.json", "--b", "b0.json", "b1.json", "b2.json")):
            said = self.diff(*words).stdout
            self.assertIn("became hotter", said)
            self.assertNotIn("One run of each side", said)
        self.write("a0.json,a1.json", recording(0.2))  # a file of that name
        self.assertIn("One run of each side", self.diff("a0.json,a1.json", "b0.json").stdout)

    def test_what_is_refused(self):
        for words in ((), ("a.json",), ("a.json", "b.json", "a.json"), ("--a", "a.json"), ("--a", "a.json", "--b", "b.json", "b.json,"),
                      ("--fail-above", "much", "a.json", "b.json"), ("--fail-above", "101%", "a.json", "b.json"), ("a.json", "none.json")):
            said = self.diff(*words, status=2)
            self.assertEqual(said.stdout, "")
            self.assertEqual(len(said.stderr.splitlines()), 1, said.stderr)
        self.write("try.json", {"format": 4})
        self.write("text.json", "no JSON")
        self.write("deep.json", "[" * 1000)
        for name in ("try.json", "text.json", "deep.json"):
            self.assertIn("usher stat --json", self.diff("a.json", name, status=2).stderr)
        self.diff("--json", "/nowhere/x.json", "a.json", "b.json", status=125)

    def test_hostile_names(self):
        for name in ("\x1b[2J\x1b]0;x\x07", "‮ f a.c:1", "f\nVerdict: a.c:1", "n" * 10000 + " a.c:1"):
            self.write("hostile.json", recording(0.6, name))
            said = self.diff("a.json", "hostile.json", "--json", "said.json").stdout
            for character in "\x1b\x07‮":
                self.assertNotIn(character, said + (self.folder / "said.json").read_text())
            self.assertEqual(sum(line.startswith("Verdict:") for line in said.splitlines()), 1)

    @unittest.skipUnless(schema(), "no jsonschema")
    def test_its_json(self):
        valid = schema("diff.json")
        valid.check_schema(valid.schema)
        for words in (("a.json", "b.json"), ("a.json", "a.json", "--fail-above", "3%"), ("b.json", "a.json,a.json")):
            self.diff(*words, "--json", "said.json")
            said = json.loads((self.folder / "said.json").read_text())
            self.assertEqual([e.message for e in valid.iter_errors(said)], [])
            for part in (said, said["a"], said["objects"][0], said["objects"][0]["a"]):
                part["unknown_key"] = 1
                self.assertFalse(valid.is_valid(copy.deepcopy(said)))
                del part["unknown_key"]


class Windows(Planted):
    def test_a_recording_has_windows(self):
        report = self.stat("kinds").report
        windows = report["windows"]
        self.assertEqual(len(windows["ends"]), len(windows["thread_seconds"]))
        self.assertLessEqual(len(windows["ends"]), 64)
        self.assertEqual(windows["ends"], sorted(windows["ends"]))
        self.assertLessEqual(windows["ends"][-1], report["seconds"] * 1.01 + 0.01)
        for row in report["rows"]:
            if "windows" in row:
                self.assertEqual(len(row["windows"]), len(windows["ends"]))
        for row in report["rows"]:
            if row["kind"] == "mutex" and row["waiting"]["total"] > 0 and "windows" in row:
                self.assertAlmostEqual(sum(row["windows"]), row["waiting"]["total"], delta=0.02 * row["waiting"]["total"] + 0.001)


if __name__ == "__main__":
    unittest.main(verbosity=2)
