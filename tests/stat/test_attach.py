#!/usr/bin/env python3
"""Tests what `usher stat -p` does to the process to which it attaches, and attacks by the process on the command.

The attacker is the recorded process; the observer may be root. Each scenario is in programs/attached.c. No test waits
for a fixed time: a thread that keeps the observer waiting does so until the observer has ended.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from planted import schema

USHER, LIBRARY = os.environ["USHER_BIN"], os.environ["USHER_LIB"]
PROGRAM = os.environ["USHER_PROGRAMS"] + "/attached"
LIMIT = 300
IS_ROOT = os.geteuid() == 0


def usable(*command):
    """Returns whether the command succeeds on this machine."""
    return IS_ROOT and subprocess.run(command, capture_output=True, timeout=LIMIT, check=False).returncode == 0


class Program:
    """A running program that was started with the library and the lock of Usher in its environment, by the command
    `around` (for example unshare) if there is one."""

    def __init__(self, *words, lock="pthread", around=(), library=LIBRARY, program=PROGRAM):
        self.process = subprocess.Popen(
            [*around, "env", f"LD_PRELOAD={library}", f"USHER_LOCK={lock}", program, *words], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.is_ready = self.process.stdout.readline() == "ready\n"
        # `around` (for example unshare) may have started the program as a child. The loop finds that child.
        self.pid = self.process.pid
        while (children := Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()) and around:
            self.pid = int(children[0])

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for end in (self.process.stdin, self.process.stdout):
            end.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(LIMIT)

    def longest_stop(self):
        """Makes the main thread lock a mutex, and returns the longest time in microseconds for which the program was
        stopped since the last call."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def is_alive(self):
        return self.process.poll() is None

    def status(self, field):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return line.split(":", 1)[1].strip()
        return ""

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Attach(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="usher-attach-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        os.chmod(self.folder, 0o755)

    def stat(self, pid, *options, duration="1"):
        return subprocess.run([USHER, "stat", "-p", str(pid), "--duration", duration, *options], capture_output=True, text=True,
                              timeout=LIMIT, stdin=subprocess.DEVNULL, check=False)

    def report(self, pid, *options, **more):
        file = self.folder / "report.json"
        done = self.stat(pid, "--json", str(file), *options, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return json.loads(file.read_text())

    def assert_refused(self, done, *words):
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_recorded(self, report):
        row = next(row for row in report["rows"] if "shared_mutex" in row["name"])
        self.assertGreater(row["acquisitions"], 0, report)
        return row


class Stops(Attach):
    def test_a_thread_in_vfork_does_not_keep_the_others_waiting(self):
        """A thread that has called vfork() runs on only when its child ends, and here the child ends with the program.
        An observer that waited for this thread would never end."""
        with Program("vfork") as program:
            report = self.report(program.pid)
            self.assert_recorded(report)
            if valid := schema():
                valid.validate(report)
            self.assertTrue(program.is_alive())

    def test_many_threads(self):
        with Program("threads", "300") as program:
            self.assert_recorded(self.report(program.pid))
            self.assertGreater(program.longest_stop(), 0)

    def test_an_interrupted_observer_ends_at_once(self):
        with Program("idle") as program:
            for end, status in ((signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)):
                with self.subTest(signal=end):
                    observer = subprocess.Popen([USHER, "stat", "-p", str(program.pid)], stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE, text=True)
                    # Waits until the observer has blocked the signal. The observer does so before it waits for the process's answer.
                    while not int(self.field(observer.pid, "SigBlk"), 16) >> (end - 1) & 1:
                        self.assertIsNone(observer.poll())
                    observer.send_signal(end)
                    out, error = observer.communicate(timeout=LIMIT)
                    self.assertEqual((observer.returncode, out), (status, ""), error)
                    self.assertIn("nothing was recorded", error)
            self.assertTrue(program.is_alive())

    @staticmethod
    def field(pid, name):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return line.split()[1]
        return "0"


class Repeated(Attach):
    def test_many_attaches_leave_what_one_leaves(self):
        def state(program, descriptors):
            """Waits until the library has closed the observer's file descriptor, which it does in one of its next slow
            paths. Returns the record's mappings."""
            end = time.monotonic() + LIMIT
            while program.descriptors() > descriptors:
                self.assertLess(time.monotonic(), end)
                program.longest_stop()  # makes a lock call
            return [line.split()[0] for line in Path(f"/proc/{program.pid}/maps").read_text().splitlines() if "usher stat" in line]

        for lock in ("pthread", "loiter"):
            with self.subTest(lock=lock), Program(lock=lock) as program:
                descriptors = program.descriptors()
                self.stat(program.pid, duration="0.1")
                once = state(program, descriptors)
                for _ in range(5):
                    self.assertEqual(self.stat(program.pid, duration="0.05").returncode, 0)
                self.assertEqual(state(program, descriptors), once)
                # The memory of the last record was freed. Since then threads may have touched a few pages of the record: less than 256 KiB.
                self.assertLess(int(program.status("RssShmem").split()[0]), 256)
                self.assertEqual([name for name in os.listdir("/dev/shm") if "usher" in name], [])

    def test_a_second_observer_is_refused(self):
        with Program() as program:
            first = subprocess.Popen([USHER, "stat", "-p", str(program.pid), "--json", str(self.folder / "first.json")],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while "memfd:usher stat" not in Path(f"/proc/{program.pid}/maps").read_text():
                self.assertIsNone(first.poll(), first.stderr and first.poll() is not None and first.stderr.read())
            self.assert_refused(self.stat(program.pid), f"process {program.pid} is being recorded by another usher stat")
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=LIMIT)
            self.assertEqual(first.returncode, 0)
            self.assert_recorded(json.loads((self.folder / "first.json").read_text()))

    def test_of_two_at_the_same_time_one_records(self):
        with Program() as program:
            both = [subprocess.Popen([USHER, "stat", "-p", str(program.pid), "--duration", "3"], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True) for _ in range(2)]
            ends = [(one.communicate(timeout=LIMIT), one.returncode) for one in both]
            self.assertEqual(sorted(status for _, status in ends), [0, 1], ends)
            self.assertIn("shared_mutex", next(out for (out, _), status in ends if status == 0))

    def test_the_next_one_takes_a_killed_observers_place(self):
        with Program() as program:
            first = subprocess.Popen([USHER, "stat", "-p", str(program.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while "memfd:usher stat" not in Path(f"/proc/{program.pid}/maps").read_text():
                self.assertIsNone(first.poll())
            first.kill()
            first.wait(LIMIT)
            self.assert_recorded(self.report(program.pid))

    def test_a_stopped_observer_is_given_up(self):
        """The library waits for the stopped observer for 10 s, then stops recording and frees the record's memory. The
        observer reports this when it continues."""
        with Program() as program:
            observer = subprocess.Popen([USHER, "stat", "-p", str(program.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not self.is_recorded(program):
                self.assertIsNone(observer.poll())
            observer.send_signal(signal.SIGSTOP)
            end = time.monotonic() + LIMIT
            while self.is_recorded(program):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.1)  # until the next look
            self.assertLess(int(program.status("RssShmem").split()[0]), 256)
            observer.send_signal(signal.SIGCONT)
            out, error = observer.communicate(timeout=LIMIT)
            self.assertEqual((observer.returncode, out), (1, ""), error)
            self.assertIn("did not run for 10 s", error)

    @staticmethod
    def is_recorded(program):
        said = subprocess.run([USHER, "status", str(program.pid)], capture_output=True, text=True, timeout=LIMIT, check=False)
        return "recorded by usher stat" in said.stdout


class Filters(Attach):
    def test_a_filter_that_kills_for_openat(self):
        for lock in ("pthread", "loiter"):
            with self.subTest(lock=lock), Program("no-openat", lock=lock) as program:
                self.assert_recorded(self.report(program.pid, "--trust-filter"))
                self.assertTrue(program.is_alive())

    @unittest.skipUnless(IS_ROOT, "only root may read filters")
    def test_a_filter_that_root_reads(self):
        with Program("no-openat") as program:
            done = self.stat(program.pid)
            if "this kernel does not show it" in done.stderr:  # the kernel lacks CONFIG_CHECKPOINT_RESTORE
                self.assert_refused(done, "--trust-filter")
                self.skipTest("this kernel shows no filter")
            self.assert_recorded(self.report(program.pid))
            self.assertTrue(program.is_alive())
        with Program("no-memory-file") as program:
            self.assert_refused(self.stat(program.pid), "it does not permit memfd_create", "usher stat -- CMD")
            self.assertGreaterEqual(program.longest_stop(), 0)
            self.assertTrue(program.is_alive())

    @unittest.skipUnless(IS_ROOT and shutil.which("setpriv"), "only root can become another user")
    def test_a_filter_that_may_not_be_read(self):
        for file in (PROGRAM, LIBRARY):
            shutil.copy(file, self.folder)
        as_other = ("setpriv", "--reuid", "65534", "--clear-groups")
        with Program("no-openat", around=as_other, library=str(self.folder / Path(LIBRARY).name), program=str(self.folder / "attached")) as program:
            self.assertTrue(program.is_ready)
            done = subprocess.run([*as_other, USHER, "stat", "-p", str(program.pid), "--duration", "0.1"], capture_output=True, text=True,
                                  timeout=LIMIT, stdin=subprocess.DEVNULL, check=False)
            if done.returncode in (126, 127):
                self.skipTest("other users may not enter the build's folder")
            self.assert_refused(done, "system-call filter", "--trust-filter")
            self.assertTrue(program.is_alive())

    def test_strict_mode(self):
        with Program("strict-thread") as program:
            self.assert_refused(self.stat(program.pid, "--trust-filter"), "strict seccomp mode")
            self.assertTrue(program.is_alive())


class Hostile(Attach):
    def test_a_limit_on_the_size_of_files(self):
        """If the library called ftruncate() with a size beyond the limit, the kernel would end the process by SIGXFSZ.
        """
        with Program(around=("prlimit", "--fsize=1000000", "env")) as program:
            self.assert_refused(self.stat(program.pid), "ulimit -f")
            self.assertTrue(program.is_alive())

    def test_a_huge_command_line(self):
        with Program("idle", *["x" * 1000] * 200) as program:
            self.assertEqual(self.stat(program.pid).returncode, 0)

    def test_a_record_full_of_random_words(self):
        for lock in ("pthread", "loiter"):
            with self.subTest(lock=lock), Program("scribbles", lock=lock) as program:
                done = self.stat(program.pid, "--details", "--json", str(self.folder / "json"), duration="1")
                self.assertIn(done.returncode, (0, 1), done)

    def test_a_forged_header(self):
        with Program("forges") as program:
            done = self.stat(program.pid, "--details", duration="1")
            self.assertIn(done.returncode, (0, 1), done)

    def test_another_version(self):
        """The library in the program has another version than the command. The message names both versions, and the
        process is not changed."""
        content = Path(LIBRARY).read_bytes()
        magic = b"usher attach v3\0"
        self.assertEqual(content.count(magic), 1)
        at = content.index(magic) + len(magic)
        version = content[at:at + 16].rstrip(b"\0")
        other = self.folder / "libusher.so"
        other.write_bytes(content[:at] + b"0.0.1".ljust(16, b"\0") + content[at + 16:])
        with Program(library=str(other)) as program:
            self.assert_refused(self.stat(program.pid), "0.0.1", version.decode())
        other.unlink()
        other.write_bytes(content.replace(magic, b"usher attach v1\0"))
        with Program(library=str(other)) as program:
            self.assert_refused(self.stat(program.pid), "under Usher " + version.decode())


class Namespaces(Attach):
    """Tests of programs in containers, as far as `unshare` can make them."""

    def assert_named(self, report):
        row = self.assert_recorded(report)
        self.assertLessEqual(report["waited_share"]["mutex"] if "waited_share" in report else 0, 1)
        return row

    @unittest.skipUnless(usable("unshare", "--pid", "--fork", "--mount-proc", "true"), "unshare is not permitted here")
    def test_another_pid_namespace(self):
        with Program(around=("unshare", "--pid", "--fork", "--mount-proc")) as program:
            report = self.report(program.pid, duration="0.5")
            row = self.assert_recorded(report)
            tids = {int(tid) for tid in os.listdir(f"/proc/{program.pid}/task")}
            self.assertTrue({one["tid"] for one in row["threads"]} <= tids, (row["threads"], tids))

    @unittest.skipUnless(usable("unshare", "--time", "--fork", "true"), "unshare is not permitted here")
    def test_another_time_namespace(self):
        with Program(around=("unshare", "--time", "--fork")) as program:
            self.assert_refused(self.stat(program.pid), "another time namespace")

    @unittest.skipUnless(usable("unshare", "--user", "--map-root-user", "--mount", "true"), "unshare is not permitted here")
    def test_a_link_to_a_folder_of_root(self):
        """/dev/shm of the process's own root is a link to a folder that only root may write: no file may appear in that folder."""
        victim = self.folder / "victim"
        victim.mkdir(mode=0o700)
        script = ('mount -t tmpfs none "$1/root" && mkdir "$1/root/dev" "$1/root/old" && for d in bin lib lib64 usr etc proc; do '
                  '[ -e /$d ] && { mkdir -p "$1/root/$d"; mount --rbind /$d "$1/root/$d"; }; done; mount --rbind "$2" "$1/root/old"; '
                  'ln -s "$3" "$1/root/dev/shm"; exec chroot "$1/root" /usr/bin/env LD_PRELOAD=/old/libusher.so USHER_LOCK=pthread /old/attached')
        (self.folder / "root").mkdir()
        (self.folder / "mine").mkdir()
        shutil.copy(PROGRAM, self.folder / "mine")
        shutil.copy(LIBRARY, self.folder / "mine" / "libusher.so")
        process = subprocess.Popen(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(self.folder),
                                    str(self.folder / "mine"), str(victim)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.assert_recorded(self.report(process.pid))
            self.assertEqual(os.listdir(victim), [])
        finally:
            process.kill()
            process.communicate(timeout=LIMIT)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=[sys.argv[0], *sys.argv[1:]])
