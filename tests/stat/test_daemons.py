#!/usr/bin/env python3
"""Tests `usher stat` with processes that outlive the started command: it must record them until they end, or say that
they still run.
"""

import json
import os
import signal
import subprocess
import tempfile
import unittest

from planted import LIMIT, PROGRAMS, USHER, Planted

DAEMON = str(PROGRAMS / "daemon")
STATUS = 3  # the exit status of the command, which ends at once
ROUNDS = 2000


class Daemons(Planted):
    def killed_later(self, pid):
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        return pid

    def test_recorded_until_it_ends(self):
        for how in "works", "executes":
            for lock in None, "steady":
                with self.subTest(how=how, lock=lock):
                    run = self.stat(None, command=[DAEMON, how, str(ROUNDS)], lock=lock, status=STATUS)
                    self.assert_exact(run.row("contended"), **{"acquisitions": run.own["contended"]["acquisitions"]})
                    self.assertNotIn("does not use", run.error)
                    self.assertFalse([one for one in run.report["remarks"] if "run on" in one or "runs on" in one], run.report)

    def test_no_sentence_about_what_was_not_seen(self):
        """The daemon makes no recorded call, so the report says only that it still runs."""
        run = self.stat(None, "--duration", "0.5", command=[DAEMON, "stays", "0"], status=STATUS)
        pid = self.killed_later(run.own["contended"]["pid"])
        self.assertNotIn("does not use", run.error)
        self.assertIn(f"1 process that the command has started runs on (pid {pid})", run.error)
        self.assertIn("from here on is not recorded", run.error)
        os.kill(pid, 0)

    def test_until_a_load_ends(self):
        out = os.path.join(tempfile.mkdtemp(dir=self.folder), "out")
        run = self.stat(None, "--until", f"while ! grep -qs contended {out}; do sleep 0.02; done",
                        command=["sh", "-c", f"{DAEMON} stays {ROUNDS} > {out}"], status=STATUS)
        with open(out) as file:
            own = json.load(file)["contended"]
        self.killed_later(own["pid"])
        self.assert_exact(run.row("contended"), acquisitions=own["acquisitions"])
        self.assertNotIn("ended before the load", run.error)

    def test_interrupted(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(signal=number):
                process = subprocess.Popen([USHER, "stat", "--", DAEMON, "stays", str(ROUNDS)], env=self.environment(), text=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.addCleanup(process.kill)
                own = json.loads(process.stdout.readline())["contended"]
                pid = self.killed_later(own["pid"])
                self.assertEqual(process.stderr.readline(), "usher: stat: the command has ended; 1 process that the command has started "
                                 "runs on and is recorded until it ends; ^C ends the recording\n")
                process.send_signal(number)
                error = process.communicate(timeout=LIMIT)[1]
                self.assertEqual(process.returncode, STATUS)
                self.assertIn(f"{own['acquisitions']:,}", error)
                self.assertIn(f"runs on (pid {pid})", " ".join(error.split()))
                os.kill(pid, 0)

    def test_other_children_of_the_same_process(self):
        """A shell starts a child process and then executes `usher stat`, which becomes the child's parent. The child
        does not belong to the recorded command."""
        done = subprocess.run(["sh", "-c", f"sleep 1000 > /dev/null 2>&1 & echo $!; exec {USHER} stat -- true"], env=self.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
        self.killed_later(int(done.stdout))
        self.assertEqual(done.returncode, 0, done)
        self.assertNotIn("runs on", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
