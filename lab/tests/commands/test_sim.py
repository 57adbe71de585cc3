#!/usr/bin/env python3
"""Tests the figures of `usher sim` as a command: options reach the points and their results, and errors are refused.
USHER_BIN is the command."""

import csv
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None
try:
    import tomllib
except ImportError:
    tomllib = None

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "cli"))
from refusals import EVIL, Refusals, with_evil

USHER = os.environ["USHER_BIN"]
LIMIT = 500
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "schema", "sim.json")


def sim(*arguments):
    return subprocess.run([USHER, "sim", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)


VERSION = subprocess.run([USHER, "--version"], capture_output=True, text=True, timeout=LIMIT, check=True).stdout.split()[1]


def names(suffix):
    done = subprocess.run([USHER, "list", "--json"], capture_output=True, text=True, timeout=LIMIT, check=True)
    return re.findall(rf'"name": "([^"]*{suffix})"', done.stdout)


class Sim(Refusals, unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="usher-sim-")
        spinning = names("-spin")
        cls.lock = next((n for n in ("mcs-spin", "ttas-spin") if n in spinning), spinning[0])
        cls.parking = cls.lock[:-len("-spin")]  # the form that spins, then parks
        # The machine is x5-2 without a scheduler, so that threads do not share CPUs.
        cls.bare = cls.file("bare.toml")
        folder = os.path.join(os.path.dirname(os.path.dirname(USHER)), "share", "usher", "machines")
        with open(os.path.join(folder, "x5-2.toml")) as file, open(cls.bare, "w") as to:
            to.write(file.read().split("[scheduler]")[0])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def file(cls, name):
        return os.path.join(cls.folder.name, name)

    def points(self, *arguments):
        """Returns the points of the JSON that the command writes."""
        done = sim("mutexbench", "--ms", "0.1", "--quiet", *arguments, "--json", self.file("out.json"))
        self.assertEqual(done.returncode, 0, done)
        self.assertLessEqual(done.stderr.count("\n"), done.stderr.count("not settled"), done.stderr)  # short runs may not settle
        with open(self.file("out.json")) as file:
            return json.load(file)["points"]

    def one(self, *arguments):
        (point,) = self.points("--seeds", "1", *arguments)
        return point

    # Numbers of the machine

    def test_a_number_of_the_machine(self):
        four = ("--locks", self.lock, "--threads", "4")
        usual = self.one(*four)
        slow = self.one(*four, "--set-machine", "coherence.dirty=[1000,3000]", "--set-machine", "coherence.protocol=MESI")
        self.assertEqual(slow["machine_settings"], {"coherence.dirty": [1000, 3000], "coherence.protocol": "MESI"})
        self.assertLess(slow["throughput"], 0.5 * usual["throughput"])
        self.assertNotIn("machine_settings", usual)

    def test_a_sweep_over_a_number_of_the_machine(self):
        points = self.points("--seeds", "2", "--locks", self.lock, "--threads", "4", "--vary",
                             "coherence.dirty=[100,200],[1000,3000]", "--csv", self.file("out.csv"))
        self.assertEqual([p["vary"] for p in points],
                         [{"key": "coherence.dirty", "value": v} for v in ([100, 200], [1000, 3000]) for _ in range(2)])
        self.assertGreater(points[0]["throughput"], 2 * points[2]["throughput"])
        with open(self.file("out.csv")) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([r["vary"] for r in rows], [f"coherence.dirty={v}" for v in ("[100,200]", "[1000,3000]") for _ in range(2)])
        self.assertEqual(float(rows[0]["throughput"]), points[0]["throughput"])

    # Points

    def test_how_long_waiters_spin(self):
        eight = ("--locks", self.parking, "--threads", "8", "--set", "cs=3000")
        at_once, for_long, usual = (self.one(*eight, *o) for o in (("--spin", "0"), ("--spin", "10000000"), ("--spin", "auto")))
        self.assertEqual((at_once["spin_ns"], for_long["spin_ns"]), (0, 10000000))
        self.assertNotIn("spin_ns", usual)
        self.assertGreater(at_once["voluntary_switches"], 0)
        self.assertEqual(for_long["voluntary_switches"], 0)

    def test_where_threads_begin(self):
        for asked, sockets in (("compact", [0] * 4), ("scattered", [0, 1] * 2), ("even", [0, 0, 1, 1]),
                               ("36,0..2", [1, 0, 0, 0]), ("71", [1] * 4)):
            with self.subTest(asked):
                point = self.one("--locks", self.lock, "--threads", "4", "--placement", asked)
                self.assertEqual((point["placement"], point["sockets"]), (asked, sockets))

    def test_random_placement(self):
        asked = ("--locks", self.lock, "--threads", "4", "--seeds", "8", "--placement", "random")
        many = self.points(*asked)
        self.assertEqual(len(many), 8)
        self.assertGreater(len({tuple(point["sockets"]) for point in many}), 3)
        for first, second in zip(many, self.points(*asked)):
            self.assertEqual((first["seed"], first["sockets"], first["operations"]), (second["seed"], second["sockets"], second["operations"]))

    def test_fewer_cpus_than_threads(self):
        asked = ("mutexbench", "--locks", self.lock, "--threads", "4", "--seeds", "1", "--placement", "0", "--pinned")
        done = sim(*asked, "--warm-up", "1", "--ms", "2", "--quiet", "--json", self.file("out.json"))
        self.assertEqual((done.returncode, done.stderr.count("\n"), done.stderr.count("not settled")), (0, 1, 1), done.stderr)
        self.assertIn("one that shares its CPU had no operation", done.stdout)
        with open(self.file("out.json")) as file:
            (point,) = json.load(file)["points"]
        self.assertEqual((point["operations"].count(0), point["settled"]), (3, False))
        self.assertIn('"run_ns":300000000', sim(*asked, "--list-points").stdout)  # 100 slices of 3 ms

    def test_what_comes_before_the_measured_time(self):
        point = self.one("--locks", self.lock, "--threads", "4", "--warm-up", "0.25")
        self.assertEqual((point["warm_up_ns"], point["measured_after_ns"]), (250000, 250000))
        self.assertEqual(self.one("--locks", self.lock, "--threads", "4", "--warm-up", "0")["measured_after_ns"], 0)

    def test_points_made_elsewhere(self):
        asked = ("mutexbench", "--ms", "0.1", "--locks", self.parking, "--threads", "4", "--seeds", "2", "--spin", "900",
                 "--placement", "0,9,18,27", "--warm-up", "0.05", "--set-machine", "coherence.protocol=MOESI", "--vary",
                 "scheduler.wake=100,9000")
        listed = sim(*asked, "--list-points").stdout.splitlines()
        self.assertEqual(len(listed), 4)
        with open(self.file("lines"), "w") as to:
            for line in listed:
                words = shlex.split(line)
                self.assertEqual(words[:3], [os.path.realpath(USHER), "sim", "--point"])  # the command of this build, not one on the PATH
                done = sim("--point", words[3])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                point = json.loads(done.stdout)
                self.assertRegex(point["machine_hash"], "^[0-9a-f]{64}$")
                self.assertEqual((point["usher"], "commit" in point), (VERSION, True))
                self.assertEqual((point["spin_ns"], point["placement"], point["warm_up_ns"], point["machine_settings"]),
                                 (900, "0,9,18,27", 50000, {"coherence.protocol": "MOESI"}))
                to.write(done.stdout)
        here = sim(*asked, "--quiet", "--csv", self.file("here.csv"))
        merged = sim("--merge", self.file("lines"), "--csv", self.file("merged.csv"))
        self.assertEqual(here.stdout, merged.stdout)
        with open(self.file("here.csv")) as a, open(self.file("merged.csv")) as b:
            self.assertEqual(sorted(a.read().splitlines()), sorted(b.read().splitlines()))

    @unittest.skipUnless(jsonschema, "no jsonschema")
    def test_results_are_as_the_schema_says(self):
        with open(SCHEMA) as file:
            schema = json.load(file)
        settings = ("--pinned", "--others", "2", "--spin", "900", "--placement", "even", "--together", "--warm-up", "0.1", "--jitter", "1",
                    "--set", "ncs=100", "--set-machine", "coherence.protocol=MOESI", "--vary", "coherence.dirty=[100,200],[1000,3000]")
        (plain,) = self.points("--seeds", "1", "--locks", self.parking, "--threads", "4")
        os.rename(self.file("out.json"), self.file("plain.json"))
        every = self.points("--seeds", "1", "--locks", self.parking, "--threads", "4", *settings)[0]
        os.rename(self.file("out.json"), self.file("every.json"))
        sim("--merge", self.file("plain.json"), self.file("every.json"), "--mixed", "--json", self.file("merged.json"))
        for name in ("plain", "every", "merged"):
            with open(self.file(f"{name}.json")) as file:
                jsonschema.validate(json.load(file), schema, jsonschema.Draft202012Validator)
        described = schema["$defs"]["point"]["properties"]
        self.assertEqual(sorted(every.keys() - plain.keys()), sorted(key for key in described if key in every and key not in plain))
        self.assertIn("warm_up_ns", every)

    def test_a_trace_has_them(self):
        asked = ("mutexbench", "--locks", self.lock, "--threads", "2", "--trace", "1")
        near, far = sim(*asked, "--placement", "0,2"), sim(*asked, "--placement", "0,36")
        self.assertEqual((near.returncode, far.returncode), (0, 0))
        self.assertNotIn("other socket", near.stdout)
        self.assertIn("other socket", far.stdout)

    # Results of several files

    RESULT = {"workload": "mutexbench", "machine": "m.toml", "lock": "mcs", "threads": 8, "seed": 1, "run_ns": 1000, "throughput": 1.5,
              "operations": [1500], "settled": True}

    def result(self, name, *changes, header=None):
        """Writes a file of results, as lines of --point, or with a header like that of --json."""
        points = [{k: v for k, v in (self.RESULT | c).items() if v is not ...} for c in changes or ({},)]
        with open(self.file(name), "w") as to:
            to.write(json.dumps(header | {"points": points}) if header is not None else "".join(json.dumps(p) + "\n" for p in points))
        return self.file(name)

    def test_two_machines_of_one_name(self):
        """The points are of a machine file that has changed, or of a file with the same name in another folder."""
        os.makedirs(self.file("other"), exist_ok=True)
        lines = []
        for folder, mhz in ((self.folder.name, 2800), (self.file("other"), 1400)):
            with open(self.bare) as file, open(os.path.join(folder, "m.toml"), "w") as to:
                to.write(re.sub(r"(?m)^mhz = .*$", f'mhz = {{ value = {mhz}, source = "a test" }}', file.read()))
            listed = subprocess.run([USHER, "sim", "mutexbench", "--machine", "./m.toml", "--ms", "0.05", "--locks", self.lock, "--threads",
                                     "2", "--seeds", "1", "--list-points"], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
            point = shlex.split(listed.stdout)[3]
            done = subprocess.run([USHER, "sim", "--point", point], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines.append(done.stdout)
        elsewhere = subprocess.run([USHER, "sim", "--point", point], cwd=self.folder.name, capture_output=True, text=True, timeout=LIMIT)
        self.assert_refused(elsewhere, 2, "./m.toml", "not the one that the point was made for", "hash")
        for name, text in zip("ab", lines):
            with open(self.file(name), "w") as to:
                to.write(text)
        self.assert_refused(sim("--merge", self.file("a"), "--merge", self.file("b")), 2, self.file("a"), self.file("b"), "two machines",
                            "./m.toml")

    def test_duplicates(self):
        once = sim("--merge", self.result("once", {}, {"seed": 2}))
        self.assertEqual((once.returncode, once.stderr), (0, ""))
        again = self.result("again", {"seed": 2})
        self.assert_refused(sim("--merge", self.file("once"), again), 2, "once and /", "again", "one point twice", "mcs, 8 threads, seed 2")
        self.assert_refused(sim("--merge", self.result("both", {}, {})), 2, "both has one point twice")
        mixed = sim("--merge", self.file("once"), again, "--mixed")
        self.assertEqual(mixed.stdout, once.stdout)
        self.assertEqual(mixed.stderr, "usher: warning: --merge: 1 result is there twice: each counts once\n")
        differs = self.result("differs", {"throughput": 3})
        self.assert_refused(sim("--merge", self.file("once"), differs, "--mixed"), 2, "once", "differs",
                            "different results of one point", "mcs, 8 threads, seed 1")
        # Measured rounds are never identical, so they are duplicates only if a file is given twice.
        one, two = (self.result(name, {"seed": ..., "round": 1, "throughput": rate}) for name, rate in (("one", 1), ("two", 2)))
        self.assertEqual(sim("--merge", one, two).stderr, "")
        self.assertIn("1 result is there twice", sim("--merge", one, two, one).stderr)

    def test_mixtures(self):
        """Lines that cannot be of one sweep are refused, unless --mixed asks for a comparison."""
        for name, change, words in (
                ("version", {"usher": "9.9.9"}, ["two builds of usher", "9.9.9", "not known"]),
                ("commit", {"commit": "abc"}, ["two builds of usher", "abc"]),
                ("machine", {"machine": "t5"}, ["two machines, m.toml and t5"]),
                ("hash", {"machine_hash": "0" * 64, "seed": 2}, ["two machines that are both called m.toml", "none", "0" * 64]),
                ("set", {"machine_settings": {"coherence.hit": 5}, "machine_hash": "1" * 64, "seed": 2}, ["--set-machine", "1" * 64]),
                ("settings", {"spin_ns": 7, "parameters": {"cs": 1}}, ["one point (mcs, 8 threads, seed 1) with other settings",
                                                                       "parameters, spin_ns"]),
                ("length", {"run_ns": 2000}, ["other settings", "run_ns"])):
            with self.subTest(name):
                files = ("--merge", self.result("base"), self.result(name, change))
                self.assert_refused(sim(*files), 2, self.file("base"), self.file(name), *words)
                self.assertEqual(sim(*files, "--mixed").returncode, 0)
        varied = self.result("varied", *({"vary": {"key": "coherence.hit", "value": v}, "machine_hash": str(v) * 64} for v in (4, 5)))
        self.assertEqual(sim("--merge", varied).stderr, "")  # the machines of a sweep over a number differ
        self.assert_refused(sim("--mixed"), 2, "--merge")

    def test_several_builds(self):
        old, new = (self.result(name, {"seed": seed, "usher": "0.1.0", "commit": name}) for name, seed in (("old", 1), ("new", 2)))
        self.assertEqual(sim("--merge", old).stderr, "")
        done = sim("--merge", old, new, "--mixed", "--json", self.file("both.json"))
        self.assertEqual(done.stderr, "usher: warning: --merge: the results are of several builds of usher: 0.1.0 (new), 0.1.0 (old)\n")
        with open(self.file("both.json")) as file:
            data = json.load(file)
        self.assertEqual(data["merged"], [{"usher": "0.1.0", "commit": c} for c in ("old", "new")])
        self.assertEqual([(p["usher"], p["commit"]) for p in data["points"]], [("0.1.0", "old"), ("0.1.0", "new")])
        self.assertEqual(sim("--merge", self.file("both.json"), "--mixed").stderr, done.stderr)  # this merges a merged file
        self.assert_refused(sim("--merge", self.file("both.json")), 2, "two builds")
        header = self.result("header", {"seed": 3}, header={"usher": "0.1.0", "commit": "old"})
        self.assertEqual(sim("--merge", old, header).stderr, "")

    def test_the_identity_of_a_machine(self):
        """The hash is that of the values, after changes by options. Sources and comments do not count."""
        four = ("--locks", self.lock, "--threads", "4")
        usual = self.one(*four, "--machine", self.bare)
        self.assertEqual((usual["usher"], "commit" in usual), (VERSION, True))
        with open(self.bare) as file:
            text = file.read()
        other = self.file("bare2.toml")
        for change, same in ((text.replace('source = "', 'source = "another '), True), ("# a comment\n" + text, True),
                             (text.replace("value = 2800", "value = 2801"), False)):
            with open(other, "w") as to:
                to.write(change)
            self.assertEqual(self.one(*four, "--machine", other)["machine_hash"] == usual["machine_hash"], same)
        changed = self.one(*four, "--machine", self.bare, "--set-machine", "coherence.hit=5")["machine_hash"]
        self.assertNotEqual(changed, usual["machine_hash"])
        with open(other, "w") as to:
            to.write(text.replace("hit = { value = 4", "hit = { value = 5"))
        self.assertEqual(self.one(*four, "--machine", other)["machine_hash"], changed)

    @unittest.skipUnless(tomllib, "Python before 3.11")
    def test_the_hash_is_the_documented_one(self):
        def values(table):
            if isinstance(table, dict):
                return {key: values(value) for key, value in table.items() if key != "source"}
            return [values(item) for item in table] if isinstance(table, list) else table
        def assert_known(machine, file):
            with open(file, "rb") as text:
                wanted = hashlib.sha256(json.dumps(values(tomllib.load(text)), sort_keys=True).encode()).hexdigest()
            listed = sim("mutexbench", "--locks", self.lock, "--threads", "1", "--seeds", "1", "--list-points", "--machine", machine)
            self.assertEqual(json.loads(shlex.split(listed.stdout)[3])["machine_hash"], wanted, machine)
        folder = os.path.join(os.path.dirname(os.path.dirname(USHER)), "share", "usher", "machines")
        for name in sorted(os.listdir(folder)):
            assert_known(name.removesuffix(".toml"), os.path.join(folder, name))
        with open(self.bare) as file:
            text = file.read()
        for title, jitter in (("\U0001f980 \u00d7 \uffff", "1e-05"), (r"\t\u007f\\ \"", "1.0"), ("", "0.1e1"), ("a" * 70, "0.00010"),
                              ("x", "-0.0")):
            other = self.file("texts.toml")
            with open(other, "w", encoding="utf-8") as to:
                to.write(re.sub(r"(?m)^(jitter = { value = )[^,]*", rf"\g<1>{jitter}",
                                re.sub(r"(?m)^title = .*$", lambda _: f'title = "{title}"', text)))
            assert_known(other, other)

    def test_results_that_nothing_can_have(self):
        for change, words in (({"throughput": -5}, ["throughput is -5"]), ({"throughput": "9"}, ["throughput"]),
                              ({"operations": [5, -1]}, ["operations is -1"]), ({"wait_ns": {"mean": -1, "longest": 5}}, ["mean is -1"]),
                              ({"lwss": -2}, ["lwss"]), ({"lock": 5}, ["type must be string"]), ({"lock": ...}, ["no key 'lock'"]),
                              ({"groups": {"guests": {"throughput": -1}}}, ["throughput is -1"]), ({"run_ns": -1}, ["run_ns"])):
            for header in (None, {}):
                done = sim("--merge", self.result("bad", change, header=header))
                self.assert_refused(done, 2, self.file("bad"), *words)
                self.assertNotIn("exception", done.stderr)
        for text in ("{", "[1]", "5", '{"points": 5}', '{"points": [5]}', '{"points": []}', ""):
            with open(self.file("bad"), "w") as to:
                to.write(text)
            done = sim("--merge", self.file("bad"))
            self.assert_refused(done, 2, self.file("bad"))
            self.assertNotIn("exception", done.stderr)
        for file in (self.folder.name, "/nowhere/x"):
            self.assert_refused(sim("--merge", file), 2, file)
        for point in ("{", "[]", "5", "{}", json.dumps(self.RESULT | {"lock": 5})):
            done = sim("--point", point)
            self.assert_refused(done, 2, "--point")
            self.assertNotIn("exception", done.stderr)

    def test_waits_and_hand_overs_as_lines(self):
        (point,) = self.points("--locks", self.lock, "--threads", "4", "--seeds", "1", "--csv", self.file("waits.csv"))
        with open(self.file("waits.csv")) as file:
            (row,) = csv.DictReader(file)
        for name in ("wait", "hand_over"):
            for part in ("mean", "median", "p99", "longest"):
                self.assertEqual(float(row[f"{name}_{part}_ns"]), point[f"{name}_ns"][part])
        self.assertEqual(row["machine_hash"], point["machine_hash"])
        sim("--merge", self.result("none"), "--csv", self.file("none.csv"))
        with open(self.file("none.csv")) as file:
            self.assertEqual(next(csv.DictReader(file))["hand_over_p99_ns"], "")

    # Runs that have not settled

    def storm(self, *more):
        """Runs a measurement that begins while threads still start."""
        return sim("mutexbench", "--locks", self.lock, "--threads", "4,64", "--seeds", "2", "--ms", "0.2", "--warm-up", "0.08", "--quiet",
                   *more)

    def test_a_run_that_has_not_settled_is_said(self):
        done = self.storm("--json", self.file("out.json"))
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for words in ("not settled", "--warm-up", "--ms", f"{self.lock} with 64 threads (2 of 2 runs)"):
            self.assertIn(words, done.stderr)
        self.assertNotIn(" 4 threads", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ *64 .*\d\*$")
        self.assertNotRegex(done.stdout, r"(?m)^ *4 .*\*$")
        self.assertIn("*: has not settled", done.stdout)
        with open(self.file("out.json")) as file:
            points = json.load(file)["points"]
        self.assertEqual([p["settled"] for p in points], [p["threads"] == 4 for p in points])
        for p in points:
            self.assertAlmostEqual((p["first_half"] + p["second_half"]) / 2, p["throughput"], 6)
        merged = sim("--merge", self.file("out.json"))
        self.assertEqual((merged.stdout, merged.stderr), (done.stdout, done.stderr))

    def test_seeds_that_differ_are_said(self):
        lines = []
        for seed, rate in ((1, 1.0), (2, 1.6)):
            lines.append(json.dumps({"workload": "mutexbench", "machine": "x5-2", "lock": "mcs", "threads": 8, "seed": seed,
                                     "run_ns": 1000, "throughput": rate, "settled": True}))
        with open(self.file("states"), "w") as to:
            to.write("\n".join(lines) + "\n")
        done = sim("--merge", self.file("states"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("1.600!", done.stdout)
        self.assertIn("!: seeds differ by more than a factor of 1.5", done.stdout)
        with open(self.file("states"), "w") as to:
            to.write("\n".join(lines).replace("1.6", "1.4") + "\n")
        self.assertNotIn("!", sim("--merge", self.file("states")).stdout)

    def test_what_a_file_of_results_says_is_no_escape_sequence(self):
        point = {"workload": "mutexbench", "machine": "x5-2", "lock": "mcs", "threads": 8, "seed": 1, "run_ns": 1000, "throughput": 1.5,
                 "settled": True}
        with open(self.file("evil"), "w") as to:
            for seed, keys in ((1, {}), (2, {"parameters": {EVIL: 1}}), (3, {"machine_settings": {EVIL: 1}})):
                to.write(json.dumps(with_evil(point) | {"seed": seed} | keys) + "\n")
        done = sim("--merge", self.file("evil"), "--details")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("\\x1b[2J", done.stdout)
        self.assert_harmless(done.stdout + done.stderr)

    def test_what_a_machine_s_file_says_is_no_escape_sequence(self):
        folder = self.file("machines")
        os.makedirs(folder, exist_ok=True)
        with open(self.bare) as file, open(os.path.join(folder, "evil.toml"), "w") as to:
            to.write(re.sub(r"(?m)^title = .*$", r'title = "\\u001b[2Jx\\nForged"', file.read()))
        done = subprocess.run([USHER, "sim", "--list"], env=os.environ | {"USHER_MACHINES": folder}, capture_output=True, text=True,
                              timeout=LIMIT)
        self.assertIn("\\x1b[2J", done.stdout)
        self.assert_harmless(done.stdout + done.stderr)

    # Charts

    def chart_of(self, *arguments):
        """Returns the title and description of the chart."""
        file = self.file("chart.svg")
        done = sim(*arguments, "--quiet", "--chart", file)
        self.assertEqual(done.returncode, 0, done)
        with open(file) as svg:
            text = svg.read()
        return re.search("<title>(.*?)</title>.*?<desc>(.*?)</desc>", text, re.S).groups()

    def test_charts_of_other_metrics(self):
        points = self.points("--locks", self.lock, "--threads", "2,8", "--seeds", "3")
        middle = sorted(p["wait_ns"]["mean"] for p in points if p["threads"] == 8)[1]
        title, words = self.chart_of("--merge", self.file("out.json"), "--chart-metric", "latency", "--log-y")
        self.assertIn("mean wait for the lock, µs", words)
        self.assertIn(f" 8: {middle / 1000:.4g}", words)
        for metric, axis in (("throughput", "operations a microsecond"), ("latency-p99", "1 %"), ("lwss", "LWSS"), ("gini", "Gini"),
                             ("hand-over", "hand-over"), ("utilisation", "held"), ("cpus", "CPUs"), ("switches", "switches")):
            with self.subTest(metric):
                self.assertIn(axis, self.chart_of("--merge", self.file("out.json"), "--chart-metric", metric, "--log-x")[1])

    def test_a_chart_over_a_number_of_the_machine(self):
        title, words = self.chart_of("mutexbench", "--ms", "0.1", "--locks", self.lock, "--threads", "4", "--vary",
                                     "coherence.poll_period=10,20,40")
        self.assertIn("4 threads", title)
        self.assertTrue(words.startswith("operations a microsecond; more is better; by coherence.poll_period\n"), words)
        self.assertRegex(words, rf"{self.lock}: 10: .*, 20: .*, 40: ")

    def test_a_chart_says_what_has_not_settled(self):
        done = self.storm("--chart", self.file("storm.svg"))
        self.assertEqual(done.returncode, 0, done)
        with open(self.file("storm.svg")) as svg:
            text = re.search("<desc>(.*?)</desc>", svg.read(), re.S)[1]
        self.assertEqual(text.count(" not settled"), 2)  # the point, and the meaning of hollow symbols
        self.assertIn("hollow", text)

    def test_charts_that_are_refused(self):
        asked = ("mutexbench", "--ms", "0.1", "--locks", self.lock, "--threads", "2", "--chart", self.file("none.svg"))
        self.assert_refused(sim(*asked, "--chart-metric", "latencies"), 2, "--chart-metric", "'latency'")
        self.assert_refused(sim(*asked, "--chart-metric", "guests.latency"), 2, "mutexbench", "guests")
        self.assert_refused(sim(*asked, "--chart-metric", "guests.lwss"), 2, "'guests.")
        for metric in ("latency.", ".latency"):
            self.assert_refused(sim(*asked, "--chart-metric", metric), 2, f"'{metric}'", "GROUP.METRIC")
        self.assert_refused(sim(*asked, "--chart-metric", "misses"), 2, "misses", "mutexbench", "arrays")
        self.assert_refused(sim("ideal", *asked[1:], "--chart-metric", "latency"), 2, "latency", "ideal", "lock")
        self.assert_refused(sim(*asked[:-2], "--log-y"), 2, "--log-y", "--chart")
        self.assertFalse(os.path.exists(self.file("none.svg")))

    # Errors

    def test_what_is_refused(self):
        def point(**more):
            return json.dumps({"workload": "mutexbench", "machine": "x5-2", "lock": self.lock, "threads": 2, "seed": 1,
                               "run_ns": 10000, **more})
        four = ("mutexbench", "--locks", self.lock, "--threads", "4")
        for arguments, words in (
                ((*four, "--set-machine", "coherence.per_raed=0"), ["x5-2.toml", "coherence.per_raed", "'per_read'"]),
                ((*four, "--set-machine", "coherance.per_read=0"), ["'coherence.per_read'"]),
                ((*four, "--set-machine", "coherence.per_read=much"), ["coherence.per_read", "whole number"]),
                ((*four, "--set-machine", "per_read=0"), ["--set-machine", "SECTION.KEY=VALUE"]),
                ((*four, "--set-machine", "coherence.hit=1", "--set-machine", "coherence.hit=2"), ["coherence.hit", "twice"]),
                ((*four, "--set-machine", "coherence.hit=1", "--vary", "coherence.hit=1,2"), ["coherence.hit", "--vary"]),
                ((*four, "--vary", "coherence.hit"), ["--vary", "SECTION.KEY=V1"]),
                ((*four, "--vary", "coherence.hit=1,,2"), ["--vary", "empty"]),
                ((*four, "--vary", "coherence.hit=1,0"), ["coherence.hit", "less than 1"]),
                ((*four, "--vary", "coherence.hit=1,2", "--trace", "1"), ["--trace"]),
                ((*four, "--vary", "coherence.hit=1,2,1"), ["--vary", "1 twice"]),
                ((*four, "--vary", "coherence.jitter=0,1", "--jitter", "0.5"), ["--jitter", "--vary", "coherence.jitter"]),
                ((*four, "--set-machine", "coherence.jitter=0", "--jitter", "0.5"), ["--jitter", "--set-machine", "coherence.jitter"]),
                ((*four, "--jitter", "nan"), ["--jitter", "nan"]),
                ((*four, "--warm-up", "nan"), ["--warm-up", "nan"]),
                ((*four, "--ms", "nan"), ["--ms", "nan"]),
                ((*four, "--set-machine", "machine.mhz=100000", "--ms", "100000", "--warm-up", "100000"), ["2^40 cycles", "warm-up"]),
                (("--point", point(others=-1)), ["others", "-1"]),
                (("--point", point(run_ns=10**14)), ["2^40 cycles"]),
                ((*four, "--placement", "compat"), ["'compat'", "'compact'", "0,18,1..3"]),
                ((*four, "--placement", "1.."), ["'1..'", "0,18,1..3"]),
                ((*four, "--placement", "5..1"), ["backwards"]),
                ((*four, "--placement", "1,72"), ["no CPU 72", "0 to 71"]),
                ((*four, "--placement", "4294967295"), ["no CPU 4294967295", "0 to 71"]),
                ((*four, "--placement", "0..4294967295"), ["too many CPUs"]),
                ((*four, "--machine", self.bare, "--placement", "1,2,2,3"), ["CPU 2", "twice", "bare.toml", "[scheduler]"]),
                ((*four, "--machine", self.bare, "--placement", "1,2"), ["2 CPUs", "4 threads", "[scheduler]"]),
                ((*four, "--spin", "much"), ["--spin", "'much'", "auto"]),
                ((*four, "--spin", "2000000000"), ["--spin", "2000000000"]),
                ((*four, "--warm-up", "-1"), ["--warm-up"]),
                (("--point", "{}", "--spin", "1"), ["--spin", "--point"]),
                (("--merge", "/dev/null", "--vary", "a.b=1"), ["--vary", "--merge"]),
                (("--point", point(spin_ns=-1)), ["spin_ns", "-1"]),
                (("--point", point(placement="72")), ["no CPU 72"]),
                (("--point", point(vary={"key": "coherence.hit"})), ["no key 'value'"]),
                (("validate", "--machine", "x5-2", "--set-machine", "coherence.hot=1"), ["'hit'"])):
            with self.subTest(arguments):
                self.assert_refused(sim(*arguments), 2, *words)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
