#!/usr/bin/env python3
"""Tests the `usher` command: its output, the programs that it starts, and its exit statuses.

USHER_BIN is the command, USHER_LIB the library. If the library does not exist, or is built with a sanitizer (then only
programs with that sanitizer can load it), an empty library takes its place in the cases that only ask whether it is loaded.
"""

import fcntl
import json
import os
import platform
import pty
import re
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "tools"))
import catalog
from refusals import has_stat, needs_simulator

USHER = os.environ["USHER_BIN"]
REAL_LIBRARY = os.environ.get("USHER_LIB", "")
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
TIME_LIMIT = 100

TEN_LOCKS = ["tas", "ttas", "futex", "ticket", "twa", "mcs", "mcscr", "mcsg", "fairlock", "loiter", "steady"]
PASS_THROUGH = ["pthread", "pthread-adaptive"]

scratch = None  # one folder for all tests
library = None  # the preloaded library: the real one, or an empty one


def compile_c(name, source, *flags):
    """Compiles a C program into the scratch folder; skips the test if this fails."""
    if not CC:
        raise unittest.SkipTest("no C compiler")
    path = os.path.join(scratch, name)
    if os.path.exists(path):
        return path
    with open(path + ".c", "w") as file:
        file.write(textwrap.dedent(source))
    done = subprocess.run([CC, path + ".c", "-o", path, *flags], capture_output=True, text=True, timeout=TIME_LIMIT)
    if done.returncode != 0:
        raise unittest.SkipTest(f"cannot compile {name}: {done.stderr.strip().splitlines()[-1:]}")
    return path


def setUpModule():
    global scratch, library
    scratch = tempfile.mkdtemp(prefix="usher-cli-")
    os.chmod(scratch, 0o755)  # programs run from here as another user
    library = REAL_LIBRARY
    if usable(REAL_LIBRARY):
        return
    os.mkdir(os.path.join(scratch, "empty"))
    library = compile_c("empty/libusher.so", "void usher_stands_here(void) {}\n", "-shared", "-fPIC")
    shutil.copy2(library, full_library())


def full_library():
    return os.path.join(os.path.dirname(library), "libusher-all.so")


def tearDownModule():
    shutil.rmtree(scratch, ignore_errors=True)


