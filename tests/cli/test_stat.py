#!/usr/bin/env python3
"""Tests `usher stat` as a command: refused usage, the environment in which the program runs, the program's end, and the
written files. tests/stat/ tests the content of the tables.

USHER_BIN is the command, USHER_LIB the library. Each step has a time limit. A test waits for a state, not for a fixed
time.
"""

import contextlib
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import textwrap
import threading
import time
import unittest

from refusals import Refusals, fields_of, wait_for

USHER = os.environ["USHER_BIN"]
LIBRARY = os.environ["USHER_LIB"]
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
LIMIT = 150

# A program that locks ROUNDS times in each of two threads. Then, with "wait", it prints a line and waits for a signal; with "deadlock", it
# deadlocks.
LOCKING = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static long counter, rounds = 1000;
static void *count(void *unused) {
  for (long i = 0; i < rounds; i++) {
    pthread_mutex_lock(&mutex);
    counter++;
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}
static void *cross(void *swapped) {
  pthread_mutex_t *first = swapped ? &other : &mutex, *second = swapped ? &mutex : &other;
  pthread_mutex_lock(first);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(second);
  return 0;
}
int main(int argc, char **argv) {
  pthread_t threads[2];
  const char *then = argc > 2 ? argv[2] : "";
  if (argc > 1) rounds = atol(argv[1]);
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, count, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  printf("counted %ld\n", counter);
  fflush(stdout);
  if (!strcmp(then, "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(then, "exit")) exit(3);
  if (!strcmp(then, "daemon") && daemon(1, 1) == 0) pause();
  if (!strcmp(then, "on")) for (;;) count(0), usleep(1000);  // a record that grows slowly
  if (!strcmp(then, "deadlock")) {
    pthread_barrier_init(&both, 0, 2);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, cross, i ? &other : 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  }
  if (!strcmp(then, "wait")) pause();
  return 0;
}
"""

# A program with one thread. For such a process libusher.so uses other functions until the process is recorded.
ALONE = """
#include <pthread.h>
#include <stdio.h>

pthread_mutex_t only_one = PTHREAD_MUTEX_INITIALIZER;

int main(void) {
  for (long i = 0;; i++) {
    pthread_mutex_lock(&only_one);
    pthread_mutex_unlock(&only_one);
    if (i == 1000) puts("begun"), fflush(stdout);
  }
}
"""


def open_files(pid):
    """Returns the devices and inodes of the memory files (memfd) that the process has open."""
    files, folder = set(), f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if "memfd:" in os.readlink(path):
                files.add((os.stat(path).st_dev, os.stat(path).st_ino))
    return files


def mapped_files(pid):
    """Returns the devices and inodes of the memory files that the process has mapped."""
    files = set()
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            if "/memfd:" in line:
                major, minor = (int(number, 16) for number in line.split()[3].split(":"))
                files.add((os.makedev(major, minor), int(line.split()[4])))
    return files


class Stat(Refusals, unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="usher-stat-")
        os.chmod(cls.folder, 0o755)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def built(self, name, text, *flags):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            with open(path + ".c", "w") as file:
                file.write(textwrap.dedent(text))
            subprocess.run([CC, "-O1", "-g", path + ".c", "-o", path, "-pthread", *flags], check=True, timeout=LIMIT)
        return path

    def locking(self):
        return self.built("locking", LOCKING)

    def file(self, name):
        return os.path.join(tempfile.mkdtemp(dir=self.folder), name)

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        return env | {"USHER_LIBRARY": LIBRARY} | more

    def stat(self, *arguments, env=None, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        if "input" in more:
            more.pop("stdin")
        return subprocess.run([USHER, "stat", *arguments], env=self.environment(**(env or {})), capture_output=True, text=True,
                              timeout=LIMIT, **more)

    def started(self, *words, **more):
        """Starts a process in a group of its own, with pipes. It is killed at the end of the test or at its time limit."""
        process = subprocess.Popen(words, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True, **more)

        def kill():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

        def end():
            watchdog.cancel()
            kill()
            process.communicate(timeout=LIMIT)
        watchdog = threading.Timer(LIMIT, kill)
        watchdog.start()
        self.addCleanup(end)
        return process

    def finished(self, process):
        out, err = process.communicate(timeout=LIMIT)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def child_of(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return int(file.read().split()[0])

    # Usage

    def test_bad_usage_is_one_line_and_2(self):
        for arguments, word in (([], "which command"), (["--"], "which command"), (["--lost", "--", "true"], "--lost"),
                                (["-p", "x"], "--pid"), (["-p", "0"], "--pid"), (["-p", "-3"], "--pid"), (["-p"], "--pid"),
                                (["-p", "1", "--", "true"], "not both"), (["-p", "1", "--lock", "twa"], "--lock is for a command"),
                                (["--top", "0", "true"], "--top"), (["--duration", "0", "true"], "no number of seconds"),
                                (["--duration", "-1", "true"], "no number of seconds"), (["--duration", "x", "true"], "'x'"),
                                (["--duration", "nan", "true"], "'nan'"), (["--objects", "0", "true"], "--objects"),
                                (["--objects", "1e9", "true"], "--objects"), (["--lock", "twaa", "true"], "did you mean 'twa'?")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.stat(*arguments), 2, word)

    def test_two_files_of_one_name(self):
        name = self.file("out")
        for a, b in (("--json", "--pprof"), ("--folded", "-o"), ("--json", "--output")):
            self.assert_refused(self.stat(a, name, b, os.path.join(os.path.dirname(name), ".", "out"), "true"), 2, "the same file")
        self.assertFalse(os.path.exists(name))

    def test_help(self):
        done = self.stat("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("-- CMD", "-p PID", "--hold-times", "--folded", "Examples:", "Exit status", "SIGTERM", "pprof -http"):
            self.assertIn(word, done.stdout)
        self.assertLess(max(map(len, done.stdout.splitlines())), 125)

    # Exit statuses

    def test_exit_statuses(self):
        for status in (0, 1, 3, 77, 255):
            self.assertEqual(self.stat("--", "sh", "-c", f"exit {status}").returncode, status)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.assertEqual(self.stat("--", "sh", "-c", f"kill -{int(number)} $$").returncode, 128 + number)

    def test_what_cannot_be_run(self):
        self.assert_refused(self.stat("--", "no-such-command"), 127, "no such command")
        self.assert_refused(self.stat("--", "/no/such/command"), 127, "no such command")
        self.assert_refused(self.stat("twa", "--", "true"), 127, "'twa': no such command: did you mean --lock twa?")
        plain = self.file("plain")
        with open(plain, "w") as file:
            file.write("#!/no/such/interpreter\n")
        self.assert_refused(self.stat("--", plain), 126, "cannot run")
        os.chmod(plain, 0o755)
        self.assert_refused(self.stat("--", plain), 126, "interpreter /no/such/interpreter does not exist")

    def test_no_library(self):
        self.assert_refused(self.stat("--", "true", env={"USHER_LIBRARY": "/no/such"}), 125, "USHER_LIBRARY names no file")

    def test_the_environment_of_the_program(self):
        show = "echo $USHER_LOCK; echo $LD_PRELOAD; echo $USHER_STAT"
        lock, preload, record = self.stat("--", "sh", "-c", show).stdout.splitlines()
        self.assertEqual((lock, preload), ("pthread", f"{LIBRARY}:{os.path.dirname(LIBRARY)}/libusher-stat.so"))
        self.assertRegex(record, r"\A/proc/\d+/fd/\d+\Z")
        self.assertEqual(self.stat("--lock", "twa", "--", "sh", "-c", show).stdout.splitlines()[0], "twa")
        self.assertEqual(self.stat("--", "sh", "-c", show, env={"USHER_LOCK": "twa"}).stdout.splitlines()[0], "twa")

    def test_the_record_is_inherited(self):
        """A process that may not open the launcher's file descriptors through /proc needs the inherited descriptor of
        the record."""
        show = "readlink /proc/self/fd/${USHER_STAT##*/}; test -r $USHER_STAT && echo readable"
        lines = self.stat("--", "sh", "-c", show).stdout.splitlines()
        self.assertIn("memfd:usher stat", lines[0])
        self.assertEqual(lines[1:], ["readable"])

    def test_the_programs_descriptors_have_the_same_numbers(self):
        first = [sys.executable, "-c", "import os; print(os.open('/dev/null', os.O_RDONLY))"]
        plain = subprocess.run(first, capture_output=True, text=True, timeout=LIMIT, env=self.environment())
        self.assertEqual(self.stat("--", *first).stdout, plain.stdout)
        # The record's descriptor usually has a high number. If the limit on open files forbids this, the number may be
        # any.
        limited = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", USHER, "stat", "--", "sh", "-c", "echo ${USHER_STAT##*/}"]
        done = subprocess.run(limited, capture_output=True, text=True, timeout=LIMIT, env=self.environment())
        self.assertLess(int(done.stdout), 200, done.stderr)

    def test_signals_are_as_the_launcher_got_them(self):
        mask = "grep -E '^Sig(Blk|Ign)' /proc/self/status"
        plain = subprocess.run(["sh", "-c", mask], capture_output=True, text=True, timeout=LIMIT, env=self.environment())
        self.assertEqual(self.stat("--", "sh", "-c", mask).stdout, plain.stdout)

    def test_standard_streams_are_the_programs(self):
        done = self.stat("--", "sh", "-c", "cat; echo said >&2", input="from the pipe\n")
        self.assertEqual(done.stdout, "from the pipe\n")
        self.assertTrue(done.stderr.startswith("said\n"), done.stderr)

    # Signals

    def waiting(self, *options, then="wait"):
        process = self.started(USHER, "stat", *options, "--", self.locking(), "1000", then)
        self.assertEqual(process.stdout.readline(), "counted 2000\n")
        return process, self.child_of(process.pid)

    def test_sigterm_is_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            process, _ = self.waiting()
            process.send_signal(number)
            self.assertEqual(self.finished(process).returncode, 128 + number)

    def test_sigint_is_the_programs(self):
        for number in (signal.SIGINT, signal.SIGQUIT):
            process, program = self.waiting()
            process.send_signal(number)  # the launcher ignores it
            os.kill(program, number)
            self.assertEqual(self.finished(process).returncode, 128 + number)

    def test_a_group_that_is_interrupted(self):
        process, _ = self.waiting()
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(self.finished(process).returncode, 130)

    def test_the_programs_group_is_ours(self):
        process, program = self.waiting()
        self.assertEqual(os.getpgid(program), process.pid)
        os.kill(program, signal.SIGKILL)
        self.assertEqual(self.finished(process).returncode, 137)

    def test_a_terminal(self):
        """The recorded program reads from the terminal, and ^C ends it. Then `usher stat` makes the report."""
        main, end = pty.openpty()
        self.addCleanup(os.close, main)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # A shell runs a trap only between commands, so this script and those below sleep in a loop of short sleeps.
        script = 'trap "echo interrupted; exit 5" INT; test -t 0 && test -t 1 && read line && echo got $line; while :; do sleep 0.1; done'
        process = subprocess.Popen([USHER, "stat", "--", "sh", "-c", script], env=self.environment(), stdin=end, stdout=end,
                                   stderr=end, preexec_fn=own_terminal)
        os.close(end)
        seen = b""

        def until(word):
            nonlocal seen
            deadline = time.monotonic() + LIMIT
            while word not in seen:
                self.assertTrue(select.select([main], [], [], max(0, deadline - time.monotonic()))[0], seen)
                seen += os.read(main, 4096)
        try:
            os.write(main, b"hello\n")
            until(b"got hello")
            os.write(main, b"\x03")
            until(b"interrupted")
            self.assertEqual(process.wait(timeout=LIMIT), 5)
        finally:
            process.kill()
            process.wait(timeout=LIMIT)

    def test_stopped_and_continued(self):
        process, program = self.waiting()
        os.killpg(process.pid, signal.SIGSTOP)  # ^Z needs a terminal
        for pid in (process.pid, program):
            wait_for(lambda pid=pid: fields_of(pid)[0] == "T", LIMIT)
        os.killpg(process.pid, signal.SIGCONT)
        for pid in (process.pid, program):
            wait_for(lambda pid=pid: fields_of(pid)[0] in "SR", LIMIT)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finished(process).returncode, 143)

    def test_a_duration_ends_the_program_and_is_no_failure(self):
        done = self.stat("--duration", "0.2", "--", self.locking(), "1000", "wait")
        self.assertEqual(done.returncode, 0, done)
        done = self.stat("--duration", "0.2", "--", "sh", "-c", "trap 'exit 4' TERM; while :; do sleep 0.05; done")
        self.assertEqual(done.returncode, 4, done)
        self.assertEqual(self.stat("--duration", "60", "--", "sh", "-c", "exit 6").returncode, 6)

    def test_a_load_ends_the_program_and_is_no_failure(self):
        mark = self.file("loaded")
        begin = time.monotonic()
        done = self.stat("--until", f"echo score 7; sleep 0.3; touch {mark}; sleep 0.1", "--", self.locking(), "1000", "wait")
        self.assertEqual((done.returncode, done.stdout.replace("counted 2000\n", "")), (0, "score 7\n"), done)
        self.assertTrue(os.path.exists(mark))  # the load ended by itself
        self.assertLess(time.monotonic() - begin, 100)
        done = self.stat("--until", "true", "--", "sh", "-c", "trap 'exit 4' TERM; while :; do sleep 0.05; done")
        self.assertEqual(done.returncode, 4, done)
        # The load (the command of --until) runs with the signal mask with which `usher stat` was started, and without
        # Usher's library.
        done = self.stat("--until", "grep ^SigBlk /proc/self/status; echo ${LD_PRELOAD:-none} ${USHER_LOCK:-none}", "--", "sleep", "60")
        self.assertEqual(done.stdout.splitlines()[0], "SigBlk:\t0000000000000000", done)
        self.assertEqual(done.stdout.splitlines()[-1], "none none", done)

    def test_a_load_that_fails_is_reported(self):
        for load, word in (("echo no such port >&2; exit 7", "--until: exit status 7: no such port"),
                           ("kill -SEGV $$", "--until: died of signal 11"), ("/no/such/load", "--until: exit status 127")):
            with self.subTest(load):
                done = self.stat("--until", load, "--", "sleep", "60")
                self.assertEqual(done.returncode, 0, done)
                self.assertIn(word, done.stderr)

    def test_a_program_that_ends_before_its_load(self):
        mark = f"2{os.getpid()}.25"
        done = self.stat("--until", f"sleep {mark} & sleep {mark}; true", "--", "sh", "-c", "sleep 0.2; exit 6")
        self.assertEqual(done.returncode, 6, done)
        self.assertIn("the program ended before the load of --until", done.stderr)
        self.assertEqual(subprocess.run(["pgrep", "-f", f"^sleep {mark}"], capture_output=True, text=True, timeout=LIMIT).stdout, "")
        # --duration ends the recording although the load (the command of --until) still runs.
        self.assertEqual(self.stat("--duration", "0.2", "--until", f"sleep {mark}", "--", "sleep", "60").returncode, 0)
        self.assert_refused(self.stat("-p", "1", "--until", "true"), 2, "--until is for a command")

    # Files

    def test_files_are_tried_before_anything_is_run(self):
        ran = self.file("ran")
        for option in ("--json", "--pprof", "--folded", "--output"):
            done = self.stat(option, "/no/such/folder/file", "--", "touch", ran)
            self.assert_refused(done, 125, "cannot write to /no/such/folder/file")
        self.assertFalse(os.path.exists(ran))

    def test_a_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        for option in ("--json", "--output"):
            done = self.stat(option, "/dev/full", "--", self.locking())
            self.assertEqual(done.returncode, 125)
            self.assertEqual(done.stderr.count("cannot write to /dev/full: No space left on device\n"), 1)
            self.assertIn("mutex", done.stderr)  # the table is shown nevertheless
        self.assertEqual(self.stat("--json", "/dev/full", "--", "sh", "-c", "exit 9").returncode, 9)

    def test_all_files(self):
        names = {o: self.file(o[2:]) for o in ("--json", "--pprof", "--folded", "--output")}
        done = self.stat(*(word for pair in names.items() for word in pair), "--", self.locking(), "50000")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "counted 100000\n", ""))
        with open(names["--json"]) as file:
            report = json.load(file)
        self.assertEqual(report["command"], [self.locking(), "50000"])
        with open(names["--output"]) as file:
            self.assertIn("mutex", file.read())
        with open(names["--pprof"], "rb") as file:
            self.assertEqual(file.read(2), b"\x1f\x8b")
        self.assertTrue(os.path.exists(names["--folded"]))

    # The following tests check that the table is shown in all cases.

    def test_the_lock_is_the_one_that_programs_had(self):
        for words, lock in ((["--lock", "twa", "--"], "twa"), (["--", USHER, "run", "--lock", "mcs", "--"], "mcs"), (["--"], "pthread")):
            file = self.file("json")
            done = self.stat("--json", file, *words, self.locking(), "1000")
            self.assertEqual(done.returncode, 0, done)
            with open(file) as report:
                self.assertEqual(json.load(report)["lock"], lock)

    def test_the_table_is_on_standard_error(self):
        done = self.stat("--", self.locking(), "1000")
        self.assertEqual((done.returncode, done.stdout), (0, "counted 2000\n"))
        self.assertIn("mutex", done.stderr)

    def test_a_program_that_is_killed(self):
        done = self.stat("--", self.locking(), "1000", "kill")
        self.assertEqual((done.returncode, done.stdout), (137, "counted 2000\n"))
        self.assertIn("mutex", done.stderr)

    def test_few_calls(self):
        done = self.stat("--", self.locking(), "1")
        self.assertEqual(done.returncode, 0)
        self.assert_refused(subprocess.CompletedProcess([], 0, "", done.stderr), 0, "hardly uses pthread locks", "other locks have nothing to change")

    def test_embedded_locks_are_said_to_be_unseen(self):
        source = """
            #include <pthread.h>
            #include <stdlib.h>
            #include <usher/locks/mcs.hpp>
            #include <usher/mutex.hpp>
            int main(int, char** words) {
              static usher::mutex<usher::mcs> embedded;
              static pthread_mutex_t of_pthread = PTHREAD_MUTEX_INITIALIZER;
              for (int i = atoi(words[1]); i > 0; i--) embedded.lock(), embedded.unlock();
              for (int i = atoi(words[2]); i > 0; i--) pthread_mutex_lock(&of_pthread), pthread_mutex_unlock(&of_pthread);
            }"""
        program = os.path.join(self.folder, "embeds")
        include = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../include")
        subprocess.run(["c++", "-std=c++20", "-x", "c++", "-", f"-I{include}", "-pthread", "-o", program], input=source, text=True,
                       check=True, timeout=300)
        done = self.stat("--", program, "1000", "0")
        self.assertIn("embeds locks of Usher, which usher stat does not see", done.stderr)
        self.assertNotIn("no lock can", done.stderr)
        self.assertIn("embeds locks of Usher, which usher stat does not see", self.stat("--", program, "0", "1000").stderr)

    def test_programs_without_the_library(self):
        static = self.built("static", "int main(void) { return 0; }\n", "-static")
        done = self.stat("--", static)
        self.assertEqual(done.returncode, 0)
        self.assertIn("statically linked", done.stderr.splitlines()[0])
        self.assertIn("nothing was recorded: libusher.so was not loaded", done.stderr.splitlines()[1])
        out = self.file("out")
        self.stat("-o", out, "--", static)
        with open(out) as file:
            self.assertIn("nothing was recorded", file.read())

    def test_a_program_that_goes_into_the_background(self):
        out = self.file("background")
        process = self.started(USHER, "stat", "--", "sh", "-c", f"{self.locking()} 1000 wait > {out} 2>&1 & echo $!; "
                               f"while ! grep -qs counted {out}; do sleep 0.02; done")
        pid = int(process.stdout.readline())
        self.assertIn("1 process that the command has started runs on and is recorded", process.stderr.readline())
        os.kill(pid, signal.SIGKILL)
        done = self.finished(process)
        self.assertEqual(done.returncode, 0)
        self.assertIn("2,000", done.stderr)
        self.assertNotIn("runs on", done.stderr)

    def test_a_deadlock_is_said_at_once(self):
        process, program = self.waiting(then="deadlock")
        line = process.stderr.readline()
        self.assertIn("deadlock", line)
        self.assertTrue(line.startswith("usher: "), line)
        os.kill(program, 0)  # the program still runs
        os.kill(program, signal.SIGKILL)
        done = self.finished(process)
        self.assertEqual(done.returncode, 137)
        self.assertIn("deadlock", done.stderr)

    def test_records_of_all_sizes(self):
        for objects in ("1", "1000", "1000000"):
            done = self.stat("--objects", objects, "--", self.locking(), "1000")
            self.assertEqual(done.returncode, 0, done)

    # Running processes

    def test_processes_that_cannot_be_recorded(self):
        with open("/proc/sys/kernel/pid_max") as file:
            nobody = int(file.read()) + 1
        self.assert_refused(self.stat("-p", str(nobody)), 1, f"there is no process {nobody}")
        self.assert_refused(self.stat("-p", str(os.getpid())), 1, "does not run under Usher", "usher run")
        gone = subprocess.Popen(["true"])
        os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
        self.assert_refused(self.stat("-p", str(gone.pid)), 1, f"process {gone.pid} has ended already")
        gone.wait()

    def test_a_thread_is_no_process(self):
        process = self.started(USHER, "run", "--", sys.executable, "-c",
                               "import threading; e = threading.Event(); threading.Thread(target=e.wait).start(); "
                               "print(threading.enumerate()[1].native_id, flush=True)")
        thread = process.stdout.readline().strip()
        self.assert_refused(self.stat("-p", thread), 1, f"{thread} is a thread of process {process.pid}: usher stat -p {process.pid}")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can become another user")
    def test_a_process_of_another_user(self):
        process = self.started("sleep", "60")
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", USHER, "stat", "-p", str(process.pid)],
                              env=self.environment(), capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
        if done.returncode in (126, 127):
            self.skipTest("other users may not enter the build's folder")
        self.assert_refused(done, 1, "(sleep) may not be looked into", "user root's", "as root")

    def test_a_process_that_runs(self):
        program = self.started(USHER, "run", "--lock", "pthread", "--", self.locking(), "1000", "on")
        self.assertEqual(program.stdout.readline(), "counted 2000\n")
        done = self.stat("-p", str(program.pid), "--duration", "0.5")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertIn("mutex", done.stdout)
        self.assertIsNone(program.poll())
        process = self.started(USHER, "stat", "-p", str(program.pid), "--json", self.file("json"))
        # The library reports that it is recorded a moment before the observer has taken over the record. After that the
        # library closes its own descriptor; the record stays mapped.
        end = time.monotonic() + LIMIT
        while "recorded by usher stat" not in subprocess.run([USHER, "status", str(program.pid)], env=self.environment(), capture_output=True,
                                                              text=True, timeout=LIMIT, stdin=subprocess.DEVNULL).stdout:
            self.assertLess(time.monotonic(), end)
        while not open_files(process.pid) & mapped_files(program.pid):
            self.assertLess(time.monotonic(), end)
        program.kill()
        done = self.finished(process)
        self.assertEqual(done.returncode, 0, done)

    def test_a_process_with_one_thread(self):
        program = self.started(USHER, "run", "--lock", "loiter", "--", self.built("alone", ALONE))
        self.assertEqual(program.stdout.readline(), "begun\n")
        for _ in range(2):  # the process is recorded, not recorded, recorded again
            done = self.stat("-p", str(program.pid), "--duration", "0.3")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertIn("only_one", done.stdout)
            self.assertIsNone(program.poll())

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can become another user")
    def test_a_process_of_another_user_that_root_records(self):
        """The process may not open descriptors of root, who records it. So the record has a name in /dev/shm for a
        short time."""
        folder = tempfile.mkdtemp(prefix="usher-stat-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        mine = {name: shutil.copy(path, folder) for name, path in (("program", self.locking()), ("library", LIBRARY))}
        program = self.started("setpriv", "--reuid", "65534", "--clear-groups", "env", "USHER_LOCK=pthread",
                               "LD_PRELOAD=" + mine["library"], mine["program"], "1000", "on")
        self.assertEqual(program.stdout.readline(), "counted 2000\n")
        done = self.stat("-p", str(program.pid), "--duration", "0.5")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertIn("mutex", done.stdout)
        self.assertEqual([f for f in os.listdir("/dev/shm") if f.startswith("usher-stat-")], [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
