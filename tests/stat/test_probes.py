#!/usr/bin/env python3
"""Tests the probes of libusher.so. The names and numbers of arguments in its ELF notes must be those of docs/stat.md. In a
program that makes one wait of each kind, gdb reads the arguments, without help from the kernel. They must have the
meaning that the table in docs/stat.md gives.

  test_probes.py --library libusher.so --usher usher --program stat_probed --doc docs/stat.md
"""

import argparse
import errno
import os
import re
import shutil
import subprocess
import sys
import unittest

LIMIT = 250
OPTIONS = None


def run(words, env=None):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=LIMIT, env=env)


def in_library():
    """Returns {name of a probe: set of its numbers of arguments} from the library's ELF notes. A probe in a template
    has several notes."""
    notes = run(["readelf", "--notes", "--wide", OPTIONS.library]).stdout
    found = {}
    for name, arguments in re.findall(r"Provider: usher\s+Name: (\w+)\s+Location: .*\s+Arguments: ?(.*)", notes):
        # The regular expression counts the arguments of a note, which have forms like -4@%eax, 8@16(%rsp), 8@%rdi. On
        # AArch64 brackets contain spaces.
        found.setdefault(name, set()).add(len(re.findall(r"(?:^|\s)-?\d+f?@", arguments)))
    return found


def in_doc():
    """Returns {name of a probe: names of its arguments} from the table in docs/stat.md."""
    with open(OPTIONS.doc, encoding="utf-8") as doc:
        text = doc.read()
    section = re.split(r"^## ", text.split("\n## Probes\n")[1], flags=re.M)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.M)
    return {name: re.findall(r"`(\w+)`", arguments) for name, arguments in rows}


# The script that gdb runs: it prints one line at each probe and continues.
SCRIPT = """
import gdb
for line in ("pagination off", "confirm off", "debuginfod enabled off", "print thread-events off",
             "breakpoint pending on", "startup-with-shell off"):
    gdb.execute("set " + line, to_string=True)

class Probe(gdb.Breakpoint):
    def __init__(self, name, arguments):
        super().__init__("-probe-stap usher:" + name)
        self.name, self.arguments = name, arguments
    def stop(self):
        values = [int(gdb.parse_and_eval(f"$_probe_arg{i}")) for i in range(self.arguments)]
        caller = ""
        if self.name == "wait_begin":
            caller = gdb.execute(f"info symbol {values[2]}", to_string=True).split(" + ")[0]
        print("PROBE", gdb.selected_thread().ptid[1], self.name, *values, caller)
        return False

gdb.execute("start", to_string=True)
for name, arguments in PROBES.items():
    Probe(name, arguments)
gdb.execute("continue", to_string=False)
"""


class Probes(unittest.TestCase):
    def setUp(self):
        self.notes = in_library()
        if not self.notes:
            self.skipTest("libusher.so was built without sys/sdt.h (systemtap-sdt-dev), and has no probes")

    def test_the_table_is_what_the_library_has(self):
        self.assertEqual({name: {len(arguments)} for name, arguments in in_doc().items()}, self.notes)

    def test_the_arguments_are_what_the_table_says(self):
        gdb = shutil.which("gdb")
        if not gdb:
            self.skipTest("there is no gdb: install the package gdb")
        numbers = {name: len(arguments) for name, arguments in in_doc().items()}
        env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
        env["USHER_LIBRARY"] = OPTIONS.library
        # The probes wait_begin and wait_end exist only in recorded programs. So the test runs gdb, which runs the
        # program, under `usher stat`, which records gdb, too.
        done = run([OPTIONS.usher, "stat", "--lock", "loiter", "--", gdb, "-batch", "-nx",
                    "-ex", "python exec(%r)" % f"PROBES = {numbers}\n{SCRIPT}", OPTIONS.program], env)
        all_text = done.stdout + done.stderr
        if "ptrace" in all_text and "not permitted" in all_text:
            self.skipTest("gdb may not trace here")
        self.assertIn("exited normally", all_text)
        at = {name: int(value, 16) for name, value in re.findall(r"^(mutex|condition|semaphore) (0x\w+)$", all_text, re.M)}
        seen = [line.split()[1:] for line in all_text.splitlines() if line.startswith("PROBE ")]
        hits = [(int(thread), name, [int(word) for word in rest[:numbers[name]]], " ".join(rest[numbers[name]:]))
                for thread, name, *rest in seen]

        def of(wanted):
            return [arguments for _, name, arguments, _ in hits if name == wanted]
        mutex, condition, semaphore = at["mutex"], at["condition"], at["semaphore"]
        self.assertEqual(set(numbers), {name for _, name, _, _ in hits}, all_text)  # each probe was hit
        self.assertEqual(of("cond_wait_begin"), [[condition, mutex]] * len(of("cond_wait_begin")))
        self.assertEqual([one[2] for one in of("cond_wait_end")], [0, 1, 1])  # a timeout, a signal, a broadcast
        self.assertEqual({tuple(one[:2]) for one in of("cond_wait_end")}, {(condition, mutex)})
        self.assertEqual((of("cond_signal"), of("cond_broadcast")), ([[condition]], [[condition]]))
        self.assertEqual(of("sem_wait_begin"), [[semaphore]] * 2)
        self.assertEqual(of("sem_wait_end"), [[semaphore, errno.ETIMEDOUT], [semaphore, 0]])
        begun = {tuple(one[:2]) for one in of("wait_begin")}
        joins = {one for one in begun if one[0] == 7}
        self.assertEqual(begun - joins, {(1, mutex), (2, condition), (3, semaphore)})
        self.assertEqual({tuple(one[:2]) for one in of("wait_end")}, begun)
        self.assertTrue(all(one[2] > 0 for one in of("wait_end")), of("wait_end"))
        callers = {caller for _, name, arguments, caller in hits if name == "wait_begin" and arguments[0] == 1}
        self.assertTrue(any("wait_for_all" in one for one in callers), callers)
        # A thread sleeps on a word, and another thread sends a wake-up to the same word.
        slept = {(thread, arguments[0]) for thread, name, arguments, _ in hits if name == "sleep"}
        woken = [(thread, *arguments) for thread, name, arguments, _ in hits if name == "wake"]
        self.assertTrue(any(word == theirs and thread != other and most >= 1 for thread, word, most in woken
                            for other, theirs in slept), (slept, woken))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("library", "usher", "program", "doc"):
        parser.add_argument(f"--{option}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest, verbosity=2)