def usable(path):
    """Returns whether the library can be used: it exists and is not built with a sanitizer. If it cannot be loaded, tests fail."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        content = file.read()
    return not any(runtime in content for runtime in (b"__asan_init", b"__tsan_init"))


class Usher(unittest.TestCase):
    maxDiff = None

    def usher(self, *arguments, env=None, binary=None, **more):
        """Runs the command in an environment without Usher's variables except those of `env` (None removes a variable)."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        # If the command is built with AddressSanitizer, it must accept a preloaded library before the sanitizer's runtime.
        environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
        environment["USHER_LIBRARY"] = library
        for name, value in (env or {}).items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        more.setdefault("stdin", subprocess.DEVNULL)
        if "stdout" not in more:
            more["capture_output"] = True
        if "input" in more:
            more.pop("stdin")
        return subprocess.run([binary or USHER, *arguments], env=environment, text=True, timeout=TIME_LIMIT, **more)

    def locks_for_programs(self):
        """Returns all locks except those for measurements only."""
        locks = json.loads(self.usher("list", "--json").stdout)["locks"]
        return [lock for lock in locks if lock["excludes"]]

    def assert_one_line(self, text):
        self.assertTrue(text.endswith("\n"), repr(text))
        self.assertEqual(text.count("\n"), 1, repr(text))
        self.assertTrue(text.startswith("usher: "), repr(text))

    def assert_refused(self, done, status, *words):
        """Asserts one line on stderr that has the words, and nothing on stdout."""
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, "")
        self.assert_one_line(done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_warned(self, done, *words):
        """Asserts exactly one warning, with the words."""
        self.assertTrue(done.stderr.startswith("usher: warning: "), done)
        self.assertEqual(done.stderr.count("usher: warning:"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr.splitlines()[0])

    def on_a_terminal(self, columns, *arguments):
        """Returns the output of the command on a terminal of that width."""
        primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([USHER, *arguments], stdout=secondary, stdin=subprocess.DEVNULL)
        # When the last descriptor of the terminal is closed, the kernel may drop text that was not read yet. Therefore the
        # test keeps its own descriptor until it has read a mark that follows the command's text.
        mark = b"<end of the text>"
        status = []

        def wait():
            try:
                status.append(process.wait(timeout=TIME_LIMIT))
            finally:
                process.kill()
                os.write(secondary, mark)

        waiter = threading.Thread(target=wait)
        waiter.start()
        text = b""
        while not text.endswith(mark):
            text += os.read(primary, 4096)
        waiter.join()
        os.close(secondary)
        os.close(primary)
        self.assertEqual(status, [0])
        text = text.removesuffix(mark)
        return text.decode().replace("\r\n", "\n")

    def script(self, text, name="script", mode=0o755):
        folder = tempfile.mkdtemp(dir=scratch)
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path


class General(Usher):
    def test_version(self):
        done = self.usher("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\Ausher \d+\.\d+\.\d+\n\Z")

    def test_help_has_an_example_for_each_subcommand(self):
        done = self.usher("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(len(done.stdout.splitlines()), 34)
        for text in ("usher list", "usher run --", "usher run --lock", "usher status", "--version"):
            self.assertIn(text, done.stdout)

    def test_help_of_the_subcommands(self):
        for name, words in (("run", ["-- CMD", "--lock", "--cond-append", "--sem-append", "--print-env", "--quiet", "127",
                                      "USHER_LIBRARY"]),
                            ("list", ["--all", "--json"])):
            done = self.usher(name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for word in words + ["Examples:"]:
                self.assertIn(word, done.stdout)

    def test_help_is_a_subcommand(self):
        self.assertEqual(self.usher("help").stdout, self.usher("--help").stdout)
        self.assertEqual(self.usher("help", "help").stdout, self.usher("--help").stdout)
        elsewhere = [["stat"]] if has_stat else []
        if os.path.exists(os.path.join(os.path.dirname(os.path.realpath(USHER)), "usher_bench")):
            elsewhere += [["sim"], ["sim", "calibrate"], ["bench"]]
        for words in [["list"], ["run"], ["try"], ["status"], ["check"], *elsewhere]:
            with self.subTest(words=words):
                done = self.usher("help", *words)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"Usage: usher {' '.join(words)} ", done.stdout)
                self.assertEqual(done.stdout, self.usher(*words, "--help").stdout)
        self.assert_refused(self.usher("help", "rnu"), 2, "did you mean 'run'?")
        ran = os.path.join(scratch, "ran")
        self.assert_refused(self.usher("help", "run", "touch", ran), 2, "touch")
        self.assertFalse(os.path.exists(ran))

    def test_help_is_as_wide_as_the_terminal(self):
        elsewhere = ["stat"] if has_stat else []
        if os.path.exists(os.path.join(os.path.dirname(os.path.realpath(USHER)), "usher_bench")):
            elsewhere += ["sim", "bench"]
        for name in ["", "list", "run", "try", "status", "check", *elsewhere]:
            words = [name, "--help"] if name else ["--help"]
            with self.subTest(name=name):
                piped = self.usher(*words).stdout
                self.assertLessEqual(max(map(len, piped.splitlines())), 80, piped)
                for columns in 60, 80, 132:
                    shown = self.on_a_terminal(columns, *words)
                    self.assertLessEqual(max(map(len, shown.splitlines())), columns, shown)
                    # No word is lost by breaking lines. A backslash continues a command of an example in the next line.
                    self.assertEqual(shown.replace("\\\n", "").split(), piped.replace("\\\n", "").split())

    def test_misspelt_words_have_a_suggestion(self):
        for words, meant in ((["lst"], "list"), (["rnu", "--", "true"], "run"), (["staus"], "status"), (["hlep"], "help"),
                             (["--verison"], "--version"), (["list", "--jsn"], "--json"), (["run", "--lokc=twa", "true"], "--lock"),
                             (["run", "--print_env"], "--print-env"), (["try", "--round", "3", "--", "true"], "--rounds"),
                             (["list", "stedy"], "steady"), (["run", "--lock", "mcscrr", "true"], "mcscr"),
                             (["try", "--locks", "twaa", "true"], "twa")):
            with self.subTest(words=words):
                self.assert_refused(self.usher(*words), 2, f"did you mean '{meant}'?")

    def test_words_that_are_far_off_have_none(self):
        for words in (["frobnicate"], ["--frobnicate"], ["list", "--frobnicate"], ["run", "--frobnicate", "true"],
                      ["list", "frobnicate"], ["run", "--lock", "frobnicate", "true"], ["run", "-z", "true"],
                      ["try", "--locks", "frobnicate", "true"]):
            with self.subTest(words=words):
                done = self.usher(*words)
                self.assert_refused(done, 2, "-z" if "-z" in words else "frobnicate")
                self.assertNotIn("did you mean", done.stderr)
        self.assertIn("list, run, try, status", self.usher("frobnicate").stderr)

    def test_a_part_that_is_missing(self):
        """The command without the other executables reports that they were not built or not installed."""
        folder = tempfile.mkdtemp(dir=scratch)
        alone = os.path.join(folder, "usher")
        shutil.copy2(USHER, alone)
        for word, executable in (("stat", "usher_stat"), ("sim", "usher_bench"), ("bench", "usher_bench"), ("check", "usher_check")):
            with self.subTest(word=word):
                done = self.usher(word, "twa", binary=alone)
                self.assert_refused(done, 125, f"usher: {word}: ", f" no {executable}")
                self.assertRegex(done.stderr, f"near {folder}: (.* not installed|install the package usher-check )|USHER_BUILD_[A-Z]+ was off.*apt-get install")
                if os.path.exists(os.path.join(os.path.dirname(os.path.realpath(USHER)), executable)):
                    self.assertRegex(done.stderr, "not installed|install the package")

    def test_bad_usage_is_one_line_and_2(self):
        for arguments, word in (([], "subcommand"), (["lst"], "lst"), (["--lost"], "--lost"), (["list", "x"], "x"),
                                (["list", "--lost"], "--lost"), (["list", "run"], "run"), (["list", "--all", "twa"], "--all"),
                                (["status"], "PID"), (["status", "x"], "x"), (["status", "0"], "0"), (["run"], "command"),
                                (["run", "--"], "command"), (["run", "--lock"], "--lock"),
                                (["run", "--lock", "--", "true"], "--lock"),
                                (["run", "--lost", "--", "true"], "--lost"), (["run", "--lost", "true"], "--lost"),
                                (["run", "--lock", "twa", "--lock", "mcs", "true"], "--lock")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.usher(*arguments), 2, word)

    def test_a_full_disk_is_no_success(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            done = self.usher("list", stdout=full, stderr=subprocess.PIPE)
        self.assertNotEqual(done.returncode, 0)
        self.assert_one_line(done.stderr)


class List(Usher):
    def locks(self):
        done = self.usher("list", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)["locks"]

    def test_json_is_complete(self):
        types = {"name": str, "family": str, "plain": bool, "waiting": str, "fifo": bool, "bypass": (int, type(None)),
                 "starvation_free": bool, "bounded_doorway": bool, "restricts": bool, "context": bool, "size": int,
                 "words": int, "paper": str, "summary": str, "native_only": bool, "excludes": bool, "default": bool,
                 "needs_own_cpu": bool, "library": str}
        ways = {way.name: way for way in catalog.ways()}
        names = set()
        for lock in self.locks():
            with self.subTest(lock=lock["name"]):
                self.assertEqual(list(lock), list(types))
                for key, kind in types.items():
                    self.assertIsInstance(lock[key], kind, key)
                self.assertNotIsInstance(lock["bypass"], bool)
                self.assertIn(lock["waiting"], ways)
                self.assertEqual(lock["plain"], lock["name"] == lock["family"])
                self.assertEqual(lock["needs_own_cpu"], ways[lock["waiting"]].wants_cpu)
                self.assertEqual(lock["default"], lock["name"] == "steady")
                if lock["bypass"] is not None:
                    self.assertGreaterEqual(lock["bypass"], 0)
                if lock["fifo"]:
                    self.assertEqual(lock["bypass"], 0)
                self.assertTrue(lock["paper"] and lock["summary"])
                self.assertNotIn("\n", lock["paper"] + lock["summary"])
                self.assertGreater(lock["size"], 0)
                self.assertGreaterEqual(lock["words"], 1 if lock["excludes"] else 0)
                if not lock["native_only"]:
                    self.assertEqual(lock["name"], lock["family"] + ways[lock["waiting"]].suffix)
            names.add(lock["name"])
        self.assertEqual(len(names), len(self.locks()), "a name occurs twice")
        for name in TEN_LOCKS + PASS_THROUGH:
            self.assertIn(name, names)
        for lock in self.locks():
            self.assertEqual(lock["native_only"], lock["family"] in PASS_THROUGH, lock["name"])
            self.assertEqual(lock["excludes"], lock["name"] != "null", lock["name"])

    def test_the_usual_locks(self):
        """libusher.so has the locks that catalog.list marks: all that are recommended, and all that are tried."""
        usual = {lock.name for lock in catalog.locks() if lock.is_usual}
        for lock in self.locks():
            self.assertEqual(lock["library"], "libusher.so" if lock["family"] in usual else "libusher-all.so", lock["name"])
        recommended = re.findall(r"^  ([a-z-]+) ", self.usher("list").stdout.partition("All locks")[0], re.M)
        tried = re.search(r"in_this_order\[\] = {(.*)};", self.in_tree("tool", "trial", "candidates.cpp"))[1]
        for name in (*recommended, *re.findall('"(.*?)"', tried)):
            self.assertIn(catalog.family(name), usual)

    def test_in_short(self):
        done = self.usher("list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        everyday, _, rest = done.stdout.partition("All locks")
        families = {lock["family"]: lock["summary"] for lock in self.locks()}
        rows = [line for line in rest.splitlines() if re.match(r"[*] [a-z]|  [a-z]", line)]
        self.assertEqual([row[2:].split()[0] for row in rows], list(families))
        for row, (name, summary) in zip(rows, families.items()):
            self.assertEqual(row, f"{row[:2]}{name.ljust(20)}{summary}")  # on one line
        marked = {row[2:].split()[0] for row in rows if row.startswith("*")}
        first = re.findall(r"^  ([a-z]+) ", everyday, re.M)
        self.assertEqual((first[0], set(first)), ("steady", marked))
        advised = set(re.findall(r"`([a-z]+)`", self.which_lock())) & set(families)
        self.assertIn(advised, (marked, set()))  # README.md may leave the advice to this output
        for heading in re.findall("^= (.*)$", self.in_tree("library", "catalog", "catalog.list"), re.M):
            self.assertIn(f"\n\n{heading}\n", rest)
        for word in ["CPU", "usher list LOCK"] + [f"{way.suffix} " for way in catalog.ways()]:
            self.assertIn(word, rest)

    def in_tree(self, *path):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", *path)) as file:
            return file.read()

    def which_lock(self):
        """Returns the table of README.md."""
        return "\n".join(line for line in self.in_tree("README.md").partition("Which lock?")[2].partition("\n## ")[0].splitlines()
                         if line.startswith("|"))

    def test_each_lock_in_full(self):
        pages = self.in_tree("docs", "locks.md")
        forms = {}
        for lock in self.locks():
            forms.setdefault(lock["family"], []).append(lock)
        families = list(forms)
        done = self.usher("list", *families)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        starts = [done.stdout.index(f"{name}: {forms[name][0]['summary']}\n") for name in families]
        for name, start, end in zip(families, starts, starts[1:] + [len(done.stdout)]):
            with self.subTest(lock=name):
                plain = forms[name][0]
                text = " ".join(done.stdout[start:end].split())
                self.assertIn(plain["paper"], text)
                self.assertIn(f" {plain['size']} bytes; fits into a pthread_mutex_t (40 bytes)", text)
                self.assertEqual("first come, first served" in text, plain["fifo"])
                self.assertEqual("Starvation none" in text, plain["starvation_free"] and plain["excludes"])
                self.assertEqual("set aside" in text, plain["restricts"])
                self.assertEqual("Queue nodes" in text, plain["context"])
                self.assertRegex(pages, rf'(?m)^## {re.escape(name)}$|<a id="{re.escape(name)}"></a>')
                for form in forms[name]:
                    self.assertIn(f" {form['name']} ", text)
        self.assertRegex(self.usher("list", "twa").stdout, r"Cost +[0-9]+ instructions, 2 of them locked")

    def test_some_as_json(self):
        locks = json.loads(self.usher("list", "--json", "twa-park", "steady").stdout)["locks"]
        self.assertEqual(locks, [lock for name in ("twa-park", "steady") for lock in self.locks() if lock["name"] == name])

    def test_one_row_a_variant(self):
        done = self.usher("list", "--all")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = done.stdout.partition("\n\n")[0].splitlines()[1:]
        self.assertEqual([row.split()[0] for row in rows], [lock["name"] for lock in self.locks()])
        for row, lock in zip(rows, self.locks()):
            self.assertEqual(row.split()[1], lock["waiting"])
            cells = [cell for cell in row.split("  ") if cell]
            guarantees = cells[2].strip().split(", ")
            bypass = "unbounded" if lock["bypass"] is None else lock["bypass"]
            expected = (["fifo"] if lock["fifo"] else []) + [f"bypass {bypass}"]
            starves_nobody = "starvation-free" + ("" if lock["bounded_doorway"] else " once queued")
            expected += [word for key, word in (("starvation_free", starves_nobody), ("restricts", "restricts"),
                                                ("context", "node")) if lock[key]]
            self.assertEqual(guarantees, expected if lock["excludes"] else ["none: for measurements only"])
        self.assertNotIn(" \n", done.stdout)

    def test_columns_are_aligned(self):
        table = self.usher("list", "--all").stdout.partition("\n\n")[0].splitlines()
        at = table[0].index("paper")
        for row in table[1:]:
            self.assertEqual(row[at - 2:at], "  ", row)
            self.assertNotEqual(row[at], " ", row)

    def test_rows_are_broken_to_the_width_of_a_terminal(self):
        for arguments in ("list",), ("list", "--all"), ("list", "steady", "c-bo-mcs"):
            words = self.usher(*arguments).stdout.partition("\nfifo ")[0].split()
            for columns in 60, 80, 100, 133, 1000:
                if arguments == ("list", "--all") and columns < 80:
                    continue
                with self.subTest(arguments=arguments, columns=columns):
                    text = self.on_a_terminal(columns, *arguments).partition("\nfifo ")[0]
                    self.assertLessEqual(max(len(line) for line in text.splitlines()), columns)
                    self.assertEqual(sorted(text.split()), sorted(words))
        self.assertEqual(self.on_a_terminal(1000, "list", "--all"), self.usher("list", "--all").stdout)
        self.assertEqual(self.on_a_terminal(80, "list"), self.usher("list").stdout)


class Run(Usher):
    def maps(self, *options, env=None, **more):
        """Returns the mapped files of a started program."""
        done = self.usher("run", *options, "--", "cat", "/proc/self/maps", env=env, **more)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def environment(self, *options, env=None, **more):
        """Returns the environment of a started program."""
        done = self.usher("run", "--quiet", *options, "--", "env", env=env, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    # Transparency

    def test_the_library_is_loaded(self):
        self.assertIn(library, self.maps())

    def test_exit_status(self):
        for status in (0, 1, 2, 42, 125, 255):
            done = self.usher("run", "--", "sh", "-c", f"exit {status}")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", ""))

    def test_death_by_signal(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGABRT):
            done = self.usher("run", "--", "sh", "-c", f"ulimit -c 0; kill -{number} $$")
            self.assertEqual(done.returncode, -number)

    def test_it_becomes_the_program(self):
        with subprocess.Popen([USHER, "run", "--", "sh", "-c", "echo $$; read line"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, USHER_LIBRARY=library, USHER_LOCK="")) as process:
            self.assertEqual(int(process.stdout.readline()), process.pid)
            process.terminate()
            process.stdin.close()
            self.assertEqual(process.wait(timeout=TIME_LIMIT), -signal.SIGTERM)

    def test_standard_input_and_output_are_untouched(self):
        text = "one\n\ntwo\tthree" * 10000
        done = self.usher("run", "--", "cat", input=text)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, text, ""))

    def test_closed_standard_files(self):
        path = os.path.join(scratch, "closed")
        command = f'exec {shlex.quote(USHER)} run -- sh -c "ls -1 /proc/self/fd > {path}" <&- >&- 2>&-'
        subprocess.run(["sh", "-c", command], env=dict(os.environ, USHER_LIBRARY=library), timeout=TIME_LIMIT)
        with open(path) as file:
            self.assertIn("1", file.read().split())

    def test_no_file_is_left_open(self):
        done = self.usher("run", "--", "ls", "-1", "/proc/self/fd")
        self.assertEqual(done.stdout.split(), ["0", "1", "2", "3"])  # 3 is the folder that ls reads

    def test_ignored_and_blocked_signals_are_kept(self):
        def prepare():
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

        def masks(command):
            text = subprocess.run(command, env=dict(os.environ, USHER_LIBRARY=library), preexec_fn=prepare,
                                  capture_output=True, text=True, timeout=TIME_LIMIT).stdout
            return [line for line in text.splitlines() if line.startswith(("SigBlk", "SigIgn"))]

        plain = masks(["cat", "/proc/self/status"])
        self.assertEqual(len(plain), 2)
        self.assertEqual(masks([USHER, "run", "--", "cat", "/proc/self/status"]), plain)

    def test_arguments_are_untouched(self):
        for arguments in (["a", "--", "b"], ["--lock", "no-such"], ["--help"], ["--version"], ["list", "run"], [""],
                          ["-"], ["a b", "ü", "\\", "'", '"', "$x", "\n"], ["--quiet=1", "-h"]):
            for dashes in ([], ["--"]):
                with self.subTest(arguments=arguments, dashes=dashes):
                    done = self.usher("run", *dashes, "printf", "<%s>", *arguments)
                    self.assertEqual(done.returncode, 0, done)
                    self.assertEqual(done.stdout, "".join(f"<{a}>" for a in arguments))

    def test_commands_that_are_named_like_our_own_words(self):
        path = self.script("#!/bin/sh\necho other list $*\n", "list")
        for dashes in ([], ["--"]):
            done = self.usher("run", *dashes, "list", "--all",
                              env={"PATH": os.path.dirname(path) + ":" + os.environ["PATH"]})
            self.assertEqual((done.returncode, done.stdout), (0, "other list --all\n"))

    def test_a_command_that_begins_with_a_dash(self):
        path = self.script("#!/bin/sh\necho dashed\n", "--lock")
        done = self.usher("run", "--", "--lock", env={"PATH": os.path.dirname(path) + ":" + os.environ["PATH"]})
        self.assertEqual((done.returncode, done.stdout), (0, "dashed\n"))

    def test_other_variables_are_kept(self):
        self.assertEqual(self.environment(env={"KEPT": "as it is"})["KEPT"], "as it is")

    def test_it_can_be_nested(self):
        done = self.usher("run", "--lock", "mcs", "--", USHER, "run", "--lock", "twa", "--", "env")
        self.assertIn("USHER_LOCK=twa\n", done.stdout)
        self.assertIn(f"LD_PRELOAD={library}\n", done.stdout)

    # Which lock

    def test_default_lock(self):
        self.assertEqual(self.environment()["USHER_LOCK"], "steady")
        self.assertEqual(self.environment(env={"USHER_LOCK": ""})["USHER_LOCK"], "steady")

    def test_lock_from_the_environment(self):
        self.assertEqual(self.environment(env={"USHER_LOCK": "mcs"})["USHER_LOCK"], "mcs")

    def test_the_option_wins(self):
        for option in (["--lock", "twa"], ["--lock=twa"]):
            self.assertEqual(self.environment(*option, env={"USHER_LOCK": "mcs"})["USHER_LOCK"], "twa")
            self.assertEqual(self.environment(*option, env={"USHER_LOCK": "no-such"})["USHER_LOCK"], "twa")

    def test_what_is_no_lock_is_refused(self):
        for done in (self.usher("run", "--lock", "null", "--", "true"), self.usher("try", "--locks", "null", "--", "true"),
                     self.usher("run", "--", "true", env={"USHER_LOCK": "null"})):
            self.assert_refused(done, 2, "null", "measurements only")

    def test_every_lock_is_taken(self):
        for lock in self.locks_for_programs():
            found = self.environment("--lock", lock["name"])
            preloaded = os.path.join(os.path.dirname(library), lock["library"])
            self.assertEqual((found["USHER_LOCK"], found["LD_PRELOAD"]), (lock["name"], preloaded))

    def test_the_plain_name_in_full(self):
        self.assertEqual(self.environment("--lock", "mcs-stp")["USHER_LOCK"], "mcs")

    def test_the_c_librarys_locks(self):
        environment = self.environment("--lock", "pthread")
        self.assertEqual((environment["USHER_LOCK"], environment["LD_PRELOAD"]), ("pthread", library))

    def test_unknown_lock_starts_nothing(self):
        ran = os.path.join(scratch, "ran")
        for name, nearest in (("tva", "'twa'"), ("loiterr", "'loiter'"), ("Ticket", "'ticket'"),
                              ("mcs-spinn", "'mcs-spin'"), ("mcs_park", "'mcs-park'"), ("", "usher list")):
            done = self.usher("run", "--lock", name, "--", "touch", ran)
            self.assert_refused(done, 2, f"'{name}'", nearest)
            if name:
                done = self.usher("run", "--", "touch", ran, env={"USHER_LOCK": name})
                self.assert_refused(done, 2, f"'{name}'", nearest, "USHER_LOCK")
        self.assertFalse(os.path.exists(ran))

    # LD_PRELOAD

    def test_order_of_preloads(self):
        other, another = "/nowhere/libother.so", "libanother.so.1"
        ours = library
        for existing, expected in (
            (None, [ours]),
            ("", [ours]),
            (other, [ours, other]),
            (f"{other}:{another}", [ours, other, another]),
            (f" {other}  {another} : ", [ours, other, another]),
            (ours, [ours]),
            (f"{other}:{ours}", [ours, other]),
            (f"{ours}:{other}:{ours}", [ours, other]),
            ("/elsewhere/libusher.so", [ours]),  # another copy: the first would mistake it for the C library
            ("libusher.so", [ours]),
            ("/elsewhere/libusher-all.so", [ours]),
            (full_library(), [ours]),
            ("libasan.so.8", ["libasan.so.8", ours]),
            (f"/usr/lib/libtsan.so.2:{other}", ["/usr/lib/libtsan.so.2", ours, other]),
            (f"{other} libasan.so.8", ["libasan.so.8", ours, other]),
            (f"{ours}:libubsan.so.1", ["libubsan.so.1", ours]),
            ("/x/libclang_rt.asan-x86_64.so", ["/x/libclang_rt.asan-x86_64.so", ours]),
            ("/libasan.so.8/libother.so", [ours, "/libasan.so.8/libother.so"]),
        ):
            with self.subTest(existing=existing):
                done = self.usher("run", "--print-env", env={"LD_PRELOAD": existing})
                line = [li for li in done.stdout.splitlines() if li.startswith("export LD_PRELOAD=")]
                self.assertEqual(line, [f"export LD_PRELOAD='{':'.join(expected)}'"])

    def test_another_library_replaces_this_one(self):
        mapped = "grep -o '/[^ ]*libusher[^ ]*' /proc/self/maps | sort -u"
        other, usual = [full_library()], [library]
        for inner, expected in ((mapped, other), (f"( exec sh -c \"{mapped}\" )", other), (f"{USHER} run --lock twa -- sh -c \"{mapped}\"", usual),
                                (f"{USHER} run --lock mcs -- sh -c \"{mapped}\"", other)):
            done = self.usher("run", "--lock", "clh", "--", "sh", "-c", inner)
            self.assertEqual((done.returncode, done.stdout.splitlines(), done.stderr), (0, expected, ""), inner)

    def test_the_other_library_is_missing(self):
        root = self.tree("lib/libusher.so")
        commands = [["run", "--lock", "clh"], ["try", "--locks", "twa,clh"], *([["stat", "--lock", "clh"]] if has_stat else [])]
        ran = os.path.join(root, "ran")
        for command in commands:
            for place in ({"USHER_LIBRARY": None}, {"USHER_LIBRARY": os.path.join(root, "lib", "libusher.so")}):
                binary = USHER if command[0] == "stat" and place["USHER_LIBRARY"] else os.path.join(root, "bin", "usher")
                if command[0] == "stat" and binary != USHER:  # its helper is not in that tree
                    continue
                done = self.usher(*command, "--", "touch", ran, binary=binary, env=place)
                self.assert_refused(done, 125, "clh", os.path.join(root, "lib"), "libusher-all.so")
        self.assertFalse(os.path.exists(ran))
        done = self.usher("run", "--lock", "twa", "--", "true", binary=os.path.join(root, "bin", "usher"), env={"USHER_LIBRARY": None})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_library_with_all_locks_may_be_named(self):
        for lock in ("clh", "twa"):
            done = self.environment("--lock", lock, env={"USHER_LIBRARY": full_library()})
            self.assertEqual(done["LD_PRELOAD"], full_library())

    def test_an_existing_preload_stays_loaded(self):
        other = compile_c("libother.so", "int usher_other = 1;\n", "-shared", "-fPIC")
        maps = self.maps(env={"LD_PRELOAD": other})
        self.assertIn(other, maps)
        self.assertIn(library, maps)

    def test_a_link_to_the_library_is_the_library(self):
        link = os.path.join(tempfile.mkdtemp(dir=scratch), "libsame.so")
        os.symlink(library, link)
        self.assertEqual(self.environment(env={"LD_PRELOAD": link})["LD_PRELOAD"], library)

    # Commands that cannot be run

    def test_not_found(self):
        for command in ("no-such-command", "/no/such/command", "./no-such-command", "", "/dev/null/x"):
            self.assert_refused(self.usher("run", "--", command), 127, f"'{command}'")
        self.assert_refused(self.usher("run", "twa", "--", "true"), 127, "no such command: did you mean --lock twa?")

    def test_not_found_with_a_closed_folder_in_path(self):
        folder = tempfile.mkdtemp(dir=scratch)
        os.chmod(folder, 0)
        binary = os.path.join(self.tree("lib/libusher.so"), "bin", "usher")
        more = {}
        if os.geteuid() == 0:  # root may search all folders
            os.chmod(os.path.dirname(os.path.dirname(os.path.dirname(binary))), 0o755)
            more = {"user": 65534, "cwd": "/"}
        done = self.usher("run", "--", "no-such-command", binary=binary,
                          env={"PATH": folder + ":" + os.environ["PATH"], "USHER_LIBRARY": None}, **more)
        self.assert_refused(done, 127, "'no-such-command'")

    def test_not_executable(self):
        for command in (self.script("#!/bin/sh\n", mode=0o644), scratch):
            self.assert_refused(self.usher("run", "--", command), 126, command, "Permission denied")
        path = self.script("#!/bin/sh\n", "in-path", mode=0o644)
        done = self.usher("run", "--", "in-path", env={"PATH": os.path.dirname(path) + ":" + os.environ["PATH"]})
        self.assert_refused(done, 126, "in-path", "Permission denied")

    def test_missing_interpreter(self):
        self.assert_refused(self.usher("run", "--", self.script("#!/no/such/shell -x\n")), 126, "/no/such/shell")
        self.assert_refused(self.usher("run", "--", self.script("#!/bin/sh\r\n")), 126, "carriage return")
        program = compile_c("lost-loader", "int main(void) { return 0; }\n", "-Wl,--dynamic-linker=/no/such/ld.so")
        self.assert_refused(self.usher("run", "--", program), 126, "/no/such/ld.so")

    def test_a_script_without_interpreter_is_the_shells(self):
        done = self.usher("run", "--", self.script("echo from the shell\n"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "from the shell\n", ""))

    def test_path_unset(self):
        # Without PATH, execvp() searches /bin and /usr/bin.
        done = self.usher("run", "--", "sh", "-c", "exit 7", env={"PATH": None})
        self.assertEqual((done.returncode, done.stderr), (7, ""))

    # The manual page and the completions are made of the options.

    def tree_file(self, *path):
        return os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", *path)

    @needs_simulator
    @unittest.skipUnless(has_stat, "USHER_BUILD_STAT=OFF")
    def test_the_manual_and_the_completions_are_those_of_the_options(self):
        build = os.path.dirname(os.path.dirname(os.path.realpath(USHER)))
        done = subprocess.run([sys.executable, self.tree_file("tools", "manual.py"), "--build", build, "--check"], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    @needs_simulator
    def test_every_option_is_in_the_manual_and_completed(self):
        pages = {}
        for name, path in (("the manual", ("docs", "usher.1")), ("bash", ("tool", "completion", "usher.bash")),
                           ("zsh", ("tool", "completion", "_usher"))):
            with open(self.tree_file(*path)) as file:
                pages[name] = file.read().replace("\\-", "-")
        stat = ["stat", "report", "record"] if has_stat else []
        for subcommand in ("list", "run", "try", *stat, "check", "sim", "sim calibrate", "sim validate", "bench", "predict"):
            self.assertIn(f"usher {subcommand}", pages["the manual"])
            said = self.usher(*subcommand.split(), "--help").stdout.split("Examples:")[0]
            options = set(re.findall(r"^  (?:-[a-z],)?(--[a-z-]+)", said, re.M)) - {"--help"}
            self.assertGreater(len(options), 0, said)
            of_it = re.split(rf"(?m)^\.SS usher {subcommand}$", pages["the manual"])[1].split("\n.SS ")[0].split("\n.SH ")[0]
            for option in options:
                self.assertIn(f"\\fB{option}\\fR", of_it)
                for name, page in pages.items():
                    self.assertRegex(page, re.escape(option) + r"(?![a-z-])", f"{option} of {subcommand} in {name}")

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_the_manual_has_no_warnings(self):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", self.tree_file("docs", "usher.1")], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    @needs_simulator
    def test_bash_completes(self):
        script = self.tree_file("tool", "completion", "usher.bash")
        if not shutil.which("bash"):
            self.skipTest("no bash")

        def completed(*words):
            line = " ".join(shlex.quote(w) for w in ("usher",) + words)
            done = self.usher("-c", f"source {shlex.quote(script)}; usher() {{ {shlex.quote(USHER)} \"$@\"; }}; COMP_WORDS=({line}); "
                              f"COMP_CWORD={len(words)}; _usher; printf '%s\\n' \"${{COMPREPLY[@]}}\"", binary="/bin/bash")
            self.assertEqual(done.stderr, "")
            return done.stdout.split()

        self.assertEqual(completed("t"), ["try", "top"])
        self.assertEqual(completed("st"), ["status", "stat"])
        self.assertEqual(completed("help", "ch"), ["check"])
        self.assertEqual(completed("help", "sim", ""), ["calibrate", "validate"])
        self.assertEqual(completed("try", "--colour", ""), ["auto", "always", "never"])
        self.assertEqual(completed("check", "--scheduler", "b"), ["bound"])
        self.assertIn("mutants", completed("check", "mu"))
        self.assertEqual(completed("bench", "--chart-metric", "latency-p"), ["latency-p99"])
        self.assertEqual(completed("run", "--cond-append", ""), [])
        self.assertEqual(completed("list", "stea"), ["steady", "steady-spin", "steady-yield", "steady-park"])
        self.assertEqual(completed("run", "--lock", "mcscr"), ["mcscr", "mcscr-spin", "mcscr-yield", "mcscr-park", "mcscr-sleep", "mcscr-mwait",
                                                                "mcscrn", "mcscrn-spin", "mcscrn-yield", "mcscrn-park"])
        self.assertIn("twa,loiter", completed("try", "--locks", "twa,lo"))
        self.assertEqual(completed("try", "--warm"), ["--warmup"])
        self.assertEqual(completed("bench", "mutex"), ["mutexbench"])
        # Bash splits first=tw and first=twa,second=tw into these words.
        self.assertIn("twa", completed("try", "--locks", "first", "=", "tw"))
        self.assertIn("twa", completed("try", "--locks", "first", "=", "twa,second", "=", "tw"))
        self.assertIn("twa", completed("try", "--locks", "first", "="))
        self.assertEqual(completed("sim", "cal"), ["calibrate"])
        self.assertIn("mutexbench", completed("sim", ""))
        self.assertEqual(completed("sim", "--tr"), ["--trace"])
        self.assertEqual(completed("sim", "--warm"), ["--warm-up"])
        self.assertEqual(completed("sim", "--warm-up", ""), [])
        self.assertEqual(completed("sim", "--placement", "com"), ["compact"])
        self.assertEqual(completed("sim", "validate", "--ro"), ["--rounds"])
        self.assertEqual(completed("run", "--lock", "=", "mcscr-s"), ["mcscr-spin", "mcscr-sleep"])

    # --cond-append, --sem-append

    def test_options_before_the_subcommand(self):
        self.assert_refused(self.usher("--cond-append", "0.001", "run", "--", "true"), 2, "after the subcommand",
                            "--cond-append")

    def test_orders_of_waiting_reach_the_program(self):
        show = ["--", "sh", "-c", "echo $USHER_COND_APPEND/$USHER_SEM_APPEND"]
        for arguments, env, expected in (
                ([], {}, "/"),
                (["--cond-append", "0.001"], {}, "0.001/"),
                (["--sem-append=.5"], {"USHER_COND_APPEND": "0.25"}, "0.25/.5"),
                (["--cond-append", "1"], {"USHER_COND_APPEND": "0.25"}, "1/")):
            done = self.usher("run", *arguments, *show, env=env)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, expected + "\n", ""))
        done = self.usher("run", "--lock", "twa", "--sem-append", "0.5", "--print-env")
        self.assertEqual(done.stdout, f"export USHER_LOCK='twa'\nexport LD_PRELOAD='{library}'\n"
                                      "export USHER_SEM_APPEND='0.5'\n")

    def test_what_is_no_probability_is_refused(self):
        for wrong in ("0", "0.0", "1.1", "-1", "often", "1e-3", "0,5", "nan"):
            self.assert_refused(self.usher("run", f"--cond-append={wrong}", "--", "echo", "ran"), 2, "--cond-append",
                                wrong, "0.001")
            self.assert_refused(self.usher("run", "--", "echo", "ran", env={"USHER_SEM_APPEND": wrong}), 2,
                                "USHER_SEM_APPEND", wrong)

    def test_orders_are_of_no_use_under_the_c_librarys_locks(self):
        done = self.usher("run", "--lock", "pthread", "--sem-append", "0.5", "true")
        self.assertEqual(done.returncode, 0)
        self.assert_warned(done, "--sem-append", "pthread")

    def test_the_library_says_what_is_no_probability(self):
        # Without `usher run`, the library itself prints one message for a wrong value, and wakes waiters in the order of arrival.
        for variable in ("USHER_COND_APPEND", "USHER_SEM_APPEND"):
            done = self.usher("-c", "echo ran", binary="/bin/sh",
                              env={"LD_PRELOAD": library, "USHER_LOCK": "twa", variable: "0"})
            self.assertEqual((done.returncode, done.stdout), (0, "ran\n"))
            self.assert_one_line(done.stderr)
            self.assertIn(f"{variable}=0 is not a probability", done.stderr)

    def test_the_library_says_what_is_no_number_of_nanoseconds(self):
        for variable in ("USHER_SPIN_NS", "USHER_YIELD_NS", "USHER_SLEEP_NS"):
            for wrong in ("5us", "-1", "1234567890"):
                done = self.usher("-c", "echo ran", binary="/bin/sh",
                                  env={"LD_PRELOAD": library, "USHER_LOCK": "twa", variable: wrong})
                self.assertEqual((done.returncode, done.stdout), (0, "ran\n"))
                self.assert_one_line(done.stderr)
                self.assertIn(f"{variable}={wrong} is not a number of nanoseconds", done.stderr)

    # --print-env

    def test_print_env_starts_nothing(self):
        ran = os.path.join(scratch, "ran")
        for command in ([], ["--", "touch", ran]):
            done = self.usher("run", "--lock", "twa", "--print-env", *command)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, f"export USHER_LOCK='twa'\nexport LD_PRELOAD='{library}'\n")
        self.assertFalse(os.path.exists(ran))

    def test_print_env_is_for_the_shell(self):
        # The output of --print-env may be evaluated twice in one shell. The old value of LD_PRELOAD has characters that need quotes.
        odd = "/it's/$HOME/lib*.so"
        command = ('eval "$("$0" run --lock mcs --print-env)" && eval "$("$0" run --print-env)" && '
                   'printf %s "$LD_PRELOAD $USHER_LOCK"')
        done = self.usher("-c", command, USHER, binary="/bin/sh", env={"LD_PRELOAD": odd})
        self.assertEqual(done.stdout, f"{full_library()}:{odd} mcs")

    def test_print_env_refuses_as_run_does(self):
        self.assert_refused(self.usher("run", "--print-env", "--lock", "tva"), 2, "twa")

    # Search for the library

    def tree(self, *libraries, name="tree"):
        """Makes a folder with bin/usher and libraries, like an installed tree."""
        root = os.path.join(tempfile.mkdtemp(dir=scratch), name)
        os.makedirs(os.path.join(root, "bin"))
        shutil.copy2(USHER, os.path.join(root, "bin", "usher"))
        for place in libraries:
            os.makedirs(os.path.join(root, os.path.dirname(place)))
            shutil.copy2(library, os.path.join(root, place))
        return root

    def preload_of(self, binary):
        return self.environment(binary=binary, env={"USHER_LIBRARY": None})["LD_PRELOAD"]

    def test_beside_the_command(self):
        places = ["lib/libusher.so", "lib/usher/libusher.so", "lib64/libusher.so"]
        triplet = f"{platform.machine()}-linux-gnu"
        if os.path.isdir(f"/usr/lib/{triplet}"):
            places += [f"lib/{triplet}/libusher.so", f"lib/{triplet}/usher/libusher.so"]
        for place in places:
            with self.subTest(place=place):
                root = self.tree(place)
                self.assertEqual(self.preload_of(os.path.join(root, "bin", "usher")), os.path.join(root, place))

    def test_a_tree_that_was_moved(self):
        root = self.tree("lib/libusher.so")
        moved = root + "-moved"
        os.rename(root, moved)
        done = self.usher("run", "--", "cat", "/proc/self/maps", binary=os.path.join(moved, "bin", "usher"),
                          env={"USHER_LIBRARY": None})
        self.assertIn(os.path.join(moved, "lib", "libusher.so"), done.stdout)

    def test_a_link_to_the_command(self):
        root = self.tree("lib/libusher.so")
        link = os.path.join(tempfile.mkdtemp(dir=scratch), "usher")
        os.symlink(os.path.join(root, "bin", "usher"), link)
        self.assertEqual(self.preload_of(link), os.path.join(root, "lib", "libusher.so"))
        # The command is found by PATH, from another folder.
        done = self.usher("-c", "cd / && usher run --print-env", binary="/bin/sh",
                          env={"USHER_LIBRARY": None, "PATH": os.path.dirname(link) + ":" + os.environ["PATH"]})
        self.assertIn(os.path.join(root, "lib", "libusher.so"), done.stdout)

    def test_no_library(self):
        binary = os.path.join(self.tree(), "bin", "usher")
        self.assert_refused(self.usher("run", "--", "true", binary=binary, env={"USHER_LIBRARY": None}), 125,
                            "libusher.so", "USHER_LIBRARY")
        done = self.usher("run", "--", "true", env={"USHER_LIBRARY": "/no/such/lib.so"})
        self.assert_refused(done, 125, "/no/such/lib.so", "USHER_LIBRARY")
        done = self.usher("run", "--", "true", env={"USHER_LIBRARY": self.script("no library\n")})
        self.assert_refused(done, 125, "no library")

    def test_a_relative_library_becomes_absolute(self):
        environment = self.environment(env={"USHER_LIBRARY": os.path.basename(library)}, cwd=os.path.dirname(library))
        self.assertEqual(environment["LD_PRELOAD"], library)

    def test_a_path_that_ld_preload_cannot_hold(self):
        for name in ("with space", "with:colon", "with$ORIGIN"):
            with self.subTest(name=name):
                root = self.tree("lib/libusher.so", name=name)
                binary = os.path.join(root, "bin", "usher")
                ran = os.path.join(scratch, "ran")
                done = self.usher("run", "--", "touch", ran, binary=binary, env={"USHER_LIBRARY": None})
                self.assert_refused(done, 125, name, "move", "USHER_LIBRARY")
                self.assertFalse(os.path.exists(ran))
                # The error message recommends a link to the library from a path without a space. Such a link works.
                link = os.path.join(tempfile.mkdtemp(dir=scratch), "libusher.so")
                os.symlink(os.path.join(root, "lib", "libusher.so"), link)
                done = self.usher("run", "--", "cat", "/proc/self/maps", binary=binary, env={"USHER_LIBRARY": link})
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(os.path.join(root, "lib", "libusher.so"), done.stdout)

    def test_a_command_whose_path_has_a_space(self):
        path = self.script("#!/bin/sh\necho spaced\n", "with space")
        self.assertEqual(self.usher("run", "--", path).stdout, "spaced\n")


THREE = "int main(void) { return 3; }\n"


class Warnings(Usher):
    def assert_warns_and_runs(self, command, *words, status=3):
        done = self.usher("run", "--", *command)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        self.assert_warned(done, *words)
        self.assertEqual(done.stderr.count("\n"), 1)
        done = self.usher("run", "--quiet", "--", *command)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", ""))

    def test_none_for_ordinary_programs(self):
        for command in (["true"], ["sh", "-c", ":"], [sys.executable, "-c", ""], ["env", "true"],
                        [self.script("#!/bin/sh\n")], [self.script("#!/usr/bin/env sh\n")],
                        [self.script(f"#!/usr/bin/env -S {sys.executable} -I\n")],
                        [compile_c("dynamic", THREE, "-no-pie")], [compile_c("dynamic-pie", THREE, "-fPIE", "-pie")]):
            done = self.usher("run", "--", *command)
            self.assertEqual((done.stdout, done.stderr), ("", ""), command)

    def test_static(self):
        self.assert_warns_and_runs([compile_c("static", THREE, "-static")], "static", "statically linked")

    def test_static_pie(self):
        self.assert_warns_and_runs([compile_c("static-pie", THREE, "-static-pie", "-fPIE")], "statically linked")

    def test_the_loader_as_a_program_is_not_static(self):
        loaders = [f"/lib64/ld-linux-{platform.machine().replace('_', '-')}.so.2",
                   f"/lib/ld-linux-{platform.machine()}.so.1"]
        for loader in filter(os.path.exists, loaders):
            done = self.usher("run", "--", loader, shutil.which("cat"), "/proc/self/maps")
            self.assertEqual(done.stderr, "")
            self.assertIn(library, done.stdout)

    def test_static_in_path(self):
        program = compile_c("static", THREE, "-static")
        folder = tempfile.mkdtemp(dir=scratch)
        shutil.copy2(program, os.path.join(folder, "statically"))
        done = self.usher("run", "--", "statically", env={"PATH": folder + ":" + os.environ["PATH"]})
        self.assertEqual(done.returncode, 3)
        self.assert_warned(done, os.path.join(folder, "statically"))

    def test_scripts_of_static_interpreters(self):
        static = compile_c("static", THREE, "-static")
        first = self.script(f"#!{static}\n")
        for text in (f"#!{static}\n", f"#! {static} -x\n", f"#!\t{static}", f"#!{first}\n",
                     f"#!/usr/bin/env {static}\n", f"#!/usr/bin/env -S A=1 {static} -x\n"):
            with self.subTest(text=text):
                self.assert_warns_and_runs([self.script(text)], "is run by", static, "statically linked")

    def test_a_script_that_is_its_own_interpreter(self):
        path = self.script("")
        with open(path, "w") as file:
            file.write(f"#!{path}\n")
        done = self.usher("run", "--", path)
        self.assertEqual(done.returncode, 126)
        self.assert_one_line(done.stderr)

    def test_musl(self):
        if not shutil.which("musl-gcc"):
            self.skipTest("no musl-gcc")
        path = os.path.join(scratch, "musl")
        with open(path + ".c", "w") as file:
            file.write(THREE)
        subprocess.run(["musl-gcc", path + ".c", "-o", path], check=True, timeout=TIME_LIMIT)
        done = self.usher("run", "--", path)
        self.assert_warned(done, path, "musl")
        self.assertEqual(done.returncode, 3)  # the program starts: musl has all functions that the library needs
        done = self.usher("run", "--", self.script(f"#!{path}\n"))
        self.assert_warned(done, "is run by", path, "musl")
        self.assertNotIn("warning", self.usher("run", "--quiet", "--", path).stderr)

    def foreign(self, **fields):
        """Makes a program with some bytes of its header changed: {offset: bytes}."""
        with open(compile_c("dynamic", THREE, "-no-pie"), "rb") as file:
            content = bytearray(file.read())
        for offset, value in fields.items():
            at = int(offset.lstrip("_"))
            content[at:at + len(value)] = value
        path = os.path.join(tempfile.mkdtemp(dir=scratch), "foreign")
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, 0o755)
        return path

    def test_another_processor(self):
        # --print-env examines the command but does not start it: the file need not be a real program.
        path = self.foreign(_18=struct.pack("=H", 0xF3 if platform.machine() != "riscv64" else 0x3E))
        done = self.usher("run", "--print-env", "--", path)
        self.assertEqual(done.returncode, 0)
        self.assert_warned(done, path, "another processor")

    @unittest.skipUnless(platform.machine() == "x86_64", "written for x86-64")
    def test_32_bit(self):
        path = self.foreign(_4=b"\x01", _18=struct.pack("=H", 3))
        self.assert_warned(self.usher("run", "--print-env", "--", path), path, "32-bit")

    def test_damaged_programs_do_no_harm(self):
        with open(compile_c("dynamic", THREE, "-no-pie"), "rb") as file:
            whole = file.read()
        for length in (0, 1, 4, 16, 19, 20, 63, 64, 65, 100, 500, 1000, len(whole) // 2):
            path = os.path.join(tempfile.mkdtemp(dir=scratch), "cut")
            with open(path, "wb") as file:
                file.write(whole[:length])
            os.chmod(path, 0o755)
            self.assertEqual(self.usher("run", "--print-env", "--", path).returncode, 0, length)
        for offset in range(32, 64):  # the offsets in the header
            path = self.foreign(**{f"_{offset}": b"\xff"})
            self.assertEqual(self.usher("run", "--print-env", "--", path).returncode, 0, offset)

    def test_set_user_id(self):
        """The loader ignores preloads exactly if the bit changes the user."""
        path = os.path.join(tempfile.mkdtemp(dir=scratch), "cat-of-another")
        shutil.copy2(shutil.which("cat"), path)
        os.chmod(os.path.dirname(path), 0o755)
        os.chmod(path, 0o4755)
        done = self.usher("run", "--", path, "/proc/self/maps")
        self.assertEqual(done.stderr, "")  # the bit sets this same user: nothing changes
        self.assertIn(library, done.stdout)
        if os.geteuid() != 0:
            self.skipTest("only root can give a program to another user")
        if os.statvfs(scratch).f_flag & os.ST_NOSUID:
            self.skipTest("the scratch folder's file system ignores the bit")
        for owner, group, mode, ignored in ((65534, 0, 0o4755, True), (0, 65534, 0o2755, True),
                                            (65534, 65534, 0o755, False), (0, 65534, 0o2745, False)):
            with self.subTest(owner=owner, group=group, mode=oct(mode)):
                os.chown(path, owner, group)
                os.chmod(path, mode)
                done = self.usher("run", "--", path, "/proc/self/maps")
                if ignored:
                    self.assert_warned(done, path, "rights")
                    self.assertNotIn(library, done.stdout)
                    self.assertEqual(self.usher("run", "--quiet", "--", path, "/dev/null").stderr, "")
                else:
                    self.assertEqual(done.stderr, "")
                    self.assertIn(library, done.stdout)

    def test_a_set_user_id_script_is_an_ordinary_one(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a program to another user")
        path = self.script("#!/bin/sh\n")
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        self.assertEqual(self.usher("run", "--", path).stderr, "")

    def test_programs_built_with_a_sanitizer(self):
        program = compile_c("asan", THREE, "-fsanitize=address")
        needed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, timeout=TIME_LIMIT).stdout
        if "libasan" not in needed:
            self.skipTest("this compiler links the runtime statically")
        runtime = needed[needed.index("libasan.so"):].split("]")[0]
        done = self.usher("run", "--", program, env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assert_warned(done, program, f"LD_PRELOAD={runtime}")
        # The preload that the warning recommends works. (A command that is linked with the runtime itself cannot load it a second time.)
        done = self.usher("run", "--", program, env={"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"})
        self.assertEqual((done.returncode, done.stderr), (3, ""))

    def test_locks_that_want_a_cpu(self):
        cpus = f"{len(os.sched_getaffinity(0))} here"
        for lock in self.locks_for_programs():
            with self.subTest(lock=lock["name"]):
                done = self.usher("run", "--lock", lock["name"], "--", "sh", "-c", "exit 3")
                self.assertEqual(done.returncode, 3)
                if lock["needs_own_cpu"] and not lock["native_only"]:
                    self.assert_warned(done, lock["name"], "CPU", cpus)
                    self.assertEqual("never finish" in done.stderr, lock["waiting"] == "spin")
                    done = self.usher("run", "--quiet", "--lock", lock["name"], "--", "true")
                self.assertEqual(done.stderr, "")

    def test_real_time_scheduling(self):
        if not shutil.which("chrt"):
            self.skipTest("no chrt")
        if subprocess.run(["chrt", "-f", "1", "true"], capture_output=True, timeout=TIME_LIMIT).returncode != 0:
            self.skipTest("not allowed here")
        for options, name in ((["-f"], "SCHED_FIFO"), (["-r"], "SCHED_RR"), (["-R", "-f"], "SCHED_FIFO")):
            done = self.usher(*options, "1", USHER, "run", "--", "sh", "-c", "exit 3", binary="chrt")
            self.assertEqual(done.returncode, 3, done)
            self.assert_warned(done, "real-time", name)
            done = self.usher(*options, "1", USHER, "run", "--quiet", "--", "true", binary="chrt")
            self.assertEqual(done.stderr, "")
        for lock in PASS_THROUGH:  # the program runs without the library
            done = self.usher("-f", "1", USHER, "run", "--lock", lock, "--", "true", binary="chrt")
            self.assertEqual(done.stderr, "")
        done = self.usher("-b", "0", USHER, "run", "--", "true", binary="chrt")
        self.assertEqual(done.stderr, "")


class RealLibrary(Usher):
    """Tests with the library itself: a program's mutexes are Usher's."""

    def setUp(self):
        if library != REAL_LIBRARY:
            self.skipTest("libusher.so is not built, or is built with a sanitizer")

    def program(self):
        return compile_c("counts", """\
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <pthread.h>
            #include <stdio.h>
            static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
            static long n;
            static void* add(void* unused) {
              for (int i = 0; i < 5000; ++i) { pthread_mutex_lock(&m); ++n; pthread_mutex_unlock(&m); }
              return unused;
            }
            int main(void) {
              pthread_t t[3];
              Dl_info lock, unlock;
              for (int i = 0; i < 3; ++i) pthread_create(&t[i], 0, add, 0);
              for (int i = 0; i < 3; ++i) pthread_join(t[i], 0);
              dladdr(dlsym(RTLD_DEFAULT, "pthread_mutex_lock"), &lock);
              dladdr(dlsym(RTLD_DEFAULT, "pthread_mutex_unlock"), &unlock);
              printf("%ld\\n%s\\n%s\\n", n, lock.dli_fname, unlock.dli_fname);
              return 0;
            }
            """, "-pthread", "-ldl")

    def test_a_program_counts_right_under_every_plain_lock(self):
        program = self.program()
        for lock in self.locks_for_programs():
            if not lock["plain"]:
                continue
            with self.subTest(lock=lock["name"]):
                done = self.usher("run", "--lock", lock["name"], "--", program)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done)
                preloaded = os.path.join(os.path.dirname(library), lock["library"])
                self.assertEqual(done.stdout.splitlines(), ["15000", preloaded, preloaded])

    def test_an_unknown_lock_set_by_hand(self):
        """Without the command, the library prints one line, and the program runs."""
        done = self.usher(binary=self.program(), env={"LD_PRELOAD": library, "USHER_LOCK": "tva"})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.splitlines()[0], "15000")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("twa", done.stderr)

    # USHER_VERBOSE

    def test_the_library_says_that_it_is_there(self):
        version = self.usher("--version").stdout.split()[1]
        for lock, said in (("twa", "lock twa for mutexes, condition variables, semaphores"), (None, "the C library's locks: USHER_LOCK is not set"),
                           ("pthread", "the C library's locks"), ("pthread-adaptive", "the C library's locks, as pthread-adaptive")):
            done = self.usher("-c", "echo $$", binary="/bin/sh", env={"LD_PRELOAD": library, "USHER_LOCK": lock, "USHER_VERBOSE": "1"})
            self.assertEqual(done.stderr, f"usher {version}: {said} (pid {done.stdout.strip()})\n")
        for lock, said in (("tva", "USHER_LOCK names no lock"), ("null", "USHER_LOCK names what is no lock"),
                           ("clh", "USHER_LOCK names a lock of libusher-all.so")):
            done = self.usher(binary="/bin/true", env={"LD_PRELOAD": library, "USHER_LOCK": lock, "USHER_VERBOSE": "1"})
            self.assertEqual(done.stderr.count("\n"), 2, done.stderr)  # the other line is the library's usual message about such a name
            self.assertRegex(done.stderr.splitlines()[1], rf"^usher {version}: the C library's locks: {said} \(pid [0-9]+\)$")
        for value in (None, "", "0"):
            done = self.usher("run", "--", "true", env={"USHER_VERBOSE": value})
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_each_program_says_so_and_no_fork_does(self):
        done = self.usher("run", "--", "sh", "-c", "(echo $(:) $(:)) > /dev/null; /bin/true; exec /bin/true", env={"USHER_VERBOSE": "1"})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(re.findall(r"(?m)^usher .*: lock steady for .* \(pid [0-9]+\)$", done.stderr)), 3, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 3)

    def test_nothing_is_said_with_other_rights(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a program to another user")
        if os.statvfs(scratch).f_flag & os.ST_NOSUID:
            self.skipTest("the scratch folder's file system ignores the bit")
        folder = tempfile.mkdtemp(dir=scratch)
        os.chmod(folder, 0o755)
        shutil.copy2(library, folder)  # the loader ignores preloads here: the program itself is linked with the library
        program = compile_c("linked", THREE, "-Wl,--no-as-needed", os.path.join(folder, "libusher.so"), f"-Wl,-rpath,{folder}")
        for mode, said in ((0o755, 1), (0o4755, 0)):
            os.chown(program, 65534, 65534)
            os.chmod(program, mode)
            done = self.usher(binary=program, env={"USHER_LOCK": "twa", "USHER_VERBOSE": "1"})
            self.assertEqual((done.returncode, done.stderr.count("lock twa")), (3, said), done)

    # usher status

    def running(self, *command, env=None):
        """Starts a program and waits until it runs: it is `cat`, or prints a line itself. It is ended with the test."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        environment.update({"USHER_LIBRARY": library}, **(env or {}))
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)

        def end():
            process.stdin.close()
            process.stdout.close()
            process.kill()
            process.wait(timeout=TIME_LIMIT)
        self.addCleanup(end)
        process.stdin.write("begun\n")
        process.stdin.flush()
        return process.pid, process.stdout.readline().strip()

    def assert_status(self, pid, status, *words, **more):
        done = self.usher("status", str(pid), **more)
        self.assertEqual((done.returncode, done.stderr, done.stdout.count("\n")), (status, "", 1), done)
        for word in words:
            self.assertIn(word, done.stdout)

    def test_status_of_a_process(self):
        version = self.usher("--version").stdout.split()[1]
        preloaded = {"LD_PRELOAD": library}
        usher, _ = self.running(USHER, "run", "--lock", "mcs-park", "--", "cat")
        self.assert_status(usher, 0, f"{usher} cat: on: lock mcs-park, Usher {version} ({full_library()})\n")
        plain, _ = self.running("cat")
        self.assert_status(plain, 1, f"{plain} cat: not on", "not loaded", "usher run")
        for env, word in ((preloaded, "USHER_LOCK is not set"), (dict(preloaded, USHER_LOCK="pthread"), "USHER_LOCK is pthread"),
                          (dict(preloaded, USHER_LOCK="tva"), "names no lock"),
                          (dict(preloaded, USHER_LOCK="clh"), "names a lock of libusher-all.so")):
            self.assert_status(self.running("cat", env=env)[0], 1, "not on: the locks are the C library's", word, f"Usher {version}")
        done = self.usher("status", str(usher), str(plain))
        self.assertEqual((done.returncode, done.stdout.count("\n")), (1, 2))
        self.assertEqual(self.usher("status", str(usher), str(usher)).returncode, 0)

    def test_status_prints_no_escape_sequences_of_the_process(self):
        program = os.path.join(tempfile.mkdtemp(dir=scratch), "a\033[1mb\u009bc")
        shutil.copy2(shutil.which("cat"), program)
        pid, _ = self.running(program)
        self.assert_status(pid, 1, f"{pid} a\\x1b[1mb\\u009bc: not on")
        done = self.usher("status", str(pid))
        self.assertTrue(done.stdout.rstrip("\n").isprintable(), done)
        # Error messages print names without escape sequences, too.
        if has_stat:
            self.assert_refused(self.usher("stat", "-p", str(pid)), 1, f"process {pid} (a\\x1b[1mb\\u009bc)")
        self.assert_refused(self.usher("list", "x\033[2J\ny"), 2, "'x\\x1b[2J\\x0ay'")

    def test_status_of_what_the_library_cannot_be_in(self):
        program = compile_c("waits-static", "#include <unistd.h>\nint main(void) { char c[10]; while (read(0, c, 10) > 0) write(1, \"x\\n\", 2); "
                            "return 0; }\n", "-static")
        self.assert_status(self.running(program)[0], 1, "not on: it is statically linked")
        dead = subprocess.Popen(["true"])
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        self.assert_status(dead.pid, 1, "has ended")
        dead.wait(timeout=TIME_LIMIT)
        self.assert_refused(self.usher("status", str(dead.pid)), 1, f"there is no process {dead.pid}")

    def test_status_when_the_library_is_replaced(self):
        copy = os.path.join(tempfile.mkdtemp(dir=scratch), "libusher.so")
        shutil.copy2(library, copy)
        pid, _ = self.running(USHER, "run", "--", "cat", env={"USHER_LIBRARY": copy})
        self.assert_status(pid, 0, f"({copy})\n")
        os.unlink(copy)
        self.assert_status(pid, 0, "lock steady", "deleted since")
        shutil.copy2(library, copy)
        self.assert_status(pid, 0, "lock steady", "replaced")

    def test_status_of_anothers_process(self):
        if os.geteuid() != 0:
            self.skipTest("needs another user")
        pid, _ = self.running(USHER, "run", "--", "cat")
        try:
            done = self.usher("status", str(pid), user=65534, cwd="/")
        except PermissionError:
            self.skipTest("another user cannot execute the command where it lies")
        self.assert_refused(done, 1, f"process {pid} (cat) may not be looked into", "user root's", "as root")

    @unittest.skipUnless(has_stat, "there is no usher_stat: USHER_BUILD_STAT=OFF")
    def test_status_while_stat_records(self):
        _, pid = self.running(USHER, "stat", "--lock", "twa", "-o", "/dev/null", "--", "sh", "-c", "read x; echo $$; read x")
        self.assert_status(pid, 0, "lock twa", "recorded by usher stat")


if __name__ == "__main__":
    unittest.main(verbosity=1)
