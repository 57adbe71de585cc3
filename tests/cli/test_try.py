#!/usr/bin/env python3
"""Tests `usher try` as a command, with programs that crash, hang, print different output, fork or cannot start, under
one lock or under all.

USHER_BIN is the command, USHER_LIB the library. The programs are shell scripts that read USHER_LOCK, so that their
failures are certain, and small C programs that lock. Each step has a time limit.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

from refusals import Refusals, cpu_seconds, has_stat, wait_for, with_evil

try:
    import jsonschema
except ImportError:
    jsonschema = None

USHER = os.environ["USHER_BIN"]
LIBRARY = os.environ["USHER_LIB"]
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
LIMIT = 300
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "schema", "try.json")

LOCKING = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long counter, rounds = 100000;
static void *count(void *unused) {
  for (long i = 0; i < rounds; i++) {
    pthread_mutex_lock(&mutex);
    counter++;
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}
int main(int argc, char **argv) {
  pthread_t threads[2];
  if (argc > 1) rounds = atol(argv[1]);
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, count, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  pthread_cond_signal(&condition);
  printf("counted %ld\n", counter);
  return 0;
}
"""


class Try(Refusals, unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="usher-try-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def script(self, text):
        """Writes a shell script. Under the C library's mutex the script's $USHER_LOCK is empty."""
        handle, path = tempfile.mkstemp(dir=self.folder, suffix=".sh")
        with os.fdopen(handle, "w") as file:
            file.write("#!/bin/sh\n" + textwrap.dedent(text))
        os.chmod(path, 0o755)
        return path

    def locking(self):
        path = os.path.join(self.folder, "locking")
        if not os.path.exists(path):
            with open(path + ".c", "w") as file:
                file.write(LOCKING)
            subprocess.run([CC, "-O1", path + ".c", "-o", path, "-pthread"], check=True, timeout=LIMIT)
        return path

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        env["USHER_LIBRARY"] = LIBRARY
        return env

    def run_try(self, *arguments, **more):
        return subprocess.run([USHER, "try", *arguments], env=self.environment(), capture_output=True, text=True,
                              errors="backslashreplace", timeout=LIMIT, stdin=more.pop("stdin", subprocess.DEVNULL), **more)

    def with_json(self, *arguments):
        file = os.path.join(self.folder, "out.json")
        done = self.run_try("--json", file, *arguments)
        with open(file) as f:
            return done, self.checked(json.load(f))

    def checked(self, data):
        """Checks the results against the schema and returns them."""
        if jsonschema:
            with open(SCHEMA) as f:
                jsonschema.validate(data, json.load(f), jsonschema.Draft202012Validator)
        return data

    def rows(self, done):
        """Returns the heading and the rows of the table: all lines before the first empty one."""
        return done.stdout.partition("\n\n")[0].splitlines()

    def row(self, done, lock):
        """Returns a row of the table; a row that is broken into several lines is joined."""
        found = ""
        for line in self.rows(done):
            if line[2:].split()[:1] == [lock]:
                found = line
            elif found and line.startswith("   "):
                found += " " + line.strip()
            elif found:
                break
        if not found:
            self.fail(f"no row for {lock}:\n{done.stdout}\n{done.stderr}")
        return found

    def note(self, done, lock):
        """Returns the note about this lock below the table."""
        for line in done.stdout.splitlines():
            if line.startswith(lock + ": "):
                return line
        self.fail(f"no note on {lock}:\n{done.stdout}\n{done.stderr}")

    def candidate(self, data, name):
        return next(c for c in data["candidates"] if c["name"] == name)

    def ended_with(self, done):
        """Returns the conclusion, its lines joined."""
        paragraph = done.stdout.split("meanwhile.\n")[-1].splitlines()
        return " ".join(line.strip() for line in paragraph)

    def left_behind(self, mark):
        return subprocess.run(["pgrep", "-f", mark], capture_output=True, text=True, timeout=LIMIT).stdout.split()

    # Winners

    RATES = 'case "$USHER_LOCK" in mcs) echo rate 15;; twa) echo broken >&2; exit 3;; ttas) echo rate 900;; *) echo rate 10;; esac'

    def rates(self, locking=True, **rates):
        """Makes a program that prints these rates under these locks, and 1000 under all others."""
        cases = " ".join(f"{lock}) echo rate {rate};;" for lock, rate in rates.items())
        return self.script((f"{self.locking()} 200\n" if locking else "") + f'case "$USHER_LOCK" in {cases} *) echo rate 1000;; esac')

    def test_a_table_and_details(self):
        done, data = self.with_json("--locks", "loiter,mcs", "--rounds", "2", "--details", "--", self.locking())
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        for lock in ("pthread", "loiter", "mcs"):
            self.assertIn(" s ", self.row(done, lock))
        self.assertEqual(self.rows(done)[0].split(), ["lock", "median", "speed-up", "(95", "%)", "CPU", "verdict"])
        self.assertLessEqual(max(len(line) for line in self.rows(done)), 80)
        for word in ("range", "runs", "CPU s", "switches", "preempted", "MiB", "lock calls", "contended"):
            self.assertIn(word, done.stdout.split("\n\n")[1].splitlines()[0])
        self.assertIn("undecided", self.row(done, "mcs"))
        self.assertIn("of the CPU time meanwhile.", " ".join(done.stdout.split()))
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)  # also in the second table
        self.assertEqual([c["name"] for c in data["candidates"]], ["pthread", "loiter", "mcs"])
        for c in data["candidates"]:
            self.assertEqual(len(c["runs"]), 2)
            self.assertGreaterEqual(c["calls"]["locks"], 200000)
            self.assertLess(c["calls"]["locks"], 201000)
            self.assertLessEqual(c["calls"]["contended"], c["calls"]["locks"])
            for run in c["runs"]:
                self.assertGreater(run["seconds"], 0)
                self.assertGreater(run["peak_kib"], 100)

    def test_the_metric_is_taken_from_the_output_and_more_is_better(self):
        rate = self.script('case "$USHER_LOCK" in mcs) echo rate: 1,500.5;; *) echo rate: 1000;; esac')
        done, data = self.with_json("--locks", "mcs,twa", "--rounds", "6", "--metric", "rate: ([0-9.,]+)", "--", rate)
        self.assertEqual(done.returncode, 0, done)
        mcs, twa = self.candidate(data, "mcs"), self.candidate(data, "twa")
        self.assertEqual([r["metric"] for r in mcs["runs"]], [1500.5] * 6)
        self.assertEqual((mcs["speed_up"], mcs["interval"], mcs["verdict"]), (1.5005, [1.5005, 1.5005], "better"))
        self.assertEqual((twa["speed_up"], twa["verdict"]), (1, "level"))
        self.assertEqual(self.rows(done)[1].split()[:2], ["*", "mcs"])  # the row is sorted first, and marked
        # The script makes no lock calls. The report says so before it recommends a lock.
        self.assertIn("does not use pthread locks", done.stdout)
        lower, data = self.with_json("--locks", "mcs", "--rounds", "5", "--lower", "--metric", "rate: ([0-9.,]+)", "--", rate)
        self.assertEqual(self.rows(lower)[1].split()[0], "pthread")
        self.assertAlmostEqual(self.candidate(data, "mcs")["speed_up"], 1 / 1.5005)
        self.assertEqual(self.candidate(data, "mcs")["verdict"], "worse")

    def test_the_conclusion_names_the_best_and_the_command(self):
        program = self.rates(mcs=3000)
        done = self.run_try("--locks", "twa,mcs", "--rounds", "7", "--metric", "rate (.*)", "--", program, "two words")
        self.assertIn("mcs is 3.00 times as good", self.ended_with(done))
        self.assertEqual(done.stdout.splitlines()[-1], f"  usher run --lock mcs -- {program} 'two words'")
        done, data = self.with_json("--locks", "twa", "--quiet", "--metric", "counted ([0-9]+)", "--", self.locking(), "2000")
        self.assertIn(data["conclusion"]["kind"], ("keep", "no-lock-helps", "shorten"))
        self.assertNotIn("usher run", done.stdout)

    def test_rounds_that_are_too_few_say_how_many_are_not(self):
        program = self.rates(mcs=3000)
        trial = ["--locks", "twa,mine=mcs,ttas", "--metric", "rate (.*)", "--", program]
        done, data = self.with_json("--rounds", "5", *trial)
        self.assertIn("--rounds 7 or more can", self.ended_with(done))
        self.assertEqual((data["winner"], data["conclusion"]["kind"]), (None, "too-few-rounds"))
        done, data = self.with_json("--rounds", "7", *trial)
        self.assertEqual((data["winner"], data["rounds"], data["budget_s"]), ("mine", 7, None))
        self.assertIn("usher run --lock mcs", done.stdout.splitlines()[-1])

    def test_what_is_better_and_wrong_is_not_advised(self):
        program = self.script(f'{self.locking()} 200 > /dev/null; test "$USHER_LOCK" = mcs && echo lost 1 rate 3 || echo rate 1')
        for more in (["--rounds", "5"], ["--quiet"]):
            done, data = self.with_json(*more, "--locks", "mcs", "--metric", "rate (.*)", "--", program)
            self.assertEqual((done.returncode, data["winner"], data["conclusion"]["kind"]), (1, None, "unusable"), done)
            self.assertIn("failed: see below", self.row(done, "mcs"))

    # The budget

    def test_it_ends_when_the_answer_is_there(self):
        done, data = self.with_json("--locks", "mcs,twa,ttas", "--metric", "rate (.*)", "--", self.rates(mcs=3000, twa=100))
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stderr, r"^usher: a run takes [0-9.]+ s: about [0-9]+ rounds of 3 candidates fit into 2 min, .*\n$")
        self.assertEqual((data["winner"], data["conclusion"]["kind"], data["budget_s"]), ("mcs", "worth-it", 120))
        self.assertGreaterEqual(data["confirming_rounds"], 3)
        self.assertLessEqual(data["rounds"], 15)
        twa, ttas = self.candidate(data, "twa"), self.candidate(data, "ttas")
        self.assertEqual((twa["verdict"], twa["dropped"]["why"]), ("worse", "worse"))
        self.assertLess(len(twa["runs"]), data["rounds"])
        self.assertEqual((ttas["verdict"], ttas["dropped"]["why"]), ("undecided", "behind another"))
        self.assertIn(f"worse; dropped in round {twa['dropped']['round']}", self.row(done, "twa"))
        self.assertIn("in the 5 rounds after it was chosen", self.ended_with(done))

    def test_rounds_after_the_choice_may_contradict_it(self):
        runs = os.path.join(self.folder, "runs of mcs")
        with open(runs, "w") as file:
            file.write("0\n")
        program = self.script(f"""
            {self.locking()} 200 > /dev/null
            test "$USHER_LOCK" = mcs || {{ echo rate 1; exit; }}
            read n < '{runs}'; echo $((n + 1)) > '{runs}'
            test $n -le 5 && echo rate 3 || echo rate 0.5  # the warm-up and five rounds, which decide between two
        """)
        done, data = self.with_json("--quiet", "--locks", "mcs", "--metric", "rate (.*)", "--", program)
        self.assertEqual((data["winner"], data["conclusion"]["kind"], data["rounds"]), (None, "contradicted", 10), done)
        self.assertIn("No winner: mcs was better in the rounds that it was chosen by", self.ended_with(done))

    def test_a_chosen_lock_that_fails_is_no_contradiction(self):
        runs, counted = (os.path.join(self.folder, name) for name in ("runs until it fails", "runs of the base that are recorded"))
        with open(runs, "w") as file:
            file.write("0\n")
        program = self.script(f"""
            test "$USHER_LOCK" != pthread || {{ echo >> '{counted}'; exec {self.built("long_section", self.LONG_SECTION)}; }}
            {self.locking()} 200 > /dev/null
            test "$USHER_LOCK" = mcs || {{ echo rate 1; exit; }}
            read n < '{runs}'; echo $((n + 1)) > '{runs}'
            test $n -le 5 && echo rate 3 || exit 3  # the warm-up and five rounds, which decide between two
        """)
        done, data = self.with_json("--quiet", "--locks", "mcs", "--metric", "rate (.*)", "--", program)
        self.assertEqual((done.returncode, data["winner"], data["conclusion"]["kind"]), (1, None, "unusable"), done)
        self.assertIn("No winner: mcs is 3.00 times as good", self.ended_with(done))
        # The threads wait so much that `usher try` would consult `usher stat`, which needs one more run of the script.
        # If the conclusion is "unusable", there is no such run: the script ran with USHER_LOCK=pthread only once, while
        # its calls were counted.
        self.assertGreater(data["candidates"][0]["calls"]["waiting_share"], 0.05)
        with open(counted) as file:
            self.assertEqual(file.read(), "\n")

    def test_what_is_better_and_not_confirmed(self):
        """The trial is interrupted after the rounds that show a gain, and before a candidate is chosen and confirmed.
        """
        mark = os.path.join(self.folder, "seventh round")
        runs = os.path.join(self.folder, "runs of ttas")
        with open(runs, "w") as file:
            file.write("0\n")
        # Six rounds show that mcs is better. ttas has a better median but is not certainly better, and hangs in the seventh round.
        program = self.script(f"""
            {self.locking()} 200 > /dev/null
            test "$USHER_LOCK" = mcs && echo rate 3 && exit
            test "$USHER_LOCK" = ttas || {{ echo rate 1; exit; }}
            read n < '{runs}'; echo $((n + 1)) > '{runs}'
            test $n = 7 && touch '{mark}' && exec sleep 60
            test $n = 3 && echo rate 0.5 || echo rate 9
        """)
        file = os.path.join(self.folder, "unconfirmed.json")
        process = self.start(USHER, "try", "--quiet", "--locks", "mcs,ttas", "--json", file, "--metric", "rate (.*)", "--", program)
        try:
            wait_for(lambda: os.path.exists(mark))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
        self.assertEqual((process.returncode, err), (130, ""), out)
        with open(file) as f:
            conclusion = self.checked(json.load(f))["conclusion"]
        self.assertEqual(conclusion["kind"], "unconfirmed", out)
        self.assertRegex(conclusion["text"], r"^mcs is better, 3\.00 times as good .* in [67] rounds, but it was not confirmed: the trial was")
        self.assertEqual(conclusion["command"], f"usher run --lock mcs -- {program}")

    def test_a_winner_that_may_starve_threads(self):
        done, data = self.with_json("--rounds", "5", "--locks", "ttas", "--metric", "rate (.*)", "--", self.rates(ttas=3000))
        self.assertEqual(data["winner"], "ttas", done)
        self.assertIn("ttas promises no thread that it gets the lock (usher list ttas).", self.ended_with(done))
        done = self.run_try("--rounds", "5", "--locks", "mcs", "--metric", "rate (.*)", "--", self.rates(mcs=3000))
        self.assertNotIn("promises no thread", done.stdout)

    def test_rounds_that_failed_are_not_asked_for_again(self):
        state = os.path.join(self.folder, "runs of the base")
        with open(state, "w") as file:
            file.write("0\n")
        # Of the reference's nine runs after the warm-up only three succeed. mcs has no failures, but can be compared
        # only in these three rounds.
        program = self.script(f"""
            {self.locking()} 200 > /dev/null
            test "$USHER_LOCK" = mcs && echo rate 3 && exit
            read n < '{state}'; echo $((n + 1)) > '{state}'
            test $n -le 3 && echo rate 1 || exit 3
        """)
        done, data = self.with_json("--locks", "mcs", "--rounds", "9", "--metric", "rate (.*)", "--", program)
        self.assertEqual(data["conclusion"]["kind"], "too-few-rounds", done)
        self.assertIn("Runs failed: 3 of 9 rounds could be compared", self.ended_with(done))

    def test_the_same_trial_has_the_same_options(self):
        # The lock is better in four of five rounds. So the trial is undecided after eight rounds, and decided after
        # some more. The threads of the script wait, because with little waiting a conclusion recommends no new trial.
        # On a busy machine it recommends none, either.
        state = os.path.join(self.folder, "turns")
        with open(state, "w") as file:
            file.write("0\n")
        program = self.script(f"""
            {self.built("long_section", self.LONG_SECTION)} > /dev/null
            test "$USHER_LOCK" = mcs || {{ echo rate 1; exit; }}
            read n < '{state}'; echo $((n + 1)) > '{state}'
            test $((n % 5)) = 4 && echo rate 0.5 || echo rate 3
        """)
        trial = ["--locks", "mcs", "--rounds", "8", "--metric", "rate (.*)"]
        _, data = self.with_json(*trial, "--warmup", "2", "--timeout", "7.5", "--", program)
        self.assertEqual(data["conclusion"]["kind"], "undecided")
        if data["others_cpu_share"] > 0.1:
            self.assertEqual(data["conclusion"]["command"], f"usher stat -- {program}")
            self.assertRegex(data["conclusion"]["text"], r" Others took [0-9]+ % of the CPU time meanwhile, which may hide a difference\.")
        else:
            self.assertIn(" --warmup 2 --timeout 7.5 --metric ", data["conclusion"]["command"])
            self.assertRegex(data["conclusion"]["text"], r" a new trial of it alone decides after about [0-9]+ rounds?\.$")
        _, data = self.with_json(*trial, "--", program)
        self.assertNotIn("--warmup", data["conclusion"]["command"])
        self.assertNotIn("--timeout", data["conclusion"]["command"])

    def test_a_budget_without_room_for_an_answer(self):
        # One run takes half of the budget. No run begins after the end of the budget, and each run takes at least 0.5
        # s.
        done, data = self.with_json("--locks", "mcs", "--budget", "1s", "--metric", "rate (.*)", "--", self.script(
            f'{self.locking()} 200; sleep 0.5; test "$USHER_LOCK" = mcs && echo rate 3 || echo rate 1'))
        self.assertRegex(done.stderr, r"^usher: a run takes [0-9.]+ s, too long for an answer in 1.* s: "
                                      r"the fewest rounds that can give one, 8 of mcs, take about .*\n$")
        self.assertEqual((data["winner"], data["rounds"], data["conclusion"]["kind"]), (None, 0, "too-few-rounds"))
        self.assertRegex(self.ended_with(done), r"^1.* s had room for 0 rounds: 5 or more can show that a lock is better\.")

    def test_the_budget_is_kept_by_runs_that_become_longer(self):
        # The first ten runs are short, so the plan has many rounds; each later run takes a second.
        runs = os.path.join(self.folder, "runs that become longer")
        with open(runs, "w") as file:
            file.write("0\n")
        program = self.script(f"read n < '{runs}'; echo $((n + 1)) > '{runs}'; test $n -le 9 || sleep 1")
        self.with_json("--quiet", "--locks", "mcs,twa,ttas,steady", "--budget", "1s", "--", program)
        with open(runs) as file:
            begun = int(file.read())
        self.assertLessEqual(begun, 10 + 1)  # no run begins after the end of the budget

    def test_durations(self):
        for text, seconds in (("90s", 90), ("2m", 120), ("1h30m", 5400), ("45", 45), ("1.5m", 90), ("2.5", 2.5)):
            with self.subTest(text):
                done, data = self.with_json("--quiet", "--budget", text, "--", "true")
                self.assertEqual((done.returncode, data["budget_s"]), (0, seconds), done)
        for text in ("2x", "", "0", "-1", "1e3", "nan", "inf", "30m1h", "1m1m", "m", "1h30"):
            with self.subTest(text):
                self.assert_refused(self.run_try("--budget", text, "--", "true"), 2, "--budget")

    THREADS = r"""
    #define _DEFAULT_SOURCE
    #include <pthread.h>
    #include <stdlib.h>
    #include <unistd.h>
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_barrier_t all;
    static void *run(void *unused) {
      pthread_mutex_lock(&mutex);
      pthread_mutex_unlock(&mutex);
      pthread_barrier_wait(&all);
      usleep(60000);  // `usher try` counts the living threads by samples
      for (int i = 0; i < 100; i++) pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex);
      return unused;
    }
    int main(int argc, char **argv) {
      int n = atoi(argv[1]);
      pthread_t *threads = calloc(n, sizeof *threads);
      pthread_barrier_init(&all, 0, n);
      for (int i = 0; i < n; i++) pthread_create(&threads[i], 0, run, 0);
      for (int i = 0; i < n; i++) pthread_join(threads[i], 0);
      return 0;
    }
    """

    def test_default_candidates_are_those_that_make_sense(self):
        """The budget is so small that only the fewest rounds of two candidates are run, so the result does not depend
        on the speed of the machine."""
        program, cpus = self.built("threads", self.THREADS), len(os.sched_getaffinity(0))
        done, data = self.with_json("--rounds", "1", "--", program, str(cpus + 8))
        names = [c["name"] for c in data["candidates"]]
        self.assertEqual(names[:3], ["pthread", "steady", "loiter-park"])
        self.assertFalse({"mcscr", "twa"} & set(names), names)
        self.assertEqual([left["name"] for left in data["left_out"]], ["mcscr", "twa"])
        self.assertGreaterEqual(data["candidates"][0]["calls"]["threads"], cpus + 8)
        done, data = self.with_json("--rounds", "1", "--", program, "1")
        self.assertEqual([c["name"] for c in data["candidates"]], ["pthread", "steady", "loiter-park", "mcscr", "twa"])
        self.assertEqual(data["left_out"], [])
        # The plan is made after the warm-up run, in which calls are counted. A later run of the reference that fails
        # does not change the plan.
        state = os.path.join(self.folder, "runs to plan by")
        with open(state, "w") as file:
            file.write("0\n")
        failing = self.script(f"""
            case "$USHER_LOCK" in ""|pthread)
              read n < '{state}'; echo $((n + 1)) > '{state}'
              test $n = 1 && exit 3
            esac
            exec {program} {cpus + 8}
        """)
        for command, warmup, runs in (([program, str(cpus + 8)], "2", "1"), ([failing], "1", "2")):
            done, data = self.with_json("--rounds", runs, "--warmup", warmup, "--", *command)
            self.assertEqual([left["name"] for left in data["left_out"]], ["mcscr", "twa"], done)
            self.assertFalse({"mcscr", "twa"} & {c["name"] for c in data["candidates"]})
        done, data = self.with_json("--budget", "0.01s", "--", program, str(cpus + 8))
        self.assertEqual([c["name"] for c in data["candidates"]], ["pthread", "steady", "loiter-park"])
        self.assertIn("usher: left out, as it hands the lock to one certain thread", done.stderr)
        self.assertIn(": mcscr, twa (--locks mcscr,twa tries them)", done.stderr)
        self.assertIn("usher: left out, for lack of time: ttas (--locks ttas tries it)", done.stderr)

    def test_where_a_collector_parks_threads(self):
        def left_out(first, second):
            program = self.script(f"""
                exec '{sys.executable}' -c '
                import signal, threading, time
                for which in {first}, {second}: signal.signal(which, lambda *_: None)
                lock = threading.Lock()
                def work():
                    for _ in range(20000):
                        with lock: pass
                threads = [threading.Thread(target=work) for _ in range(2)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                time.sleep(0.3)'
            """)
            done, data = self.with_json("--rounds", "1", "--", program)
            return done, [left["name"] for left in data["left_out"]], data["candidates"][0]["calls"]

        for first, second in ((int(signal.SIGPWR), int(signal.SIGXCPU)), (signal.SIGRTMIN + 6, signal.SIGRTMIN + 5)):
            done, names, calls = left_out(first, second)
            self.assertTrue(calls["parks_threads"])
            self.assertLessEqual({"loiter-park", "mcscr", "twa"}, set(names), done)
            self.assertIn("a collector that parks threads", done.stderr)
        done, names, calls = left_out(int(signal.SIGPWR), int(signal.SIGUSR1))
        self.assertNotIn("parks_threads", calls)
        self.assertNotIn("loiter-park", names, done)

    def test_nothing_is_compared_where_there_is_nothing_to_gain(self):
        done, data = self.with_json("--", "true")
        self.assertEqual((done.returncode, done.stderr, data["rounds"]), (0, "", 0), done)
        self.assertIn("does not use pthread locks or semaphores", done.stdout)
        self.assertEqual(data["conclusion"]["kind"], "no-locks")
        done, data = self.with_json("--warmup", "3", "--", "true")
        self.assertEqual((data["rounds"], data["conclusion"]["kind"]), (0, "no-locks"), done)

    LONG_SECTION = r"""
    #include <pthread.h>
    #include <stdio.h>
    #include <unistd.h>
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static void *run(void *unused) {
      for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&mutex);
        usleep(500);  // the length of the hold, for which other threads wait
        pthread_mutex_unlock(&mutex);
      }
      for (int i = 0; i < 100; i++) pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex);
      return unused;
    }
    int main(void) {
      pthread_t threads[4];
      for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, 0);
      for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
      puts("rate 1");
      return 0;
    }
    """

    def test_where_threads_wait_and_no_lock_helps(self):
        program = self.built("long_section", self.LONG_SECTION)
        done, data = self.with_json("--quiet", "--locks", "mcs", "--metric", "rate (.*)", "--", program)
        self.assertGreater(data["candidates"][0]["calls"]["waiting_share"], 0.05)
        self.assertEqual(data["conclusion"]["kind"], "shorten", done)
        self.assertEqual(data["conclusion"]["command"], f"usher stat -- {program}")
        if has_stat:
            self.assertIn("threads waited", self.ended_with(done))

    def test_where_threads_wait_and_nothing_is_decided(self):
        state = os.path.join(self.folder, "rounds of mcs")
        # mcs is worse in odd rounds and better in even ones, so no number of rounds decides.
        program = self.script(f"""
            {self.built("long_section", self.LONG_SECTION)} > /dev/null
            test "$USHER_LOCK" = mcs || {{ echo rate 1; exit; }}
            read n < '{state}'; echo $((n + 1)) > '{state}'
            test $((n % 2)) = 1 && echo rate 0.3 || echo rate 3
        """)
        for extent in (["--rounds", "6"], ["--budget", "5s"]):
            with open(state, "w") as file:
                file.write("0\n")
            done, data = self.with_json("--quiet", *extent, "--locks", "mcs", "--metric", "rate (.*)", "--", program)
            conclusion = data["conclusion"]
            self.assertGreater(data["candidates"][0]["calls"]["waiting_share"], 0.05)
            if extent[0] == "--budget" and conclusion["kind"] == "too-few-rounds":
                continue  # a busy machine
            self.assertEqual((conclusion["kind"], conclusion["command"]), ("undecided", f"usher stat -- {program}"), done)
            self.assertRegex(conclusion["text"], r"^Undecided: .* [0-9]+ rounds? (cannot tell from chance|would show it)\. "
                                                 r"(Threads wait for mutexes .*: look for|Where the time goes, of one run: )")

    # Read-write locks

    WAITS = r"""
    #include <pthread.h>
    #include <stdatomic.h>
    #include <stdio.h>
    #include <string.h>
    #include <unistd.h>
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_rwlock_t rwlock;
    static pthread_barrier_t all;
    static atomic_int at_mutex, at_rwlock;  // threads that wait for or have it
    static void hold(int i, atomic_int *here) {  // until another thread waits, also on a busy machine
      if (i >= 40) return;
      for (int n = 0; n < 40 && *here < 2; n++) usleep(500);
      usleep(500);
    }
    static void *lock_mutex(void *unused) {
      pthread_barrier_wait(&all);
      for (int i = 0; i < 100; i++, at_mutex--) {
        at_mutex++;
        pthread_mutex_lock(&mutex);
        hold(i, &at_mutex);
        pthread_mutex_unlock(&mutex);
      }
      return unused;
    }
    static void *lock_rwlock(void *unused) {
      pthread_barrier_wait(&all);
      for (int i = 0; i < 100; i++, at_rwlock--) {
        at_rwlock++;
        i % 10 == 9 ? pthread_rwlock_rdlock(&rwlock) : pthread_rwlock_wrlock(&rwlock);
        hold(i, &at_rwlock);
        pthread_rwlock_unlock(&rwlock);
      }
      return unused;
    }
    int main(int argc, char **argv) {  // argument: any of mutex, rwlock, shared
      pthread_t threads[4];
      pthread_rwlockattr_t attributes;
      pthread_rwlockattr_init(&attributes);
      if (strstr(argv[1], "shared")) pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
      pthread_rwlock_init(&rwlock, &attributes);
      pthread_barrier_init(&all, 0, 4);
      for (int i = 0; i < 4; i++) {
        int first = strstr(argv[1], "mutex") && (i < 2 || !strstr(argv[1], "rwlock"));
        pthread_create(&threads[i], 0, first ? lock_mutex : lock_rwlock, 0);
      }
      for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
      puts("rate 1");
      return 0;
    }
    """

    def candidates_for(self, what, *options):
        done, data = self.with_json(*options, "--rounds", "1", "--", self.built("waits", self.WAITS), what)
        self.assertEqual(done.returncode, 0, done)
        return done, data, [c["name"] for c in data["candidates"]]

    def test_default_candidates_follow_the_waiting(self):
        _, data, names = self.candidates_for("rwlock")
        self.assertEqual(names, ["pthread", "phase-fair", "bravo"])
        self.assertEqual([(c["lock"], c.get("rwlock")) for c in data["candidates"]],
                         [("pthread", None), ("pthread", "phase-fair"), ("pthread", "bravo")])
        for c in data["candidates"]:
            self.assertEqual((c["calls"]["locks"], c["calls"]["rwlocks"]), (0, 400))
            self.assertGreater(c["calls"]["rwlock_waiting_share"], 0.05)
            self.assertNotIn("shared_rwlock_waiting_share", c["calls"])
        _, data, names = self.candidates_for("mutex,rwlock")
        self.assertEqual(names, ["pthread", "steady+phase-fair", "steady+bravo", "steady", "phase-fair"])
        self.assertIn({"name": "bravo", "why": "in favour of read-write locks"}, data["left_out"])
        for what, options in (("mutex", ()), ("rwlock", ("--warmup", "0"))):  # without a warm-up nothing is counted
            _, data, names = self.candidates_for(what, *options)
            self.assertEqual(names[:3], ["pthread", "steady", "loiter-park"])
            self.assertNotIn("rwlock", json.dumps(data["candidates"]))
            self.assertNotIn("rwlock", json.dumps(data["left_out"]))

    def test_process_shared_read_write_locks_cannot_be_replaced(self):
        done, data, names = self.candidates_for("shared")
        self.assertEqual((data["conclusion"]["kind"], data["rounds"]), ("no-locks", 0))
        self.assertGreater(data["candidates"][0]["calls"]["shared_rwlock_waiting_share"], 0.05)
        self.assertIn("these stay the C library's, since no lock of Usher's serves them.", " ".join(done.stdout.split()))
        done, _, names = self.candidates_for("shared,rwlock,mutex")
        self.assertEqual(names[:3], ["pthread", "steady", "loiter-park"])
        self.assertIn("no lock of Usher's serves them.", self.ended_with(done))

    def read_write_rates(self):
        """Makes a program that waits for a read-write lock, and whose rate depends on both locks."""
        return self.script(f"""
            {self.built("waits", self.WAITS)} rwlock > /dev/null
            case "$USHER_LOCK,$USHER_RWLOCK" in
              steady,bravo) echo rate 4;; pthread,bravo) echo rate 3;; pthread,phase-fair) echo rate 2;; *) echo rate 1;;
            esac
        """)

    def test_a_winner_names_its_read_write_lock(self):
        program, file = self.read_write_rates(), os.path.join(self.folder, "rwlocks.json")
        for options, winner, speed_up, command in (
                ((), "bravo", 3, "--lock pthread --rwlock bravo"),
                (("--locks", "pthread,steady", "--rwlocks", "pthread,bravo"), "steady+bravo", 4, "--lock steady --rwlock bravo"),
                (("--locks", "mine=steady+bravo"), "mine", 4, "--lock steady --rwlock bravo")):
            first = self.run_try("--quiet", *options, "--json", file, "--details", "--plot", "--metric", "rate (.*)", "--", program)
            with open(file) as f:
                data = self.checked(json.load(f))
            self.assertEqual((first.returncode, first.stderr, data["winner"]), (0, "", winner), first)
            self.assertIn(f"Worth it: {winner} is {speed_up}.00 times as good", self.ended_with(first))
            self.assertIn("as the C library's locks, in the", self.ended_with(first))
            self.assertIn("Usher's read-write locks are experimental.", self.ended_with(first))
            self.assertEqual(first.stdout.splitlines()[-1], f"  usher run {command} -- {program}")
            self.assertEqual(self.rows(first)[1].split()[:2], ["*", winner])
            shown = self.run_try("--show", file, "--details", "--plot")
            self.assertEqual((shown.returncode, shown.stdout), (0, first.stdout))
        # Makes the results look like those of an older Usher, which had no read-write locks.
        for c in data["candidates"]:
            c.pop("rwlock", None)
            for key in ("rwlocks", "contended_rwlocks", "rwlock_waiting_share"):
                c["calls"].pop(key, None)
        self.checked(data)
        with open(file, "w") as f:
            json.dump(data, f)
        self.assertEqual(self.run_try("--show", file).returncode, 0)

    def test_a_read_write_lock_of_the_environment_is_ignored(self):
        env = self.environment() | {"USHER_RWLOCK": "bravo"}
        program = self.script(f'{self.locking()} 200 > /dev/null; '
                              'case "$USHER_LOCK,$USHER_RWLOCK" in steady,) echo rate 2;; *) echo rate 1$USHER_RWLOCK;; esac')
        done = subprocess.run([USHER, "try", "--locks", "steady", "--rounds", "5", "--metric", "rate (.*)", "--", program],
                              env=env, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stderr),
                         (0, "usher: warning: USHER_RWLOCK is set: it is ignored, --rwlocks says what is tried\n"), done)
        self.assertEqual(done.stdout.splitlines()[-1], f"  usher run --lock steady --rwlock pthread -- {program}")

    def during_the_run_under_stat(self, kind, *options, env=None):
        """Sends the signal to a trial while it runs the reference under `usher stat`. Returns the trial's exit status.
        """
        counted, asked = (os.path.join(self.folder, name) for name in (f"counted-{kind}", f"asked-{kind}"))
        # The reference usually runs without Usher's library. It runs with the library, and with USHER_LOCK=pthread,
        # only while its calls are counted and under `usher stat`.
        program = self.script(f"""
            if test "$USHER_LOCK" = pthread; then
              test -e '{counted}' && touch '{asked}' && exec sleep 60
              touch '{counted}'
            fi
            exec {self.built("long_section", self.LONG_SECTION)}
        """)
        process = subprocess.Popen([USHER, "try", "--quiet", "--locks", "mcs", *options, "--metric", "rate (.*)", "--", program],
                                   env=self.environment() | (env or {}), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: os.path.exists(asked))
            process.send_signal(kind)
            process.communicate(timeout=LIMIT)
        finally:
            process.kill()
        return process.returncode

    @unittest.skipUnless(has_stat, "no usher stat")
    def test_an_interruption_of_the_run_under_stat(self):
        file = os.path.join(self.folder, "asked.json")
        self.assertEqual(self.during_the_run_under_stat(signal.SIGINT, "--json", file), 130)
        with open(file) as f:
            self.assertTrue(self.checked(json.load(f))["interrupted"])

    @unittest.skipUnless(has_stat, "no usher stat")
    def test_a_killed_trial_leaves_no_files(self):
        temporary = os.path.join(self.folder, "temporary")
        os.mkdir(temporary)
        self.assertEqual(self.during_the_run_under_stat(signal.SIGKILL, env={"TMPDIR": temporary}), -signal.SIGKILL)
        self.assertEqual(os.listdir(temporary), [])

    # Output

    def test_a_trial_is_shown_again(self):
        file, again = os.path.join(self.folder, "shown.json"), os.path.join(self.folder, "again.json")
        first = self.run_try("--locks", "mcs,twa", "--rounds", "6", "--json", file, "--metric", "rate (.*)", "--details", "--plot",
                             "--", self.script(self.RATES))
        self.assertEqual(first.returncode, 1, first)
        shown = self.run_try("--show", file, "--details", "--plot", "--json", again)
        self.assertEqual((shown.returncode, shown.stdout, shown.stderr), (0, first.stdout, ""))
        with open(file) as one, open(again) as other:
            self.assertEqual(one.read(), other.read())
        for content, word in (("{", "no JSON"), ("{}", "no result of usher try"), ('{"candidates": []}', "format 1"),
                              ('{"format": 2, "candidates": []}', "docs/schema/try.json")):
            with open(again, "w") as f:
                f.write(content)
            self.assert_refused(self.run_try("--show", again), 2, again, word)
        self.assert_refused(self.run_try("--show", again + "x"), 2, again + "x")
        self.assert_refused(self.run_try("--show", file, "--", "true"), 2, "no command")

    def test_what_a_file_of_results_says_is_no_escape_sequence(self):
        file = os.path.join(self.folder, "evil.json")
        self.run_try("--locks", "mcs,twa", "--rounds", "6", "--json", file, "--metric", "rate (.*)", "--", self.script(self.RATES))
        with open(file) as f:
            data = with_evil(json.load(f), kept=("verdict", "better", "comparison", "kind", "text"))
        data["conclusion"]["text"] += "\033[2J\u009b1m"  # a text of several lines
        with open(file, "w") as f:
            json.dump(data, f)
        for more in ((), ("--markdown",)):
            done = self.run_try("--show", file, "--details", "--plot", *more)
            self.assertEqual(done.returncode, 0, done)
            self.assertIn("\\x1b[2J", done.stdout)
            self.assert_harmless(done.stdout + done.stderr)

    def test_json_on_standard_output(self):
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--json", "-", "--", "true")
        self.assertEqual(self.checked(json.loads(done.stdout))["rounds"], 1)
        self.assertIn("speed-up", done.stderr)

    def test_markdown(self):
        done = self.run_try("--locks", "a|b=mcs", "--rounds", "5", "--markdown", "--metric", "rate (.*)", "--", self.rates(mcs=2000))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], ["| lock | median | speed-up (95 %) | CPU | verdict |", "|---|---:|---:|---:|---|"])
        self.assertTrue(lines[2].startswith("| **`a\\|b`** | 2,000 | 2.00 (2.00–2.00) |"), lines[2])

    def test_colours_where_they_are_wanted(self):
        trial = ["--locks", "mcs", "--rounds", "5", "--metric", "rate (.*)", "--", self.rates(locking=False, mcs=2000)]
        self.assertNotIn("\033", self.run_try(*trial).stdout)
        self.assertNotIn("\033", self.run_try("--colour", "never", *trial).stdout)
        self.assertIn("\033[1;32m* mcs", self.run_try("--color=always", *trial).stdout)
        self.assert_refused(self.run_try("--colour", "often", "--", "true"), 2, "--colour", "often")

    @unittest.skipUnless(shutil.which("script"), "no script to have a terminal")
    def test_colours_on_a_terminal(self):
        line = f"{USHER} try --quiet --locks mcs --rounds 5 --metric 'rate (.*)' -- {self.rates(locking=False, mcs=2000)}"
        for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            done = subprocess.run(["script", "-qec", line, "/dev/null"], env=self.environment() | {"TERM": "xterm"} | more,
                                  capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
            self.assertEqual("\033[1;32m" in done.stdout, coloured, (more, done))

    def test_before_every_run(self):
        state = os.path.join(self.folder, "state")
        program = self.script(f"test -e {state} || exit 1; rm {state}")
        done = self.run_try("--locks", "mcs", "--rounds", "2", "--before", f"touch {state}", "--", program)
        self.assertEqual(done.returncode, 0, done)
        done = self.run_try("--locks", "mcs", "--before", "echo no room >&2; false", "--", "true")
        self.assert_refused(done, 1, "--before", "exit status 1", "no room")

    def test_a_server_and_its_load(self):
        socket = os.path.join(self.folder, "up")
        # The server is ready after some time. The script sleeps in a loop of short sleeps, because a shell runs a trap
        # only between commands.
        server = self.script(f"""
            trap 'echo bye; rm -f {socket}; exit 0' TERM
            sleep 0.1; echo $USHER_LOCK > {socket}
            while :; do sleep 0.05; done
        """)
        done, data = self.with_json("--locks", "mcs", "--rounds", "2", "--ready", f"test -e {socket}", "--until",
                                    f'test "$(cat {socket})" = mcs && echo score 20 || echo score 10',
                                    "--metric", "score ([0-9]+)", "--", server)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual([[r["metric"] for r in c["runs"]] for c in data["candidates"]], [[10, 10], [20, 20]])
        self.assertFalse(os.path.exists(socket))  # the server was terminated, not killed
        # The test is for a server that ends before the load does. So this load lasts 0.3 s, and the loads of the tests
        # below last 0.3 s or 1 s.
        early = self.run_try("--locks", "mcs", "--until", "sleep 0.3", "--", self.script('test "$USHER_LOCK" != mcs && sleep 9'))
        self.assertIn("the server ended early", self.note(early, "mcs"))
        self.assertIn("failed: see below; ", self.row(early, "mcs") + "; ")

    def test_standard_input_is_given_to_each_run(self):
        with open(os.path.join(self.folder, "input"), "w") as file:
            file.write("7\n")
        with open(os.path.join(self.folder, "input")) as file:
            done = self.run_try("--locks", "mcs", "--rounds", "2", "--metric", "([0-9]+)", "--", "cat", stdin=file)
        self.assertEqual(done.returncode, 0, done)

    def test_bars(self):
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--plot", "--", self.locking(), "100")
        self.assertRegex(done.stdout, r"mcs +#+ *[0-9.]+\n")

    # A lock under another name

    def test_a_name_for_a_lock(self):
        done, data = self.with_json("--locks", "first=twa,second=twa,again=pthread,mcs=mcs", "--rounds", "2",
                                    "--warmup", "0", "--",
                                    self.script("echo ${USHER_LOCK:-none}; test ${LD_PRELOAD:-none} = none || exit 0"))
        self.assertEqual([(c["name"], c["lock"]) for c in data["candidates"]],
                         [("pthread", "pthread"), ("first", "twa"), ("second", "twa"), ("again", "pthread"), ("mcs", "mcs")])
        for name in ("first", "second"):
            self.assertIn("PRINTED SOMETHING ELSE", self.note(done, name))
        # `again` is the C library's mutex: it runs without Usher's library, as the reference does
        self.assertNotIn("again: ", done.stdout)
        program = self.rates(mcs=3000)
        done = self.run_try("--locks", "mine=mcs", "--rounds", "5", "--metric", "rate (.*)", "--", program)
        self.assertIn("mine is 3.00 times as good", self.ended_with(done))
        self.assertIn(f"usher run --lock mcs -- {program}", done.stdout)

    # Files

    def test_a_file_that_cannot_be_written_to(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        path = os.path.join(self.folder, "full.json")
        os.symlink("/dev/full", path)
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--json", path, "--", "true")
        self.assertEqual(done.returncode, 125, done)
        self.assertRegex(done.stderr, rf"^usher: cannot write to {re.escape(path)}: .*\n$")
        self.assertIn("mcs", done.stdout)  # the table is printed nevertheless

    def test_one_round_and_failures(self):
        """Ratios that are far apart, a single round (without limits), names of any length, a rate of zero; failures in the table's order."""
        for locks, rate in (("ttas," + "long" * 30 + "=mcs", self.RATES), ("mcs", 'test "$USHER_LOCK" && echo rate 0 || echo rate 5')):
            done = self.run_try("--locks", locks, "--rounds", "1", "--plot", "--metric", "rate ([0-9]+)", "--", self.script(rate))
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        done = self.run_try("--locks", "mcs,twa", "--rounds", "2", "--metric", "rate ([0-9]+)", "--lower", "--", self.script(self.RATES))
        self.assertEqual((done.returncode, done.stderr), (1, ""), done)
        self.assertRegex(self.row(done, "mcs"), r" 0\.67 .*undecided")
        self.assertIn("twa: exit status 3: broken; 2 of 2 runs failed", done.stdout)
        self.assertRegex(done.stdout, r"(?s)\n  pthread .*\n  mcs .*\n  twa ")

    def test_what_programs_print_need_not_be_utf_8(self):
        done, data = self.with_json("--locks", "mcs", "--rounds", "1", "--", self.script(
            r'test "$USHER_LOCK" = mcs || exit 0; printf "\377bad" >&2; exit 3'))
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(data["candidates"][1]["troubles"], ["exit status 3: ?bad"])
        self.assertIn("?bad", done.stdout)

    # The following tests have failures under one lock, which must not affect the other locks.

    def one_bad(self, bad, *arguments):
        done = self.run_try("--locks", "mcs,twa", "--rounds", "2", *arguments, "--",
                            self.script(f'if [ "$USHER_LOCK" = mcs ]; then {bad}; fi\necho fine'))
        self.assertEqual(done.returncode, 1, done)
        self.assertNotIn("\ntwa: ", done.stdout)
        return self.note(done, "mcs")

    def test_a_crash(self):
        row = self.one_bad("kill -SEGV $$")
        self.assertIn("died of signal 11", row)
        self.assertIn("2 of 2 runs failed", row)

    def test_an_exit_status(self):
        self.assertIn("exit status 3: oh no", self.one_bad("echo oh no >&2; exit 3"))

    def test_a_hang_with_children_and_without_regard_for_sigterm(self):
        mark = f"9{os.getpid()}.25"
        begin = time.monotonic()
        row = self.one_bad(f"trap '' TERM INT; sleep {mark} & setsid sleep {mark} & sleep {mark}; sleep {mark}",
                           "--timeout", "1")
        self.assertIn("hung: killed after 1 s", row)
        self.assertLess(time.monotonic() - begin, 100)  # the trial ended without another run of the program
        self.assertEqual(self.left_behind(f"sleep {mark}"), [])

    def test_another_output(self):
        row = self.one_bad("echo find; exit 0")
        self.assertIn("PRINTED SOMETHING ELSE (line 1)", row)

    def test_numbers_may_differ_if_they_do_by_themselves(self):
        done = self.run_try("--locks", "mcs", "--rounds", "2", "--", self.script("echo took $(date +%s%N) ns; echo total 5"))
        self.assertEqual(done.returncode, 0, done)
        done = self.run_try("--locks", "mcs", "--rounds", "2", "--", self.script(
            'echo took $(date +%s%N) ns; test "$USHER_LOCK" = mcs && echo total 4 || echo total 5'))
        self.assertIn("PRINTED SOMETHING ELSE (line 2)", self.note(done, "mcs"))

    def test_no_metric_in_the_output(self):
        done = self.run_try("--locks", "mcs,twa", "--rounds", "2", "--metric", "rate ([0-9]+)", "--", self.script(
            'test "$USHER_LOCK" = mcs && echo rate unknown || echo rate 5'))
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("the metric is not in its output", self.note(done, "mcs"))
        self.assertNotIn("\ntwa: ", done.stdout)

    def test_patterns_that_would_take_for_ever(self):
        """An attacker may print the line that the pattern searches, or choose the pattern."""
        line = self.script("head -c 4400 /dev/zero | tr '\\0' a; echo; echo rate 7")
        begin = time.monotonic()
        for pattern in ("^(a|aa)+$|^(a+)+b", "rate ([0-9]+)|(a*)*(a*)*c", "((a|a?)+)+b"):
            self.run_try("--quiet", "--locks", "mcs", "--rounds", "1", "--warmup", "0", "--metric", pattern, "--", line)
        self.assertLess(time.monotonic() - begin, 200)
        deep = 20000
        for pattern in ("(" * deep + "a" + ")" * deep, "(?:" * deep + "a" + ")*" * deep, "a(" + "b{999}{999}" + ")"):
            done = self.run_try("--locks", "mcs", "--rounds", "1", "--metric", pattern, "--", "true")
            self.assertIn(done.returncode, (1, 2), done.stderr[-200:])
        for words in (["--replay", "1:1:" + "1.1" * deep], ["--replay", "1:1" + ":1.1" * deep, "--weaken-at", "a:1" * deep]):
            done = subprocess.run([USHER, "check", "twa", *words], capture_output=True, text=True, timeout=LIMIT)
            self.assertGreater(done.returncode, 0, done.stderr[-200:])

    def test_a_search_for_the_metric_ends_with_the_trial(self):
        """For each of its matches the pattern looks ahead to the end of a long line, so the search takes very long."""
        line = self.script("head -c 30000000 /dev/zero | tr '\\0' 1; echo; touch $USHER_TEST_DONE")
        mark = os.path.join(self.folder, "printed")
        process = subprocess.Popen([USHER, "try", "--quiet", "--locks", "mcs", "--metric", "([0-9])(.*x)?", "--", line],
                                   env=self.environment() | {"USHER_TEST_DONE": mark}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: os.path.exists(mark))
            before = cpu_seconds(process.pid)
            # more CPU time than the end of the run takes, so the search has begun
            wait_for(lambda: cpu_seconds(process.pid) > before + 0.3)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(20), 143, process.stderr.read())
        finally:
            process.kill()
            process.communicate()

    # The following tests have failures that end the trial with one line and an exit status.

    def test_what_is_refused(self):
        for arguments, status, words in (
                (["--rounds", "0", "--", "true"], 2, ["--rounds", "1"]),
                (["--rounds", "5", "--budget", "1m", "--", "true"], 2, ["--rounds", "--budget"]),
                (["--locks", "mcs,tva", "--", "true"], 2, ["tva", "twa"]),
                (["--locks", "pthread", "--", "true"], 2, ["--locks"]),
                (["--metric", "([0-9]+", "--", "true"], 2, ["--metric", "regular expression"]),
                (["--metric", "[0-9]+", "--", "true"], 2, ["group"]),
                (["--lower", "--higher", "--", "true"], 2, ["--lower"]),
                (["--ready", "true", "--", "true"], 2, ["--until"]),
                (["--timeout", "-1", "--", "true"], 2, ["--timeout", "above 0"]),
                (["--timeout", "0", "--", "true"], 2, ["--timeout", "above 0"]),
                (["--timeout", "nan", "--", "true"], 2, ["--timeout", "above 0"]),
                (["--timeout", "inf", "--", "true"], 2, ["--timeout", "above 0"]),
                (["--all", "--locks", "mcs", "--", "true"], 2, ["--all", "--locks"]),
                (["--locks", "=mcs", "--", "true"], 2, ["=mcs", "no name"]),
                (["--locks", "mcs,mine=", "--", "true"], 2, ["mine=", "no lock"]),
                (["--locks", "mine=tva", "--", "true"], 2, ["tva", "twa"]),
                (["--locks", "mine=mcs,mine=twa", "--", "true"], 2, ["mine", "twice"]),
                (["--locks", "mcs,mcs", "--", "true"], 2, ["mcs", "twice"]),
                (["--locks", "pthread=pthread", "--", "true"], 2, ["pthread", "twice"]),
                (["--locks", "twa=mcs", "--", "true"], 2, ["twa=mcs", "another"]),
                (["--locks", "steady+brave", "--", "true"], 2, ["read-write lock 'brave'", "bravo"]),
                (["--locks", "bravo=mcs", "--", "true"], 2, ["bravo=mcs", "another"]),
                (["--rwlocks", "phase-fare", "--", "true"], 2, ["read-write lock 'phase-fare'", "phase-fair"]),
                (["--rwlocks", "mcs", "--", "true"], 2, ["read-write lock 'mcs'"]),
                (["--rwlocks", "pthread", "--", "true"], 2, ["--rwlocks"]),
                (["--rwlocks", "bravo,bravo", "--", "true"], 2, ["bravo", "twice"]),
                (["--rwlocks", "bravo", "--locks", "phase-fair", "--", "true"], 2, ["phase-fair", "--rwlocks"]),
                (["--json", "/nowhere/x", "--", "true"], 125, ["/nowhere/x"]),
                (["--chart", "x.svg", "--", "true"], 2, ["--chart"]),
                ([], 2, ["which command"])):
            with self.subTest(arguments):
                self.assert_refused(self.run_try(*arguments), status, *words)

    def test_what_cannot_start(self):
        self.assert_refused(self.run_try("--", "/nowhere/to/be/found"), 127, "/nowhere/to/be/found")
        self.assert_refused(self.run_try("mcs", "--", "true"), 127, "did you mean --locks mcs?")
        text = self.script("echo")
        os.chmod(text, 0o644)
        self.assert_refused(self.run_try("--", text), 126, text)

    def test_what_fails_by_itself(self):
        self.assert_refused(self.run_try("--", "sh", "-c", "echo broken >&2; exit 4"), 1, "exit status 4", "broken",
                            "nothing to compare")
        done = self.run_try("--metric", "rate ([0-9]+)", "--", "seq", "20")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        lines = done.stderr.splitlines()
        self.assertIn("the metric is not in its output", lines[0])
        self.assertEqual(lines[1:], [f"  | {i}" for i in range(11, 21)])

    def test_an_interruption_prints_what_there_is(self):
        mark = f"8{os.getpid()}.5"
        program = self.script(f'test "$USHER_LOCK" = twa && sleep {mark}; echo fine')
        results = os.path.join(self.folder, "so far.json")
        process = subprocess.Popen([USHER, "try", "--quiet", "--locks", "mcs,twa", "--seed", "2", "--warmup", "0", "--json", results,
                                    "--", program],
                                   env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: self.left_behind(f"sleep {mark}"))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=100)
        finally:
            process.kill()
        self.assertEqual((process.returncode, err), (130, ""))
        self.assertRegex(out, r"(?m)^  mcs ")
        with open(results) as file:
            data = json.load(file)
        self.assertTrue(data["interrupted"])
        self.assertTrue(self.candidate(data, "mcs")["runs"])
        self.assertEqual(self.candidate(data, "twa")["runs"], [])
        self.assertEqual(self.left_behind(f"sleep {mark}"), [])

    # The following tests check that all processes of a run end with it, and no other processes.

    def start(self, *words):
        return subprocess.Popen(words, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def test_children_from_before_are_left_alone(self):
        mark = f"7{os.getpid()}.25"
        # The parent of the second `sleep` lives for 0.3 s and so ends during the trial, since a single run takes 0.5 s.
        text = f'sleep {mark} & (sleep 0.2; sleep {mark} & sleep 0.1) & exec "$0" try --locks mcs --rounds 1 -- sleep 0.5'
        process = self.start("sh", "-c", text, USHER)
        try:
            process.wait(timeout=LIMIT)
            self.assertEqual(process.returncode, 0, process)
            self.assertEqual(len(self.left_behind(f"^sleep {mark}")), 2)
        finally:
            for pid in self.left_behind(f"^sleep {mark}"):
                os.kill(int(pid), signal.SIGKILL)
            process.communicate()

    def test_a_storm_of_signals(self):
        mark = f"6{os.getpid()}.25"
        process = self.start(USHER, "try", "--locks", "mcs", "--until", f"sleep {mark}", "--", "sleep", mark)
        wait_for(lambda: len(self.left_behind(f"^sleep {mark}")) == 2)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, out), (130, ""))
        self.assertRegex(err, r"\Ausher: interrupted after .* \(pthread, warm-up\): sleep was stopped, .*nothing was measured\n\Z")
        self.assertEqual(self.left_behind(f"^sleep {mark}"), [])

    def test_a_first_run_that_does_not_end(self):
        mark = f"3{os.getpid()}.25"
        process = self.start(USHER, "try", "--locks", "mcs", "--budget", "0.1s", "--", "sleep", mark)
        try:
            said = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
        self.assertRegex(said, r"^usher: still in the first run after 1 s: .* such as a server, needs --until LOAD; \^C ends it\n$")
        self.assertEqual((process.returncode, out), (130, ""))
        self.assertRegex(err, r"\Ausher: interrupted after .* \(pthread, warm-up\): sleep was stopped")
        self.assert_refused(self.run_try("--locks", "mcs", "--timeout", "0.2", "--", "sleep", mark), 1,
                            "hung: killed after 0.2 s (a program that does not end by itself", "--until LOAD")
        self.assertEqual(self.left_behind(f"^sleep {mark}"), [])

    def test_however_it_ends(self):
        for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131),
                               (signal.SIGKILL, -9), (signal.SIGSEGV, -11)):
            mark = f"5{os.getpid()}.{int(number)}"
            process = self.start(USHER, "try", "--locks", "mcs", "--before", f"setsid sleep {mark} &", "--",
                                 "sh", "-c", f"trap '' TERM; setsid sleep {mark} & sleep {mark}; true")
            wait_for(lambda: len(self.left_behind(f"^sleep {mark}")) == 3)
            process.send_signal(number)
            process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, status)
            wait_for(lambda: not self.left_behind(f"^sleep {mark}"))

    def test_helpers_live_as_long_as_what_started_them(self):
        mark, other = f"4{os.getpid()}.25", f"4{os.getpid()}.75"
        ready = f'test $(pgrep -cfx "sleep {mark}") = 2'  # one sleep of the command of --before, and one of the server
        server = self.script(f"setsid sleep {mark} & exec sleep {other}")
        done = self.run_try("--locks", "mcs", "--rounds", "2", "--before", f"setsid sleep {mark} > /dev/null &",
                            "--ready", ready, "--until", f"true; {ready}", "--", server)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.left_behind(f"^sleep ({mark}|{other})"), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a program that others may not kill")
    def test_what_cannot_be_killed_is_said(self):
        folder = tempfile.mkdtemp(prefix="usher-try-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        program = os.path.join(folder, "immune")
        with open(program + ".c", "w") as file:
            file.write("#include <unistd.h>\nint main(void) { return setuid(0) != 0 ? 1 : sleep(600); }\n")
        subprocess.run([CC, program + ".c", "-o", program], check=True, timeout=LIMIT)
        os.chmod(program, 0o4755)
        begin = time.monotonic()
        try:
            done = self.run_try("--locks", "mcs", "--timeout", "1", "--", program, user=65534)
            if done.returncode == 125 or "hung" in done.stderr:
                self.skipTest("set-user-ID has no effect there, or another user cannot reach the build's folder")
            self.assertLess(time.monotonic() - begin, 200)
            self.assertEqual(done.returncode, 1, done)
            self.assertRegex(done.stderr, r"usher: cannot end process [0-9]+: Operation not permitted\n")
        finally:
            for pid in self.left_behind(f"^{program}"):
                os.kill(int(pid), signal.SIGKILL)

    def test_a_program_that_stops(self):
        begin = time.monotonic()
        self.assertIn("stopped: it wants the terminal", self.one_bad("kill -TTOU $$"))
        self.assertIn("stopped by signal 19", self.one_bad("kill -STOP $$"))
        self.assertLess(time.monotonic() - begin, 200)
        # A run that is stopped and then continued does not fail. The trial notices the stop within the 0.2 s before the
        # run continues.
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--", "sh", "-c", "(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait")
        self.assertEqual(done.returncode, 0, done)

    def test_a_run_during_which_usher_was_stopped_is_repeated(self):
        runs = os.path.join(self.folder, "runs")
        process = self.start(USHER, "try", "--locks", "mcs", "--rounds", "1", "--warmup", "0", "--timeout", "1", "--", "sh", "-c",
                             f"echo >> {runs}; sleep 0.4")  # each run is so long that it still runs at the stop
        wait_for(lambda: os.path.exists(runs))
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # longer than a run may take
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, (out, err))
        self.assertIn("stopped and continued while pthread ran", err)
        with open(runs) as file:
            self.assertEqual(len(file.readlines()), 3)

    # Servers that fail

    def test_a_server_that_is_never_ready(self):
        load = os.path.join(self.folder, "load")
        until = ["--until", f"touch {load}"]
        done = self.run_try("--locks", "mcs", "--timeout", "1", "--ready", "false", *until, "--", "sleep", "60")
        self.assert_refused(done, 1, "not ready after 1 s")
        self.assertFalse(os.path.exists(load))
        server = self.script('test "$USHER_LOCK" != mcs && exec sleep 60; echo listening; echo no such port >&2; exit 3')
        # With --ready, the server ends before it is ready. Without --ready, it ends at once.
        until = ["--until", f'cat /proc/*/environ 2> /dev/null | tr "\\0" "\\n" | grep -q "^USHER_LOCK=mcs" && touch {load}; true']
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--ready", "sleep 0.3", *until, "--", server)
        self.assertIn("the server ended early: exit status 3: no such port", self.note(done, "mcs"))
        self.assertEqual(done.returncode, 1)
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--until", "sleep 1", "--", self.script(
            'test "$USHER_LOCK" != mcs && exec sleep 60; echo listening; exit 3'))
        self.assertRegex(self.note(done, "mcs"), "the server ended early: exit status 3: listening")

    def test_a_server_that_goes_into_the_background(self):
        # The first process of the server ends at once, before the load begins.
        done = self.run_try("--locks", "mcs", "--until", "sleep 0.1", "--", "sh", "-c", "sleep 60 &")
        self.assert_refused(done, 1, "the server ended early: exit status 0 (if it goes into the background by itself")

    # Failures of the reference

    def test_a_run_of_the_base_that_fails(self):
        state = os.path.join(self.folder, "base")
        for bad, warmup in ((3, "1"), (0, "1"), (0, "0")):  # bad: the number of successful runs before the failure
            with open(state, "w") as file:
                file.write("0\n")
            program = self.script(f'''
                {self.locking()} 200 > /dev/null
                test "$USHER_LOCK" = mcs && echo rate 3 && exit
                test "$USHER_LOCK" = pthread && echo rate 1 && exit
                read n < {state}; echo $((n + 1)) > {state}
                test $n = {bad} && echo broken >&2 && exit 3
                echo rate 1
            ''')
            done, data = self.with_json("--locks", "mcs", "--rounds", "6", "--warmup", warmup, "--metric", "rate (.)", "--", program)
            self.assertEqual((done.returncode, done.stderr), (1, ""), done)
            self.assertIn("exit status 3: broken", self.note(done, "pthread"))
            self.assertIn("mcs is 3.00 times as good", self.ended_with(done))
            if bad == 3:
                self.assertIn("1 of 6 runs failed", self.note(done, "pthread"))
                self.assertEqual(sum("trouble" in r for r in data["candidates"][0]["runs"]), 1)

    # The metric

    def metric_of(self, output, *arguments, metric="rate ([^ ]*)"):
        return self.with_json("--locks", "mcs", "--rounds", "1", "--warmup", "0", *arguments, "--metric", metric, "--",
                              "sh", "-c", output)

    def first_metric(self, *arguments, **more):
        done, data = self.metric_of(*arguments, **more)
        self.assertEqual(done.returncode, 0, done)
        return data["candidates"][0]["runs"][0]["metric"]

    def test_the_last_match_counts(self):
        self.assertEqual(self.first_metric("echo rate 1; echo rate 2 rate 3; echo rates"), 3)
        self.assertEqual(self.first_metric("echo rate 5 >&2"), 5)
        self.assertEqual(self.first_metric("printf 'rate 1\\rrate 2\\r\\n'", metric="rate ([0-9]+)"), 2)

    def test_long_lines(self):
        for before in (4090, 4096, 6140, 20000):
            text = f"head -c {before} /dev/zero | tr '\\0' x; echo ' rate 1234567'"
            self.assertEqual(self.first_metric(text), 1234567)
            self.assertEqual(self.first_metric(text, metric="([0-9]+)"), 1234567)
        self.assertEqual(self.first_metric("echo ^rate 1; head -c 9000 /dev/zero | tr '\\0' x; echo 9", metric="^.rate ([0-9]+)"), 1)

    def test_what_is_no_number(self):
        for text in ("1,5", "12ms", "1.2.3", "nan", "0x10", ""):
            done = self.run_try("--metric", "rate ([^ ]*)", "--", "echo", "rate " + text)
            self.assert_refused(done, 1, f"the metric captured '{text}', which is no number")
        for text, value in (("1,500.5", 1500.5), ("-3e+06", -3e6), (".5", 0.5), ("12.", 12), ("+7", 7)):
            self.assertEqual(self.first_metric(f"echo rate {text}"), value)

    def test_small_numbers(self):
        for text, shown in (("0.00001234", "0.00001234"), ("0.5", "0.5"), ("0.36", "0.36"), ("2.5", "2.5"), ("3.14159", "3.14"), ("1e-12", "1e-12")):
            done, _ = self.metric_of(f"echo rate {text}")
            self.assertEqual(self.row(done, "pthread").split()[1], shown)

    def test_metrics_of_zero_and_below(self):
        def run(base, mcs, *more):
            return self.with_json("--locks", "mcs", "--rounds", "5", "--metric", "rate (.*)", *more, "--", self.script(
                f'{self.locking()} 200 > /dev/null; test "$USHER_LOCK" = mcs && echo rate {mcs} || echo rate {base}'))
        for base, mcs, better, lower in ((0, 5, True, False), (-5, -2, True, False), (-2, -5, False, False), (5, 0, False, False),
                                         (-5, -2, False, True), (3, -1, True, True)):
            with self.subTest((base, mcs, lower)):
                # USHER_LOCK is "pthread" while the reference's calls are counted.
                done, data = run(base, mcs, *(["--lower"] if lower else []))
                self.assertEqual((done.returncode, done.stderr), (0, ""), done)
                candidate = self.candidate(data, "mcs")
                difference = (base - mcs) if lower else (mcs - base)
                self.assertIn("better" if better else "worse", self.row(done, "mcs"))
                self.assertIn("differences are compared", done.stdout)
                self.assertEqual((data["comparison"], candidate["speed_up"], candidate["difference"]), ("difference", None, difference))
                self.assertNotIn("inf", done.stdout)
                self.assertEqual(self.rows(done)[1].replace("*", "").split()[0], "mcs" if better else "pthread")
                if better:
                    self.assertIn(f"mcs is better by {abs(difference)}", self.ended_with(done))
                else:
                    self.assertNotIn("Worth it", done.stdout)
        done, _ = run(0, 0)
        self.assertIn("no different", self.row(done, "mcs"))

    # Differences of the output

    def differs(self, base, mcs, rounds="2"):
        """Returns whether the trial reports that the output under mcs differs from the output under the C library's
        mutex."""
        done = self.run_try("--locks", "mcs", "--rounds", rounds, "--", self.script(
            f'if [ "$USHER_LOCK" = mcs ]; then {mcs}; else {base}; fi'))
        return "mcs: PRINTED SOMETHING ELSE" in done.stdout

    def test_numbers_in_other_forms_are_no_difference(self):
        for base, mcs in (("3.8e+06 ops", "379512 ops"), ("1.2 s", "950 ms"), ("rate 3.1M", "rate 900k"), ("3.1 MiB/s", "900 B/s"),
                          ("diff -0.3", "diff 0.2"), ("at 0x7ffd1234 =1.5", "at 0x7ffd1234 =    11.5"), ("3 s", "4 s"),
                          ("[===>   ] 0.1", "[======>] 10.5"), ("12.5%|", "  9.25 %|")):
            with self.subTest((base, mcs)):
                self.assertFalse(self.differs(f"echo '{base}'", f"echo '{mcs}'"))
        self.assertFalse(self.differs("echo key $(date +%s%N | md5sum | head -c 8)", "echo key ab12cd34"))

    def test_numbers_that_are_wrong_are_a_difference(self):
        for base, mcs in (("sum 0x7ffd12", "sum 0x7ffd13"), ("sum 5", "sum -5"), ("sum 5", "sum 6"), ("took 1.5 s", "waited 1.5 s"),
                          ("sum 100 MB", "lost 100 MB"), ("found 3 in 1.5 s", "found 2 in 1.4 s")):
            with self.subTest((base, mcs)):
                self.assertTrue(self.differs(f"echo '{base}'", f"echo '{mcs}'"))

    def test_progress_is_no_difference(self):
        one, three = 'echo done 10 of 30 at 0.5; ', 'for i in 1 2 3; do echo done $i of 30 at 0.$i; done; '
        self.assertFalse(self.differs(one + "echo sum 5", three + "echo sum 5"))
        self.assertFalse(self.differs(three + "echo sum 5", one + "echo sum 5"))
        self.assertTrue(self.differs(one + "echo sum 5", three + "echo sum 4"))
        self.assertTrue(self.differs(one + "echo sum 5", three + "true"))
        self.assertTrue(self.differs("echo fine", "echo fine; echo fine"))
        self.assertTrue(self.differs("echo fine", "echo fine; echo not fine"))
        state = os.path.join(self.folder, "lines")
        self.assertFalse(self.differs(f"echo >> {state}; cat {state}; echo end", "echo another"))

    def test_much_output(self):
        # The script pauses before its last line, so that the trial has read all earlier output by then.
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--warmup", "0", "--metric", "rate ([0-9]+)", "--", "sh", "-c",
                            "echo rate 1; head -c 200000000 /dev/zero | tr '\\0' '\\n'; sleep 0.3; echo rate 2")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.row(done, "mcs").split()[1], "2")
        self.assertIn("printed 190 MiB: only the first and the last 32 were read", self.note(done, "mcs"))

    # Counts of lock calls

    def built(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".c", "w") as file:
            file.write(text)
        subprocess.run([CC, "-O1", path + ".c", "-o", path, "-pthread"], check=True, timeout=LIMIT)
        return path

    SEMAPHORES = """
    #include <semaphore.h>
    #include <time.h>
    int main(void) {
      sem_t s, shared;
      struct timespec past = {0, 0};
      sem_init(&s, 0, 0);
      sem_init(&shared, 1, 0);
      for (int i = 0; i < 1000; i++) sem_post(&s), sem_wait(&s), sem_trywait(&s), sem_timedwait(&s, &past), sem_post(&shared);
      return 0;
    }
    """

    def test_semaphores_are_counted(self):
        done, data = self.with_json("--locks", "mcs", "--rounds", "1", "--", self.built("semaphores", self.SEMAPHORES))
        self.assertNotIn("does not use", done.stdout)
        self.assertEqual([c["calls"]["semaphores"] for c in data["candidates"]], [4000, 4000])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can become another user")
    def test_another_user_is_counted(self):
        folder = tempfile.mkdtemp(prefix="usher-try-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        program = shutil.copy(self.locking(), folder)
        done, data = self.with_json("--locks", "mcs", "--rounds", "1", "--", "setpriv", "--reuid", "65534", "--clear-groups", program)
        self.assertEqual(done.returncode, 0, done)
        self.assertGreaterEqual(data["candidates"][1]["calls"]["locks"], 200000)

    def test_what_cannot_be_counted_is_not_said_to_be_nothing(self):
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--", "env", "-u", "LD_PRELOAD", "-u", "USHER_STAT", self.locking(), "100")
        self.assertIn("does not use pthread locks", done.stdout)  # the calls of env could be counted
        static = self.script("true")
        subprocess.run([CC, "-static", "-x", "c", "-", "-o", static], input="int main(void) { return 0; }", text=True,
                       check=True, timeout=LIMIT)
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--", static)
        self.assertIn("lock calls could not be counted", self.ended_with(done))
        self.assertNotIn("does not use", done.stdout)
        # the script fails in each run in which its calls are counted
        crash = self.script('echo fine; test "$USHER_LOCK" && exit 3; exit 0')
        done = self.run_try("--locks", "mcs", "--rounds", "1", "--", crash)
        self.assertNotIn("does not use", done.stdout)

    def test_a_preload_that_is_there_already(self):
        env = self.environment() | {"LD_PRELOAD": LIBRARY}
        done = subprocess.run([USHER, "try", "--locks", "again=pthread", "--rounds", "2", "--warmup", "0", "--", "sh", "-c",
                               "echo preload ${LD_PRELOAD:-none} 1.5 > /dev/stderr; test -z \"$LD_PRELOAD\""],
                              env=env, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("LD_PRELOAD has Usher's library already", done.stderr)

    # Error rates

    def drifting(self, *arguments, noise=0):
        """Runs a trial in which the metric rises slowly from run to run under every lock, and changes at random by
        `noise` per mille."""
        state = os.path.join(self.folder, "drift")
        with open(state, "w") as file:
            file.write("0\n")
        program = self.script(f"""
            read n < {state}; n=$((n + 1)); echo $n > {state}
            echo rate $((1000000 + 1000 * n + {noise} * ((n * 7919 + n * n * 104729) % 2001 - 1000)))
        """)
        return self.with_json(*arguments, "--metric", "rate ([0-9]+)", "--", program)[1]

    def test_the_order_changes_from_round_to_round(self):
        def orders(seed, *arguments):
            return self.drifting("--locks", "mcs,twa", "--rounds", "6", "--seed", seed, *arguments)["order"]
        seen = orders("1")
        self.assertEqual(len(seen), 6)
        for order in seen:
            self.assertEqual(sorted(order), ["mcs", "pthread", "twa"])
        self.assertGreater(len({tuple(o) for o in seen}), 2)
        self.assertEqual(seen, orders("1"))
        self.assertNotEqual(seen, orders("2"))
        # without a warm-up the plan is made from the reference's first run
        self.assertEqual(orders("3", "--warmup", "0")[0][0], "pthread")

    def test_the_same_lock_under_two_names_is_noise(self):
        """The figures of this test are made up; `make check-aa` measures real ones."""
        for noise, rounds in ((0, "5"), (0, "6"), (1, "7"), (20, "7")):
            data = self.drifting("--locks", "first=twa,again=pthread,second=twa", "--rounds", rounds, "--seed", "1",
                                 noise=noise)
            for c in data["candidates"][1:]:
                self.assertIn(c["verdict"], ("undecided", "level"), c)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
