"""Helpers for the tests of `usher stat`: they run a program with planted contention under `usher stat` and read the
report.

The environment variable USHER_BIN names the command `usher`, USHER_LIB libusher.so, USHER_PROGRAMS the folder of the
programs. A program prints its own counts and times (programs/planted.hpp). A source line that a test refers to ends in
a comment `mark: some words`.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

USHER = os.environ["USHER_BIN"]
LIBRARY = os.environ["USHER_LIB"]
PROGRAMS = pathlib.Path(os.environ["USHER_PROGRAMS"])
SOURCES = pathlib.Path(__file__).resolve().parent / "programs"
LIMIT = 300
ATTEMPTS = 20


def schema(name="stat.json"):
    """Returns the validator of docs/schema/NAME, or None without jsonschema."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "schema" / name).read_text()
    return jsonschema and jsonschema.Draft202012Validator(json.loads(text))


def marked(words):
    """Returns (file name, line number) of the only source line that ends in `mark: words`."""
    found = [(path.name, number) for path in sorted(SOURCES.glob("*.cpp"))
             for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith(f"// mark: {words}")]
    assert len(found) == 1, (words, found)
    return found[0]


def lines_of(stack):
    """Returns the (file name, line) of each frame of a stack; the stack may be None."""
    return [(os.path.basename(frame["file"] or ""), frame["line"]) for frame in stack["frames"]] if stack else []


class Run:
    """One run of `usher stat`: its output, its report, and the figures that the program printed itself."""

    def __init__(self, done, report, scenario):
        self.status, self.text, self.error, self.report = done.returncode, done.stdout, done.stderr, report
        self.scenario = scenario
        self.rows = report["rows"] if report else []
        self.each = []  # the figures that each of its processes printed
        while (at := self.text.find("{")) >= 0:
            try:
                said, end = json.JSONDecoder().raw_decode(self.text[at:])
            except json.JSONDecodeError:
                break
            self.each.append(said)
            self.text = self.text[:at] + self.text[at + end:]
        self.own = self.each[-1] if self.each else {}

    def row(self, name=None, mark=None, kind=None):
        """Returns the only row of the report whose name contains the word `name`, or whose place contains the line
        marked `mark`."""
        found = [row for row in self.rows if kind in (None, row["kind"]) and
                 (name is None or re.search(rf"\b{name}\b", row["name"])) and
                 (mark is None or marked(mark) in lines_of(row["place"]))]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} rows of {name or mark}, in {[row['name'] for row in self.rows]}\n"
                                 f"{self.text}\n{self.error}")
        return found[0]


class Planted(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="usher-stat-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        env["USHER_LIBRARY"] = LIBRARY
        return env

    def stat(self, scenario, *options, lock=None, command=None, status=0):
        file = os.path.join(tempfile.mkdtemp(dir=self.folder), "report.json")
        words = [USHER, "stat", *([] if "--json" in options else ["--json", file]), *(["--lock", lock] if lock else []), *options, "--",
                 *(command or [str(PROGRAMS / "planted"), *scenario.split()])]
        process = subprocess.Popen(words, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="backslashreplace", start_new_session=True)
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.fail(f"still running after {LIMIT} s: {' '.join(words)}\n{out}\n{err}")
        report = None
        if os.path.exists(file):
            with open(file) as f:
                report = json.load(f)
        done = subprocess.CompletedProcess(words, process.returncode, out, err)
        if status is not None:
            self.assertEqual(done.returncode, status, done)
        return Run(done, report, scenario)

    def measured(self, scenario, *options, compare, succeeded=lambda run: True, **more):
        """Returns a run whose times are within 5 % of the program's own clock readings. `compare(run)` is a list of (name, seconds of
        the report, seconds of the program). The program reads its clock outside of the section that the library times, and a thread
        may lose its CPU in between, so the run is repeated a few times. It is also repeated if the planted contention did not
        occur, according to `succeeded(run)`."""
        for attempt in range(ATTEMPTS):
            run = self.stat(scenario, *options, **more)
            wrong = [(what, ours, own) for what, ours, own in compare(run) if not 0.95 * own <= ours <= 1.05 * own]
            if not wrong and (succeeded(run) or attempt + 1 == ATTEMPTS):
                return run
        return self.fail(f"{scenario}: (name, report, program's clock) in {ATTEMPTS} runs: {wrong}")

    def assert_first_line(self, stacks, mark, within=1):
        """Asserts that one of the first `within` stacks contains the line marked `mark`."""
        self.assertTrue(any(marked(mark) in lines_of(one) for one in stacks[:within]),
                        (mark, marked(mark), [lines_of(one) for one in stacks]))

    def assert_exact(self, row, **expected):
        self.assertEqual({key: row[key] for key in expected}, expected, row["name"])

    def assert_verdict(self, row, *rules, says=""):
        """Asserts that the row's verdict is by one of these rules of watch/reader/judge/row_rules.cpp, and that its
        sentence contains `says`."""
        self.assertIn(row["rule"], rules, (row["name"], row["verdict"]))
        self.assertIn(says, row["verdict"])
