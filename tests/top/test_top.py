#!/usr/bin/env python3
"""Checks what `usher top` says about programs that hang in known ways: kind, name, holder, chain, by --json; that its
page fits; and that a hostile program gets neither a crash nor a false holder out of it.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds, for everything that must happen


def threads_of(pid):
    """{name: [(tid, system call)]}; of a thread that runs the call is 'running'."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found.setdefault((task / "comm").read_text().rstrip("\n"), []).append(
                (int(task.name), (task / "syscall").read_text().split(" ")[0]))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


class Hanging:
    """A program that hangs, until the end of the block. `wanted`: names of threads that must sleep in a system call before
    it begins, and not for a moment only."""

    def __init__(self, what, *wanted):
        self.what, self.wanted = what, wanted

    def __enter__(self):
        self.process = subprocess.Popen([Top.hanging, self.what], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if line == "no right\n":
            self.__exit__()
            raise unittest.SkipTest(f"{self.what}: the kernel does not permit it")
        assert line == "ready\n"
        end = time.monotonic() + LIMIT
        seen = None
        while time.monotonic() < end:
            now = threads_of(self.process.pid)
            calls = [now.get(name, [(0, "running")])[0] for name in self.wanted]
            if seen == calls and all(call != "running" for _, call in calls):
                return self
            seen = calls
            time.sleep(0.2)
        raise AssertionError(f"{self.what}: the threads do not sleep: {seen}")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def tid(self, name):
        return threads_of(self.process.pid)[name][0][0]


class Top(unittest.TestCase):
    usher_stat = hanging = hostile = None

    def top(self, *words, status=0):
        run = subprocess.run([self.usher_stat, "top", *map(str, words)], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(run.returncode, status, run.stderr)
        return run

    def report(self, hanging, *words):
        with tempfile.TemporaryDirectory(prefix="usher-top-") as folder:
            file = Path(folder) / "top.json"
            run = self.top("--json", file, *words, hanging.process.pid)
            lines = run.stdout.splitlines()
            self.assertLessEqual(len(lines), 60)
            self.assertLessEqual(max(map(len, lines)), 80, run.stdout)
            return json.loads(file.read_text())

    def wait_of(self, report, name):
        """The object for which the thread waits."""
        thread, = [t for t in report["threads"] if t["name"] == name]
        self.assertIsNotNone(thread["wait"], report["threads"])
        return report["waits"][thread["wait"]]

    def check(self, what, kind_of_object, kind="", name="", holder="holder", waiter="waiter", wanted=(), side=None):
        with Hanging(what, *(wanted or [t for t in (holder, waiter) if t])) as hanging:
            report = self.report(hanging)
            wait = self.wait_of(report, waiter)
            self.assertEqual(wait["what"], kind_of_object, wait)
            self.assertEqual(wait["kind"] or "", kind, wait)
            if name:
                self.assertIn(name, wait["name"])
            if holder:
                self.assertIsNotNone(wait["holder"], wait)
                self.assertEqual((wait["holder"]["thread"], wait["holder"]["tid"]), (holder, hanging.tid(holder)), wait)
            else:
                self.assertIsNone(wait["holder"], wait)
            its, = [w for w in wait["waiters"] if w["thread"] == waiter]
            self.assertTrue(its["confirmed"])
            self.assertEqual(its["side"], side)
            self.assertGreater(its["waited"], 0.5)
            self.assertTrue(wait["known_by"])
            return report, wait, its

    def test_mutexes(self):
        for what, kind, name in (("mutex", "", "first_mutex"), ("recursive", "recursive", "typed_mutex"),
                                 ("errorcheck", "error-checking", "typed_mutex"), ("adaptive", "adaptive", "typed_mutex"),
                                 ("robust", "robust", "typed_mutex"), ("pi", "priority-inheriting", "typed_mutex"),
                                 ("shared", "process-shared", "typed_mutex")):
            with self.subTest(what):
                _, wait, waiter = self.check(what, "mutex", kind, name)
                functions = [f["function"] or "" for f in waiter["stack"]["frames"]]
                self.assertTrue(any("hold_and_want" in f for f in functions), functions)
                functions = [f["function"] or "" for f in wait["holder"]["stack"]["frames"]]
                self.assertTrue(any("hold_for_ever" in f for f in functions), functions)

    def test_a_mutex_that_another_process_holds(self):
        with Hanging("shared-child", "waiter") as hanging:
            wait = self.wait_of(self.report(hanging), "waiter")
            child = int(Path(f"/proc/{hanging.process.pid}/task/{hanging.process.pid}/children").read_text().split()[0])
            self.assertEqual((wait["what"], wait["holder"]["tid"], wait["holder"]["pid"]), ("mutex", child, child), wait)

    def test_a_mutex_that_names_a_stranger(self):
        """The word has the id of a process that does not map the mutex: it is no holder."""
        with Hanging("shared-stranger", "waiter") as hanging:
            wait = self.wait_of(self.report(hanging), "waiter")
            self.assertEqual((wait["what"], wait["holder"]), ("mutex", None), wait)
            self.assertIn(f"owner {os.getpid()},", wait["words"])

    def test_read_write_locks(self):
        self.check("rwlock-read", "rwlock", "", "rwlock", side="reading")
        self.check("rwlock-write", "rwlock", "", "rwlock", holder=None, wanted=("holder", "waiter"), side="writing")

    def test_other_objects(self):
        self.check("condition", "condition", "", "condition", holder=None)
        self.check("semaphore", "semaphore", "", "semaphore", holder=None)
        self.check("barrier", "barrier", "", "barrier", holder=None)
        self.check("join", "join", "", "joined", holder="joined")
        self.check("once", "once", "", "once", holder=None, wanted=("initialiser", "waiter"))

    def test_calls(self):
        _, wait, _ = self.check("pipe", "call", "pipe", "read of a pipe", holder=None)
        self.assertEqual(wait["call"], "read")
        self.check("flock", "file_lock", "file", "flock", holder=None)

    def test_a_deadlock(self):
        with Hanging("deadlock", "left", "right") as hanging:
            report = self.report(hanging)
            self.assertEqual(report["findings"][0]["what"], "circle", report["findings"])
            self.assertEqual(set(report["findings"][0]["threads"]), {hanging.tid("left"), hanging.tid("right")})
            circle = report["chains"][0]
            self.assertTrue(circle["circle"])
            self.assertEqual({link["thread"] for link in circle["links"]}, {"left", "right"})
            page = self.top(hanging.process.pid).stdout
            self.assertIn("deadlock of 2 threads", " ".join(page.split()))
            table = self.top("--batch", 2, "--period", 0.2, hanging.process.pid).stdout
            self.assertEqual(table.count("usher top: "), 2)
            self.assertIn("first_mutex", table)
            mine = self.top("--all-mine").stdout
            self.assertRegex(mine, rf"(?m)^ *{hanging.process.pid} ")

    def test_a_thread_that_waits_for_itself(self):
        with Hanging("self", "alone") as hanging:
            report = self.report(hanging)
            self.assertEqual(report["findings"][0]["what"], "circle", report["findings"])
            self.assertIn("which it holds itself", report["findings"][0]["text"])

    def test_a_chain(self):
        with Hanging("chain", "last", "middle", "in-pipe") as hanging:
            report = self.report(hanging)
            self.assertEqual([f["what"] for f in report["findings"]], ["chain"])
            self.assertEqual([link["thread"] for link in report["chains"][0]["links"]], ["last", "middle", "in-pipe"])
            self.assertIn("read of a pipe", report["chains"][0]["links"][-1]["does"])

    def test_a_lost_wake_up(self):
        with Hanging("lost", "waiter", "thief") as hanging:
            report = self.report(hanging)
            self.assertEqual([f["what"] for f in report["findings"]], ["lost_wake_up"], report["findings"])
            self.assertIn("first_mutex", report["findings"][0]["text"])
            self.assertGreaterEqual(report["findings"][0]["seconds"], 10)
            self.assertIsNone(self.wait_of(report, "waiter")["holder"])

    def test_a_reader_that_gets_no_cpu(self):
        """The command's child is stopped for longer than a blocked one is waited for: the process lives, and is looked at."""
        with Hanging("mutex", "holder", "waiter") as hanging, tempfile.TemporaryDirectory(prefix="usher-top-") as folder:
            file = Path(folder) / "top.json"
            top = subprocess.Popen([self.usher_stat, "top", "--duration", "2", "--json", file, str(hanging.process.pid)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            children = Path(f"/proc/{top.pid}/task/{top.pid}/children")
            while not children.read_text():
                time.sleep(0.01)
            child = int(children.read_text().split()[0])
            os.kill(child, signal.SIGSTOP)
            time.sleep(5)
            self.assertIsNone(top.poll())
            self.assertIn(str(child), children.read_text().split())
            os.kill(child, signal.SIGCONT)
            page, error = top.communicate(timeout=LIMIT)
            self.assertEqual((top.returncode, error), (0, ""))
            self.assertNotIn("reader", page)
            self.assertEqual(self.wait_of(json.loads(file.read_text()), "waiter")["holder"]["thread"], "holder")

    def test_a_process_that_blocks_its_reader(self):
        """A page before a futex blocks whoever reads it: the command goes on without the memory, and says so."""
        with Hanging("blocks-readers", "waiter") as hanging:
            report = self.report(hanging)
            self.assertTrue(any("blocked its reader" in remark for remark in report["remarks"]), report["remarks"])
            self.assertIn("waiter", [t["name"] for t in report["threads"]])

    def test_words_that_are_wrong(self):
        self.assertIn("no process", self.top("no-such-program-at-all", status=1).stderr)
        self.assertIn("there is no process", self.top(2 ** 22 + 5, status=1).stderr)
        self.top(status=2)
        self.top("--all-mine", "1", status=2)

    def test_a_hostile_program(self):
        """It unmaps, forks, executes itself, ends, and flips the words of its locks and the names of its threads while it
        is looked at."""
        end = time.monotonic() + 8
        runs = 0
        while time.monotonic() < end:
            program = subprocess.Popen([self.hostile], stdout=subprocess.DEVNULL, start_new_session=True)
            try:
                with tempfile.TemporaryDirectory(prefix="usher-top-") as folder:
                    file = Path(folder) / "top.json"
                    run = subprocess.run([self.usher_stat, "top", "--duration", "0.3", "--json", file, str(program.pid)],
                                         capture_output=True, text=True, timeout=LIMIT)
                    self.assertIn(run.returncode, (0, 1), run.stderr)
                    self.assertNotRegex(run.stdout + run.stderr, "[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
                    if run.returncode == 0:
                        report = json.loads(file.read_text())
                        for wait in report["waits"]:
                            # Words that change all the time, or that nobody may have written, have no holder.
                            self.assertFalse(wait["holder"] and not any(w["confirmed"] for w in wait["waiters"]))
                            tids = {t["tid"] for t in report["threads"]}
                            self.assertTrue(wait["holder"] is None or wait["holder"]["pid"] or wait["holder"]["tid"] in tids)
                        runs += 1
            finally:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
        self.assertGreater(runs, 2)

    def test_the_schema(self):
        """All keys of the schema are written, and no others."""
        schema = json.loads((TREE / "docs/schema/top.json").read_text())

        def check(value, by, path):
            while "$ref" in by:
                by = schema["$defs"][by["$ref"].rsplit("/", 1)[1]]
            if isinstance(value, dict) and "properties" in by:
                self.assertLessEqual(set(by["required"]), set(value), path)
                self.assertLessEqual(set(value), set(by["properties"]), path)
                for key, inner in value.items():
                    check(inner, by["properties"][key], f"{path}.{key}")
            elif isinstance(value, list) and "items" in by:
                for inner in value:
                    check(inner, by["items"], path + "[]")
            elif "enum" in by:
                self.assertIn(value, by["enum"], path)
            elif "pattern" in by and value is not None:
                self.assertRegex(value, by["pattern"], path)

        for what, wanted in (("deadlock", ("left", "right")), ("chain", ("last", "middle", "in-pipe")), ("join", ("waiter", "joined"))):
            with Hanging(what, *wanted) as hanging:
                check(self.report(hanging), schema, what)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--usher-stat", required=True)
    parser.add_argument("--hanging", required=True)
    parser.add_argument("--hostile", required=True)
    options, rest = parser.parse_known_args()
    Top.usher_stat, Top.hanging, Top.hostile = options.usher_stat, options.hanging, options.hostile
    unittest.main(argv=["test_top.py", *rest])
