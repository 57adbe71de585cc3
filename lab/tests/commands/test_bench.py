#!/usr/bin/env python3
"""Tests `usher bench` and its common part with `usher sim` as commands: measurements, reports, charts and refusals.

USHER_BIN is the command, USHER_LIB the library.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "cli"))
from refusals import Refusals

USHER = os.environ["USHER_BIN"]
LIBRARY = os.environ.get("USHER_LIB", "")
TIME_LIMIT = 300

scratch = None


def setUpModule():
    global scratch
    scratch = tempfile.mkdtemp(prefix="usher-bench-")


def tearDownModule():
    shutil.rmtree(scratch, ignore_errors=True)


class Bench(Refusals, unittest.TestCase):
    maxDiff = None

    def usher(self, *arguments, env=None, **more):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        environment.update(env or {})
        more.setdefault("timeout", TIME_LIMIT)
        return subprocess.run([USHER, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)

    def file(self, name):
        return os.path.join(tempfile.mkdtemp(dir=scratch), name)

    def results(self, command, *arguments, status=0, env=None, prefix=()):
        """Returns the results that --json writes."""
        name = self.file("out.json")
        done = self.usher(*prefix, *command.split(), "--quiet", *arguments, "--json", name, env=env)
        self.assertEqual((done.returncode, done.stderr if status == 0 else ""), (status, ""), done)
        with open(name) as file:
            return json.load(file)

    def bench(self, workload, *arguments, seconds="0.02", **more):
        return self.results(f"bench {workload}", "--rounds", "1", "--seconds", seconds, *arguments, **more)


class Programs(Bench):
    def programs(self, command="bench"):
        listed = self.usher(command, "--list").stdout
        return [line.split(":")[0] for line in listed.splitlines() if " (" in line and line[0] != " "]

    def needs_exclusion(self, program):
        """Returns whether the program refuses a lock that does not exclude."""
        done = self.usher("bench", program, "--locks", "ticket,null", "--list-points")
        if done.returncode == 0:
            return False
        self.assert_refused(done, 2, program, "null")
        return True

    def test_both_commands_have_the_same(self):
        self.assertGreaterEqual(len(self.programs()), 11)
        self.assertEqual(self.programs(), self.programs("sim"))
        for program, needs in (("random-cache", True), ("reflex", True), ("mutexbench", False)):
            self.assertIs(self.needs_exclusion(program), needs)

    def test_each_counts_something(self):
        for program in self.programs():
            locks = ["ticket", "mcscr", "loiter"] + ([] if self.needs_exclusion(program) else ["null"])
            points = self.bench(program, "--locks", ",".join(locks), "--threads", "1,2")["points"]
            self.assertEqual([(p["lock"], p["threads"]) for p in points], [(lock, n) for n in (1, 2) for lock in locks])
            for p in points:
                with self.subTest(program=program, lock=p["lock"], threads=p["threads"]):
                    self.assertEqual(p["workload"], program)
                    self.assertEqual(len(p["operations"]), p["threads"])
                    if sum(p["operations"]) == 0:  # other processes may have used all CPUs during these 20 ms
                        p, = self.bench(program, "--locks", p["lock"], "--threads", str(p["threads"]), seconds="1")["points"]
                    self.assertGreater(p["throughput"], 0)
                    self.assertAlmostEqual(p["throughput"] * p["seconds"] * 1e6, sum(p["operations"]), delta=1)

    def test_guests(self):
        p, = self.bench("mcsg-loop", "--locks", "mcsg", "--threads", "2", "--set", "guests=1")["points"]
        self.assertEqual({name: g["threads"] for name, g in p["groups"].items()}, {"guests": 1, "regulars": 1})
        done = self.usher("bench", "mcsg-loop", "--locks", "ticket", "--threads", "2", "--set", "guests=1", "--rounds", "1")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
        self.assertIn("takes no guests", done.stderr)

    def test_pinned(self):
        p, = self.bench("quads", "--locks", "ticket", "--threads", "2", "--pinned")["points"]
        self.assertTrue(p["pinned"])
        self.assertEqual(len(p["sockets"]), 2)

    def test_a_shared_generator_shows_exclusion(self):
        for p in self.bench("mutexbench", "--locks", "ticket,loiter", "--threads", "2", "--set", "shared=1")["points"]:
            self.assertIs(p["exclusive"], True)
        # The null lock provides no mutual exclusion, but on one CPU it may admit one thread at a time by chance. So the test accepts any
        # result of the null lock.
        self.bench("mutexbench", "--locks", "null", "--threads", "4", "--set", "shared=1")

    def test_pthread_under_a_preload(self):
        if not os.path.isfile(LIBRARY):
            self.skipTest("no library")
        shared = ("--locks", "pthread", "--threads", "2", "--set", "shared=1")
        p, = self.bench("mutexbench", *shared)["points"]
        self.assertEqual(p["lock"], "pthread")
        p, = self.bench("mutexbench", *shared, prefix=("run", "--lock", "twa", "--", USHER), env={"USHER_LIBRARY": LIBRARY})["points"]
        self.assertEqual((p["lock"], p["exclusive"]), ("pthread:twa", True))

    def test_all_locks(self):
        done = self.usher("bench", "ideal", "--locks", "all", "--list-points")
        named = {json.loads(line.split("'")[1])["lock"] for line in done.stdout.splitlines()}
        plain = {lock["name"] for lock in json.loads(self.usher("list", "--json").stdout)["locks"]
                 if lock["excludes"] and lock["name"] == lock["family"]}
        self.assertEqual(named, plain)


class Said(Bench):
    def test_where_it_was_measured(self):
        said = self.bench("ideal", "--locks", "ticket", "--threads", "1")
        self.assertEqual(list(said), ["command", "date", "machine", "compiler", "commit", "others_cpu_share", "points"])
        self.assertTrue(said["command"].startswith("usher bench ideal --quiet"), said["command"])
        self.assertGreaterEqual(said["machine"]["cpus"], 1)
        self.assertTrue(0 <= said["others_cpu_share"] <= 1)

    def test_both_commands_say_the_same_under_the_same_names(self):
        def shape(value):
            if isinstance(value, dict):
                return {name: shape(v) for name, v in value.items()}
            return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__

        for program, settings in (("mutexbench", ["shared=1"]), ("mcsg-loop", ["guests=1"]), ("reflex", ["sets=4"])):
            lock = "mcsg-spin"
            more = [word for s in settings for word in ("--set", s)]
            here, = self.bench(program, "--locks", lock, "--threads", "2", *more)["points"]
            there, = self.results(f"sim {program}", "--seeds", "1", "--ms", "0.05", "--locks", lock, "--threads", "2", *more)["points"]
            self.assertEqual((here.pop("round"), there.pop("seed")), (1, 1))
            both = [key for key in here if key in there]
            self.assertEqual(set(here) - set(there), {"seconds", "others_cpu_share"} | ({"exclusive"} if "shared=1" in settings else set()))
            for key in ("workload", "machine", "lock", "threads", "run_ns", "parameters", "throughput", "operations", "gini",
                        "smallest_share", "voluntary_switches", "cpus_used"):
                self.assertIn(key, both)
            for key in both:
                if key == "groups":  # waits are always measured on simulated machines only
                    self.assertEqual(set(here[key]), set(there[key]))
                    continue
                self.assertEqual(shape(here[key]), shape(there[key]), key)

    def test_details_and_lines(self):
        done = self.usher("bench", "mutexbench", "--locks", "ticket", "--threads", "1,2", "--rounds", "2", "--seconds", "0.02", "--details",
                          "--csv", csv := self.file("out.csv"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("1 thread\n", "2 threads\n", "smallest", "involuntary", "commit"):
            self.assertIn(word, done.stdout)
        with open(csv) as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 1 + 4)
        self.assertTrue(all(line.count(",") == lines[0].count(",") for line in lines if '"' not in line))

    def test_a_run_that_does_not_end_is_said_and_not_waited_for(self):
        begin = time.monotonic()
        done = self.usher("bench", "mutexbench", "--locks", "ticket-spin,null", "--threads", "64", "--rounds", "1", "--seconds", "300",
                          "--timeout", "0.3")
        self.assertLess(time.monotonic() - begin, 250)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stderr.splitlines(), [f"usher: {lock}, 64 threads, round 1: no end after 0.3 s"
                                                    for lock in ("ticket-spin", "null")])

    def test_rounds_are_interleaved_and_points_go_elsewhere_and_back(self):
        arguments = ("mutexbench", "--locks", "ticket,loiter", "--threads", "1", "--rounds", "2", "--seconds", "0.02")
        commands = self.usher("bench", *arguments, "--list-points").stdout
        self.assertEqual(commands.count("\n"), 4)
        path = os.path.dirname(USHER) + os.pathsep + os.environ["PATH"]
        lines = subprocess.run(["/bin/sh", "-c", commands], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=TIME_LIMIT)
        self.assertEqual((lines.returncode, lines.stderr), (0, ""))
        with open(name := self.file("lines"), "w") as file:
            file.write(lines.stdout)
        merged = self.results("bench", "--merge", name)["points"]
        self.assertEqual([(p["lock"], p["round"]) for p in merged], [(lock, n) for lock in ("ticket", "loiter") for n in (1, 2)])
        printed = [json.loads(line) for line in lines.stdout.splitlines()]
        self.assertTrue(all(p.pop("usher") and p.pop("commit") for p in printed))  # files have these in their headers
        self.assertEqual(printed, merged)


class Charts(Bench):
    def content(self, name):
        with open(name, "rb") as file:
            return file.read()

    def test_charts_of_the_same_data_are_the_same(self):
        arguments = ("mutexbench", "--locks", "ticket-spin,mcs-spin", "--threads", "1,2,20", "--seeds", "2", "--ms", "0.05", "--quiet")
        data, first = self.file("data.json"), self.file("first.svg")
        done = self.usher("sim", *arguments, "--json", data, "--chart", first)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = self.content(first).decode()
        for word in ("<svg", "<title>mutexbench on x5-2: median and range of 2 seeds", "threads", "operations a microsecond", "ticket-spin: 1: ", ", 20: "):
            self.assertIn(word, text)
        for command in ("sim", "bench"):
            again = self.file(f"{command}.SVG")
            self.assertEqual(self.usher(command, "--merge", data, "--chart", again).returncode, 0)
            self.assertEqual(self.content(first), self.content(again))

    def merged(self, *data):
        name = self.file("merged.svg")
        done = self.usher("sim", "--merge", *data, "--chart", name)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return name

    def test_both_worlds_in_one(self):
        names = [self.file("out.json") for _ in range(2)]
        self.usher("sim", "ideal", "--locks", "ticket-spin", "--threads", "1", "--seeds", "1", "--ms", "0.05", "--json", names[0])
        self.usher("bench", "ideal", "--locks", "ticket-spin", "--threads", "1", "--rounds", "1", "--seconds", "0.02", "--json", names[1])
        text = self.content(self.merged(*names)).decode()
        for word in ("ideal on several machines", "ticket-spin x5-2:", "commit"):
            self.assertIn(word, text)

    def test_many_locks_make_it_higher(self):
        point = json.loads(self.usher("bench", "ideal", "--locks", "ticket", "--threads", "1", "--rounds", "1", "--list-points").stdout.split("'")[1])
        with open(name := self.file("lines"), "w") as file:
            for i in range(60):
                for threads in (1, 2):
                    print(json.dumps({**point, "lock": f"lock-{i}", "threads": threads, "throughput": i, "operations": [i]}), file=file)
        chart = self.file("out.svg")
        done = self.usher("bench", "--merge", name, "--chart", chart, "--details")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("lock ", done.stdout.splitlines()[1])
        self.assertGreater(int(re.search(r' height="([0-9]+)px"', self.content(chart).decode())[1]), 60 * 19)


class Refused(Bench):
    def test_wrong_options_are_one_line_and_2(self):
        both = self.file("both.svg")
        for arguments, word in (([], "workload"), (["nonsense"], "nonsense"), (["ideal", "--locks", "tiket"], "'ticket'"),
                                (["ideal", "--threads", "0"], "'0'"), (["ideal", "--threads", "4..2"], "backwards"),
                                (["mutexbench", "--set", "cs"], "NAME=NUMBER"), (["mutexbench", "--set", "no=1"], "'no'"),
                                (["mutexbench", "--set", "cs=-1"], "cs"), (["ideal", "--rounds", "0"], "--rounds"),
                                (["ideal", "--seconds", "0"], "--seconds"), (["ideal", "--chart", "x.gif"], ".svg"),
                                (["ideal", "--chart", "x.png"], "rsvg-convert"),
                                (["ideal", "--json", both, "--chart", both], "same file"), (["ideal", "--machine", "x5-2"], "--machine"),
                                (["--merge", "/dev/null", "--threads", "2"], "--threads"), (["--point", "x"], "point"), (["--point", "{}"], "point")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.usher("bench", *arguments), 2, word)

    def test_files_that_cannot_be_used(self):
        for status, arguments in ((125, ["ideal", "--json", "/nonexistent/x"]), (125, ["ideal", "--chart", "/nonexistent/x.svg"]),
                                  (2, ["--merge", "/nonexistent/x"]), (2, ["--merge", __file__])):
            done = self.usher("bench", *arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (status, "", 1), done)


if __name__ == "__main__":
    unittest.main()
