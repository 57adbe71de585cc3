#!/usr/bin/env python3
"""Runs the command under a filter that refuses newer system calls, as an older kernel does. Each use of such a call has
a replacement, so the results are the same.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from test_attach import LIBRARY, LIMIT, USHER, Program

REFUSE = os.environ["USHER_REFUSE"]
NEWER = ("close_range", "clone3", "faccessat2", "openat2", "pidfd_getfd", "pidfd_open", "rseq", "statx")
UNAVAILABLE = 77


def under_filter(calls, *command):
    return subprocess.run([REFUSE, ",".join(calls), *command], capture_output=True, text=True, timeout=LIMIT,
                          stdin=subprocess.DEVNULL, check=False)


@unittest.skipIf(under_filter(NEWER, "/bin/true").returncode == UNAVAILABLE, "no filter of system calls is permitted")
class OlderKernels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="usher-older-")
        self.addCleanup(self.folder.cleanup)
        self.file = Path(self.folder.name) / "report.json"

    def assert_recorded(self, done):
        self.assertEqual(done.returncode, 0, done)
        report = json.loads(self.file.read_text())
        self.assertGreater(sum(row["acquisitions"] or 0 for row in report["rows"]), 0, report)
        return report

    def test_the_filter_refuses(self):
        """Without this test, the others would pass if the filter did nothing."""
        code = "import os\ntry: os.pidfd_open(os.getpid())\nexcept OSError as e: print(e.errno)"
        done = under_filter(["pidfd_open"], "/usr/bin/env", "python3", "-c", code)
        self.assertEqual(done.stdout.strip(), "38", done)  # ENOSYS

    def test_stat_of_a_command(self):
        for calls in (*([call] for call in NEWER), NEWER):
            with self.subTest(refused=calls):
                self.assert_recorded(under_filter(calls, USHER, "stat", "--json", str(self.file), "--", "python3", "-c",
                                                  "import queue; q = queue.Queue(); [q.put(i) for i in range(100)]"))

    def test_a_system_that_does_not_tell_holes(self):
        """As gVisor: lseek() refuses SEEK_DATA."""
        done = under_filter(["lseek"], USHER, "stat", "--json", str(self.file), "--", "/usr/bin/env", "python3", "-c",
                            "import queue; q = queue.Queue(); [q.put(i) for i in range(100)]")
        self.assert_recorded(done)

    def test_stat_of_a_process(self):
        for calls in (["pidfd_getfd"], ["pidfd_open"], ["close_range"], NEWER):
            with self.subTest(refused=calls), Program() as program:
                self.assertTrue(program.is_ready)
                self.assert_recorded(under_filter(calls, USHER, "stat", "-p", str(program.pid), "--duration", "1",
                                                  "--json", str(self.file)))

    def test_run_status_try(self):
        done = under_filter(NEWER, USHER, "run", "--lock", "steady", "--", "sh", "-c", "echo $LD_PRELOAD")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, LIBRARY), done)
        with Program(lock="steady") as program:
            done = under_filter(NEWER, USHER, "status", str(program.pid))
            self.assertEqual(done.returncode, 0, done)
            self.assertIn("lock steady", done.stdout)
        done = under_filter(NEWER, USHER, "try", "--locks", "steady", "--rounds", "2", "--quiet", "--", "true")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("steady", done.stdout)


if __name__ == "__main__":
    unittest.main()
