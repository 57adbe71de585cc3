#!/usr/bin/env python3
"""libusher-stat.so must record read-write locks, spin locks, barriers, joins and C11's objects with exact counts, and change no result.
The programs' own figures are compared with the record (dump_record.cpp). The program is programs/others.cpp.

USHER_BIN is the command, USHER_LIB the library, USHER_PROGRAMS the folder of the programs."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

LIBRARY = pathlib.Path(os.environ["USHER_LIB"])
COMPANION = LIBRARY.with_name("libusher-stat.so")
PROGRAMS = pathlib.Path(os.environ["USHER_PROGRAMS"])
PROGRAM = str(PROGRAMS / "others")
UNSEEN = "ead-write locks, spin locks"
IS_SUM = 4  # record::is_sum
JOINING = re.compile(r"join_at_\w+?line|cancelled_join|c11")


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
    return {**kept, **more}


def output_of(command, limit=300, **more):
    done = subprocess.run(command, env=environment(**more), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def recorded(scenario, lock="pthread"):
    """Runs a scenario under a recording. Returns the lines that the program prints, and the objects in its record."""
    lines = output_of([str(PROGRAMS / "dump_record"), f"{LIBRARY}:{COMPANION}", lock, PROGRAM, scenario]).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith('{"processes"'))
    entries = [json.loads(line) for line in lines[head:]]
    return lines[:head], entries


def function_of(address):
    """Returns the name of the program's function that contains a return address of a call chain, such as others+0x1234.
    """
    offset = int(address.split("+")[1], 16) - 1
    return subprocess.run(["addr2line", "-f", "-e", PROGRAM, hex(offset)], capture_output=True, text=True, check=True, timeout=300).stdout


class Others(unittest.TestCase):
    maxDiff = None

    def check_object(self, expected, objects):
        found = [o for o in objects if o["kind"] == expected["kind"] and
                 (o["flags"] & IS_SUM if expected.get("sum") else o["address"] == expected["address"]) and
                 o["process"] == expected.get("process", o["process"])]
        self.assertEqual(len(found), 1, (expected, objects))
        (o,) = found
        exact = {k: v for k, v in expected.items() if k not in ("address", "sum", "only", "at_least")}
        self.assertEqual({k: o.get(k) for k in exact}, exact)
        for key, least in expected.get("at_least", {}).items():
            self.assertGreaterEqual(o[key], least, o)
        if "only" in expected:
            behind = {k: v for k, v in o.items() if k.startswith("behind_")}
            self.assertEqual(sorted(k for k, v in behind.items() if v != 0), sorted(expected["only"]), o)
            self.assertAlmostEqual(sum(behind.values()) * 1e-9, o["waited"], 6)
            self.assertAlmostEqual(sum(v for k, v in behind.items() if k.endswith("_to_read")) * 1e-9, o["waited_to_read"], 6)
            self.assertLessEqual(o["longest_read_wait"] * 1e-9, o["longest"] + 1e-9)

    def check_joins(self, expected, objects):
        """Adds up the joins of each function of the program, since a function may join at several lines, and compares
        the sums."""
        seen = {}
        for o in objects:
            if o["kind"] != "join":
                continue
            self.assertFalse(o["waiting"] or o["flags"], o)
            names = [function_of(pc) for pc in o["place"] if pc.startswith("others+")]
            name = next((m[0] for n in names if (m := JOINING.search(n))), None)
            before = seen.get(name, (0, 0))
            seen[name] = (before[0] + o["acquisitions"], before[1] + o["contended"])
        for name, acquisitions, contended in expected:
            self.assertEqual(seen[name][0], acquisitions, seen)
            if contended is not None:
                self.assertEqual(seen[name][1], contended, seen)

    def check_scenario(self, scenario, lock="pthread"):
        lines, entries = recorded(scenario, lock)
        self.assertEqual(entries[0]["dropped"], [0] * 7)
        objects = [e for e in entries if "kind" in e]
        for entry in entries:
            for pc in entry.get("place", []) + entry.get("chain", []):
                self.assertNotIn("libusher", pc, entry)
        for line in lines:
            expected = json.loads(line)
            if "joins" in expected:
                self.check_joins(expected["joins"], objects)
            else:
                self.check_object(expected, objects)
        return entries

    def test_read_write_locks(self):
        self.check_scenario("rwlocks")
        self.check_scenario("readers_and_writers")

    def test_spin_locks(self):
        entries = self.check_scenario("spins")
        (o,) = (e for e in entries if e.get("kind") == "spin" and not e["flags"] & IS_SUM)
        self.assertGreater(o["held"], 10 * 0.003)
        charged = {e["charge"]: e["ticks"] for e in entries if e.get("charge") and any("others" in pc for pc in e["chain"][:1])}
        self.assertGreater(charged["holder"], 10 * 1e6)

    def test_barriers(self):
        self.check_scenario("barriers")

    def test_joins(self):
        self.check_scenario("joins")
        self.check_scenario("cancelled_join")

    def test_forks(self):
        self.check_scenario("forked")

    def test_an_address_of_another_kind(self):
        self.check_scenario("another_kind")

    def test_c11(self):
        for lock in ("pthread", "steady"):
            with self.subTest(lock=lock):
                self.check_scenario("c11", lock)

    def test_results_are_the_c_librarys(self):
        reference = output_of([PROGRAM, "results"]).splitlines()
        self.assertGreater(len(reference), 100)
        for lock in ("pthread", "steady"):
            with self.subTest(lock=lock):
                self.assertEqual(recorded("results", lock)[0], reference)
                unrecorded = output_of([PROGRAM, "results"], LD_PRELOAD=f"{LIBRARY}:{COMPANION}", USHER_LOCK=lock)
                self.assertEqual(unrecorded.splitlines(), reference)
        # libusher.so and libusher-stat.so each work without the other.
        self.assertEqual(output_of([PROGRAM, "results"], LD_PRELOAD=str(COMPANION)).splitlines(), reference)

    def test_unrecorded(self):
        for scenario in ("readers_and_writers", "joins", "cancelled_join", "forked", "c11", "another_kind"):
            for preload in (f"{LIBRARY}:{COMPANION}", str(COMPANION)):
                with self.subTest(scenario=scenario, preload=preload):
                    output_of([PROGRAM, scenario], LD_PRELOAD=preload, USHER_LOCK="steady")

    def stat(self, *words, limit=300, **more):
        env = environment(USHER_LIBRARY=str(LIBRARY), **more)
        return subprocess.run([os.environ["USHER_BIN"], "stat", *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=limit)

    def test_without_the_companion(self):
        with tempfile.TemporaryDirectory(prefix="usher-stat-") as folder:
            shutil.copy(LIBRARY, folder)
            env = environment(USHER_LIBRARY=os.path.join(folder, "libusher.so"))
            done = subprocess.run([os.environ["USHER_BIN"], "stat", "--", PROGRAM, "c11"], env=env, capture_output=True, text=True,
                                  timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(UNSEEN, " ".join(done.stderr.split()))
            # LD_PRELOAD may name another copy of libusher-stat.so. `usher stat` removes that copy, so that no process
            # loads two.
            shutil.copy(COMPANION, folder)
        done = self.stat("--", "sh", "-c", 'echo "$LD_PRELOAD"', LD_PRELOAD=os.path.join(folder, "libusher-stat.so"))
        self.assertEqual(done.stdout.strip(), f"{LIBRARY}:{COMPANION}", done.stderr)

    def test_the_companion_is_loaded(self):
        done = self.stat("--", PROGRAM, "c11")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(UNSEEN, " ".join(done.stderr.split()))
        # Under `usher stat`, `usher run` keeps libusher-stat.so in LD_PRELOAD; otherwise it does not load that library.
        run = [os.environ["USHER_BIN"], "run", "--lock", "steady", "--", "sh", "-c", 'echo "$LD_PRELOAD"']
        self.assertEqual(self.stat("--", *run).stdout.strip(), f"{LIBRARY}:{COMPANION}")
        self.assertEqual(output_of(run, USHER_LIBRARY=str(LIBRARY)).strip(), str(LIBRARY))

    def test_a_running_process(self):
        for preload, is_seen in ((str(LIBRARY), False), (f"{LIBRARY}:{COMPANION}", True)):
            with self.subTest(preload=preload):
                program = subprocess.Popen([PROGRAM, "runs"], env=environment(LD_PRELOAD=preload, USHER_LOCK="pthread"),
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                try:
                    self.assertEqual(program.stdout.readline(), "ready\n")
                    done = self.stat("-p", str(program.pid), "--duration", "0.5")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(UNSEEN not in " ".join(done.stdout.split()), is_seen, done.stdout)
                finally:
                    program.communicate("", timeout=150)
                self.assertEqual(program.returncode, 0)


if __name__ == "__main__":
    unittest.main()
