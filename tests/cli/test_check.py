#!/usr/bin/env python3
"""Tests `usher check` as a command: passes, failures and their reports, refused usage. USHER_BIN is the command; the
checker is in the same folder. Exit status 77: the checker was not built, because the library relacy is missing.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

from refusals import Refusals, wait_for, with_evil

USHER = os.environ["USHER_BIN"]
CHECKER = os.path.join(os.path.dirname(os.path.realpath(USHER)), "usher_check")
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schema" / "check.json"
LIMIT = 300
MUTANT = "mcs-relaxed-hand-over"
SKIPPED = 77


def parent_of(pid):
    """Returns the id of the process's parent; 0 if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def runs_of(pid):
    """Returns the checker processes that this process or one of its children has started."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        run = int(command.parent.name)
        try:
            words = command.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--seed" in words and pid in (parent_of(run), parent_of(parent_of(run))):
            found.append(run)
    return found


def wait_for_a_run(pid):
    wait_for(lambda: runs_of(pid), LIMIT)


class Check(Refusals, unittest.TestCase):
    maxDiff = None

    def check(self, *arguments, env=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("USHER_")}
        environment.update(env or {})
        return subprocess.run([USHER, "check", *arguments], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT)

    # Passes

    def test_a_lock_passes_in_all_its_forms(self):
        done = self.check("ticket", "--executions", "200")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for form in ("ticket", "ticket-spin", "ticket-park"):
            self.assertRegex(done.stdout, rf"(?m)^{form} +3  plain stray .*outrun  pass +1600  1–200 ")
        self.assertIn("all pass", done.stdout)

    def test_a_form_by_its_name(self):
        done = self.check("ticket-spin", "--executions", "50", "--threads", "2,4", "--scenario", "plain", "--seed", "7")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(re.findall(r"(?m)^(ticket\S*) +(\d)  (\S+) +pass +(\d+)  (\S+)", done.stdout),
                         [("ticket-spin", "2", "plain", "50", "7–56"), ("ticket-spin", "4", "plain", "50", "7–56")])

    def test_the_name_in_full(self):
        self.assertEqual(self.check("tas-stp", "--executions", "20").returncode, 0)

    def test_forms(self):
        done = self.check("ticket", "mcs", "--forms", "spin,park", "--executions", "20")
        self.assertEqual(re.findall(r"(?m)^(\S+) .* pass ", done.stdout),
                         ["ticket-spin", "ticket-park", "mcs-spin", "mcs-park"])

    def test_programs_within_bounds(self):
        done = self.check("tas-spin", "--scheduler", "bound", "--differences", "1", "--executions", "500", "--scenario",
                          "plain")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("programs", done.stdout.splitlines()[0])

    def test_all_executions_are_counted_whatever_the_parts(self):
        for jobs in ("1", "3"):
            done = self.check("tas-spin", "--scenario", "plain", "--executions", "25000", "--jobs", jobs)
            self.assertIn("in 25000 executions: all pass", done.stdout)

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "verdicts.json")
            self.assertEqual(self.check("tas", "--executions", "30", "--json", file).returncode, 0)
            with open(file) as f:
                said = json.load(f)
        self.assertTrue(said["good"])
        self.assertEqual(said["executions"], 30)
        self.assertEqual({p["lock"] for p in said["parts"]}, {"tas", "tas-spin", "tas-park"})
        for p in said["parts"]:
            self.assertEqual((p["family"], p["threads"], p["passed"], p["executions"], p["seed"]),
                             ("tas", 3, True, 30, 1))

    def test_what_can_be_checked(self):
        done = self.check("--list")
        self.assertEqual(done.returncode, 0)
        for line in (r"twa +plain stray ", r"wait-queue ", rf"{MUTANT}-spin .*hands over by a relaxed store$"):
            self.assertRegex(done.stdout, "(?m)^" + line)

    # Failures

    def test_a_mistake_is_shown_step_by_step_and_again(self):
        done = self.check(MUTANT, "--executions", "500", "--threads", "3")
        self.assertEqual((done.returncode, done.stderr), (1, ""), done.stdout)
        self.assertRegex(done.stdout, rf"(?m)^{MUTANT}-spin .*FAIL: data race")
        # The failure is shown as a table with a column for each thread. Beside the step that hands the lock over is the
        # line of the header.
        self.assertRegex(done.stdout, r"step +thread 0 +thread 1 +thread 2 +source")
        self.assertRegex(done.stdout, r"(?m)^ +\d+ .*node\d+\.flag := 1 \(relaxed\) .*/mcs_relaxed_hand_over\.hpp:\d+  .*"
                                      r"flag\.store\(granted, std::memory_order_relaxed\)")
        head, _, rest = done.stdout.partition("\nAgain: ")
        command = rest.splitlines()[0].split()
        self.assertEqual(command[:2], ["usher", "check"])
        again = self.check(*command[2:])
        self.assertEqual(again.returncode, 1, again)
        last = [line for line in head.splitlines() if line.strip()][-2:]
        self.assertEqual(again.stdout.splitlines()[-2:], last)
        self.assertEqual(self.check(*command[2:]).stdout, again.stdout)

    def test_it_is_the_same_however_many_run_side_by_side(self):
        told = [self.check(MUTANT + "-spin", "--scenario", "plain", "--executions", "30000", "--jobs", jobs).stdout
                for jobs in ("1", "4")]
        self.assertEqual(*[re.findall(r"--replay (\S+)", text) for text in told])

    def test_a_replay_that_passes(self):
        done = self.check("tas-spin", "--scenario", "plain", "--threads", "3", "--replay", "5")
        self.assertEqual((done.returncode, done.stdout), (0, "tas-spin, plain, 3 threads, seed 5: pass\n"), done)

    def test_mutants_must_be_caught(self):
        done = self.check("--mutants", MUTANT, "--executions", "500")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, rf"(?m)^{MUTANT} +hands over by a relaxed store +caught +{MUTANT}-spin ")
        self.assertIn("1 mutant, 1 of them caught", done.stdout)

    def test_one_that_is_not_caught(self):
        # The mutant weakens a plain store that hands the lock over. In the form that parks, the lock does not have this
        # store.
        done = self.check("--mutants", MUTANT, "--forms", "park", "--executions", "20", "--threads", "2")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("NOT CAUGHT", done.stdout)

    def test_weakened_orders(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "orders.json")
            done = self.check("--weaken", "tas", "--forms", "spin", "--scenario", "plain", "--executions", "200", "--json", file)
            with open(file) as f:
                orders = json.load(f)["orders"]
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"(?m)^tas +usher/locks/tas\.hpp:\d+ .* caught ")
        caught = next(o for o in orders if o["file"] == "usher/locks/tas.hpp" and o["caught"])
        self.assertIn("memory_order", caught["code"])

    def test_orders_of_the_lock_itself_come_first(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "orders.json")
            done = self.check("--weaken", "ticket", "--forms", "plain", "--scenario", "timed", "--executions", "20", "--json", file)
            with open(file) as f:
                files = [o["file"] for o in json.load(f)["orders"]]
        self.assertEqual(done.returncode, 0, done)
        own = files.count("usher/locks/ticket.hpp")
        self.assertTrue(0 < own < len(files), files)
        self.assertEqual(files[:own], ["usher/locks/ticket.hpp"] * own)
        rows = [line.split()[1].split(":")[0] for line in done.stdout.splitlines()[1:1 + len(files)]]
        self.assertEqual(rows, files)

    def test_rows_are_written_as_they_are_known(self):
        """The output goes to a file. Each row is written as soon as it is known, so a check that is killed leaves its
        finished rows."""
        with tempfile.TemporaryFile("w+") as file:
            process = subprocess.Popen([USHER, "check", "tas", "mcs", "--executions", "1000000", "--jobs", "1", "--scenario", "plain",
                                        "--threads", "2", "--forms", "spin"], stdin=subprocess.DEVNULL, stdout=file,
                                       stderr=subprocess.PIPE, text=True)
            try:
                def text():
                    self.assertIsNone(process.poll())
                    return os.pread(file.fileno(), 10000, 0).decode()
                wait_for(lambda: text().count("\n") >= 2, LIMIT)
                self.assertRegex(text(), r"^lock .*\ntas-spin +2  plain +pass +1000000 .*\n$")
            finally:
                process.kill()
                process.communicate()

    def test_each_half_of_an_order_is_weakened(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "orders.json")
            done = self.check("--weaken", "ticket", "--forms", "plain", "--scenario", "plain", "--executions", "500", "--json",
                              file)
            with open(file) as f:
                orders = json.load(f)["orders"]
        self.assertEqual(done.returncode, 0, done)
        # The operation that clears the bit `asleep` must acquire, because the next owner then reads the data that the
        # lock protects. So the checker catches its weakening to release.
        halves = {o["made"]: o for o in orders if "grant.fetch_and(~asleep" in o["code"]}
        self.assertEqual({made: o["caught"] for made, o in halves.items()}, {"acquire": False, "release": True})
        # A relaxed load cannot be weakened, and an acquire load can only become relaxed.
        self.assertEqual({o["made"] for o in orders if "number(grant_.load(" in o["code"]}, {"relaxed"})
        self.assertRegex(done.stdout, r"(?m)^ticket +usher/core/ticket_words\.hpp:\d+ +release +grant\.fetch_and.* caught ")

    def test_an_order_on_failure_is_one_by_itself(self):
        sites = subprocess.run([CHECKER, "--lock", "wait-queue", "--sites", "--executions", "300"], capture_output=True,
                               text=True, timeout=LIMIT).stdout
        by_place = {}
        for site in sites.split():
            place, _, made = site.rpartition(":")
            by_place.setdefault(place, set()).add(made)
        self.assertIn({"acquire", "release", "failure-relaxed"}, by_place.values())

    def test_a_fence_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "orders.json")
            self.check("--weaken", "timed-ticket", "--forms", "spin", "--scenario", "plain", "--executions", "3000", "--json", file)
            with open(file) as f:
                fences = {o["code"]: o for o in json.load(f)["orders"] if o["made"] == "removed"}
        self.assertEqual(len(fences), 2)
        for code, o in fences.items():
            self.assertRegex(code, "fence_(light|heavy)")
            self.assertTrue(o["caught"], o)

    def test_a_weakened_order_is_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "orders.json")
            self.check("--weaken", "tas", "--forms", "spin", "--scenario", "plain", "--executions", "200", "--json", file)
            with open(file) as f:
                o = next(o for o in json.load(f)["orders"] if o["caught"])
        sites = subprocess.run([CHECKER, "--lock", "tas-spin", "--sites", "--executions", "200"], capture_output=True, text=True,
                               timeout=LIMIT).stdout.split()
        site = next(s for s in sites if s.endswith(f"{o['file']}:{o['line']}:{o['column']}:{o['made']}"))
        by = o["by"]
        # If --weaken-at names a place without an order, all orders of the place become relaxed. A single acquire or
        # release becomes relaxed either way, so the two results are equal.
        for at in (site, site.rpartition(":")[0]):
            done = self.check(by["lock"], "--weaken-at", at, "--scenario", by["scenario"], "--threads", str(by["threads"]),
                              "--replay", o["replay"])
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(o["why"], done.stdout)

    # Threads

    def test_the_usual_number_of_threads_is_the_locks(self):
        for lock, threads in (("ticket", 3), ("tas", 3), ("mcscr", 4), ("c-bo-tkt", 4), ("inflatable-ticket", 4), ("timed-tas", 4),
                              ("k42", 4), ("semaphore", 4), ("wait-queue", 4)):
            done = self.check(lock, "--executions", "3")
            self.assertRegex(done.stdout, rf"(?m)^{lock} +{threads} ")
        self.assertRegex(self.check("mcscr", "--threads", "2", "--executions", "3").stdout, r"(?m)^mcscr +2 ")

    # Searches

    def test_all_executions_of_programs(self):
        done = self.check("tas-spin", "--scenario", "plain", "--threads", "2", "--acquisitions", "1", "--scheduler", "full",
                          "--programs", "5")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"(?m)^tas-spin +2  plain +pass +\d+  1–5 ")
        self.assertIn("1 of 1 searches were complete: all executions of 5 programs.", done.stdout)

    def test_a_search_that_runs_out_of_executions_is_not_complete(self):
        done = self.check("mcs-spin", "--scenario", "plain", "--threads", "2", "--scheduler", "bound", "--differences", "3",
                          "--programs", "2", "--executions", "50")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("pass, not complete", done.stdout)
        self.assertIn("0 of 1 searches were complete: all executions with at most 3 differences of 2 programs.", done.stdout)

    def test_a_search_finds_a_mistake_that_is_replayed(self):
        done = self.check(MUTANT + "-spin", "--scenario", "plain", "--threads", "2", "--acquisitions", "1", "--scheduler", "full",
                          "--programs", "1")
        self.assertEqual(done.returncode, 1, done)
        command = done.stdout.partition("\nAgain: ")[2].splitlines()[0].split()
        again = self.check(*command[2:])
        self.assertEqual(again.returncode, 1, again)
        self.assertIn("data race", again.stdout)

    # Results shown again

    def shown(self, *arguments):
        """Asserts that --show prints the same text as the check itself, and returns it."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "results.json")
            done = self.check(*arguments, "--json", file)
            shown = self.check("--show", file, env={"USHER_CHECKER": "/nowhere"})
            with open(file) as f:
                said = json.load(f)
        if jsonschema:
            jsonschema.validate(said, json.loads(SCHEMA.read_text()), jsonschema.Draft202012Validator)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""), arguments)
        self.assertEqual(shown.stdout, done.stdout)
        return shown.stdout, said

    def test_results_are_shown_again(self):
        text, said = self.shown("ticket", "tas", "--scenario", "plain", "--executions", "20", "--threads", "2,3")
        self.assertEqual((said["format"], said["goal"]), (1, "pass"))
        self.assertIn("2 locks, 12 scenario runs in 240 executions: all pass.", text)

    def test_steps_are_shown_again(self):
        text, said = self.shown(MUTANT + "-spin", "--executions", "200", "--threads", "3", "--scenario", "plain")
        self.assertIn("data race", text)
        step = said["parts"][0]["steps"][0]
        self.assertEqual(sorted(step), ["code", "file", "line", "thread", "what"])

    def test_what_a_file_of_results_says_is_no_escape_sequence(self):
        _, said = self.shown(MUTANT + "-spin", "--executions", "200", "--threads", "3", "--scenario", "plain")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(with_evil(said, kept=("goal", "scheduler", "date", "replay")), file)
            file.flush()
            done = self.check("--show", file.name)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("\\x1b[2J", done.stdout)
        self.assert_harmless(done.stdout + done.stderr)

    def test_mutants_are_shown_again(self):
        text, _ = self.shown("--mutants", MUTANT, "--executions", "100", "--forms", "spin,park", "--threads", "2")
        self.assertRegex(text, rf"(?m)^{MUTANT} +hands over by a relaxed store +caught ")

    def test_orders_are_shown_again(self):
        text, _ = self.shown("--weaken", "tas", "--forms", "spin", "--scenario", "plain", "--executions", "50")
        self.assertIn("orders weakened", text)

    def test_a_search_is_shown_again(self):
        text, _ = self.shown("tas-spin", "--scenario", "plain", "--threads", "2", "--scheduler", "bound", "--programs", "2",
                             "--executions", "100")
        self.assertIn("differences of 2 programs", text)

    def test_what_cannot_be_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "results.json")
            for content, why in (("no JSON", "no JSON"), ("[]", "no result of usher check"),
                                 ('{"candidates": []}', "no result of usher check"),
                                 ('{"parts": [], "orders": []}', "an earlier usher"),
                                 ('{"format": 99, "parts": [], "orders": []}', "format 99"),
                                 ('{"format": 1, "parts": [], "orders": []}', "docs/schema/check.json")):
                with open(file, "w") as f:
                    f.write(content)
                self.assert_refused(self.check("--show", file), 2, why)
            self.assert_refused(self.check("--show", file, "twa"), 2, "--show")
        self.assert_refused(self.check("--show", "/nowhere/results.json"), 2, "/nowhere/results.json")

    # Refusals

    def test_unknown_locks(self):
        self.assert_refused(self.check("ticked"), 2, "'ticked'", "'ticket'")
        self.assert_refused(self.check("ticket", "mcz"), 2, "'mcz'")

    def test_what_cannot_be_checked(self):
        self.assert_refused(self.check("null"), 2, "null excludes nobody")
        self.assert_refused(self.check("pthread"), 2, "the C library's own")
        self.assert_refused(self.check("pthread-adaptive"), 2, "the C library's own")
        self.assert_refused(self.check("mcs-yield"), 2, "as mcs does")

    def test_nothing_to_do(self):
        self.assert_refused(self.check(), 2, "which locks?", "--all")
        self.assert_refused(self.check("twa", "--scenario", "no-such"), 2, "'no-such'")
        self.assert_refused(self.check("--mutants", "twa"), 2, "twa")
        self.assert_refused(self.check("loiter-eager", "--forms", "spin"), 2, "nothing is left")

    def test_what_does_not_go_together(self):
        self.assert_refused(self.check("--all", "twa"), 2, "--all")
        self.assert_refused(self.check("--all", "--mutants"), 2, "--all")
        self.assert_refused(self.check("mutants", "twa"), 2, "'mutants'")
        self.assert_refused(self.check("--weaken", "--mutants"), 2, "--weaken")
        self.assert_refused(self.check("twa", "--replay", "5"), 2, "--replay", "--scenario")
        self.assert_refused(self.check("twa-spin", "--scenario", "plain", "--replay", "x"), 2, "'x'")
        self.assert_refused(self.check("twa", "--weaken-at", "x:1:1"), 2, "--weaken-at")
        self.assert_refused(self.check("twa-spin", "--replay", "1", "--scenario", "plain", "--weaken-at", "x:1:1:lax"), 2, "acq_rel")
        self.assert_refused(self.check("twa", "--programs", "2"), 2, "--scheduler")
        for bad in (["--threads", "5"], ["--executions", "0"], ["--seed", "0"], ["--forms", "yield"],
                    ["--scheduler", "best"], ["--jobs", "0"]):
            self.assert_refused(self.check("twa", *bad), 2, bad[0])

    def test_no_checker(self):
        self.assert_refused(self.check("twa", env={"USHER_CHECKER": "/nowhere/usher_check"}), 125, "/nowhere/usher_check")
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, "usher")
            with open(USHER, "rb") as source, open(alone, "wb") as to:
                to.write(source.read())
            os.chmod(alone, 0o755)
            done = subprocess.run([alone, "check", "twa"], capture_output=True, text=True, timeout=LIMIT)
        self.assert_refused(done, 125, "usher_check", "install the package usher-check")

    def test_a_checker_that_does_not_work(self):
        done = self.check("twa", env={"USHER_CHECKER": "/bin/false"})
        self.assert_refused(done, 125, "/bin/false does not work")

    def test_no_room_for_the_file(self):
        self.assert_refused(self.check("tas", "--json", "/nowhere/verdicts.json"), 125, "/nowhere/verdicts.json")

    # An interruption

    def test_an_interruption_prints_what_there_is(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "verdicts.json")
            process = subprocess.Popen([USHER, "check", "tas", "--executions", "100000000", "--jobs", "2", "--json", file],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                wait_for_a_run(process.pid)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=100)
            finally:
                process.kill()
            with open(file) as f:
                said = json.load(f)
        self.assertEqual((process.returncode, err), (130, ""))
        self.assertRegex(out, r"(?m)^tas +3  plain +not finished ")
        self.assertIn("Interrupted. So far: ", out)
        self.assertTrue(said["interrupted"])


if __name__ == "__main__":
    if not os.path.isfile(CHECKER):
        print(f"{CHECKER} was not built: is relacy-dev installed?")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
