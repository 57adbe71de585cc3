#!/usr/bin/env python3
"""Reads the profiles that `usher stat` writes with independent readers: Python's gzip and protoc for pprof files. Files
of folded stacks are read line by line, by the grammar of the scripts that draw flame graphs.
"""

import argparse
import gzip
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from protobuf_text import decode

OPTIONS = None


class Profiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="usher-profile-") as folder:
            pprof, folded = Path(folder) / "pprof", Path(folder) / "folded"
            subprocess.run([OPTIONS.writer, pprof, folded], check=True, timeout=100)
            cls.folded = folded.read_text(encoding="utf-8")
            plain = gzip.decompress(pprof.read_bytes())
        cls.profile, cls.complaints, cls.has_unknown = decode(OPTIONS.protoc, "profile.proto", "Profile", plain)
        cls.strings = cls.profile["string_table"]

    def string(self, message, field):
        return self.strings[message.get(field, [0])[0]]

    def types(self, field):
        return [(self.string(t, "type"), self.string(t, "unit")) for t in self.profile[field]]

    def table(self, name):
        entries = {e["id"][0]: e for e in self.profile[name]}
        self.assertEqual(len(entries), len(self.profile[name]), f"{name}: a number is given twice")
        self.assertNotIn(0, entries)
        return entries

    def stacks(self):
        """Yields each sample as kind, object, values and locations. Locations are listed from the innermost: lists of
        (function, file, line), or an address."""
        locations, functions = self.table("location"), self.table("function")
        for sample in self.profile["sample"]:
            labels = {self.string(l, "key"): self.string(l, "str") for l in sample["label"]}
            stack = []
            for number in sample["location_id"]:
                location = locations[number]
                stack.append([(self.string(functions[l["function_id"][0]], "name"),
                               self.string(functions[l["function_id"][0]], "filename"), l.get("line", [0])[0])
                              for l in location.get("line", [])] or location["address"][0])
            yield labels["kind"], labels["object"], sample["value"], stack

    def test_has_no_unknown_fields_and_is_utf8(self):
        self.assertEqual(self.complaints, "")
        self.assertFalse(self.has_unknown, "a field that the schema does not have")

    def test_types(self):
        self.assertEqual(self.strings[0], "")
        self.assertEqual(len(set(self.strings)), len(self.strings))
        self.assertEqual(self.types("sample_type"), [("contentions", "count"), ("delay", "nanoseconds")])
        self.assertEqual(self.types("period_type"), [("contentions", "count")])
        self.assertEqual(self.profile["period"], [1])
        self.assertEqual(self.string(self.profile, "default_sample_type"), "delay")
        self.assertEqual(self.profile["duration_nanos"], [2_000_000_000])
        self.assertEqual(self.string(self.profile, "comment"), "server --port 80")

    def test_samples(self):
        main = [("main", "/src/server.cpp", 7)]
        hot = ("mutex", "cache_lock", [7, 1_500_000_000],
               [[("std::mutex::lock()", "/usr/include/mutex", 100), ("worker(int, char)", "/src/server.cpp", 42)], main])
        self.assertEqual(list(self.stacks()), [
            ("mutex", "cache_lock", [2, 250_000_000], [0x7f0000001234, 0x7e0000000010, main, [("[truncated]", "", 0)]]),
            hot,
            hot,
            ("condition", "server.cpp:9 a;b\nc ?", [1, 2000], [[("a;b\nc", "", 0)], main]),
            ("semaphore", "credits", [3, 1_000_000], [[("[unknown]", "", 0)]]),
            ("rwlock", "table_lock", [4, 500_000_000], [[("worker(int, char)", "/src/server.cpp", 42)], main]),
        ])

    def test_mappings(self):
        mappings = self.table("mapping")
        of_file = {self.string(m, "filename"): m for m in mappings.values()}
        self.assertEqual(set(of_file), {"/opt/server", "/opt/libcache.so"})
        self.assertEqual(self.string(self.profile["mapping"][0], "filename"), "/opt/server", "the executable comes first")
        server, cache = of_file["/opt/server"], of_file["/opt/libcache.so"]
        self.assertEqual((server["memory_start"], server["has_functions"], server["has_line_numbers"]), ([0x400000], [1], [1]))
        self.assertEqual(cache["memory_start"], [0x7f0000000000])
        self.assertNotIn("has_functions", cache)  # the field is false
        for location in self.profile["location"]:
            if "mapping_id" in location:
                mapping = mappings[location["mapping_id"][0]]
                self.assertLessEqual(mapping["memory_start"][0], location["address"][0])
                self.assertLess(location["address"][0], mapping["memory_limit"][0])

    def test_folded(self):
        self.assertTrue(self.folded.endswith("\n"))
        found = {}
        for line in self.folded.splitlines():
            match = re.fullmatch(r"([^;]+(?:;[^;]+)*) (\d+)", line)
            self.assertIsNotNone(match, line)
            self.assertNotIn(match[1], found, "a stack is there twice")
            found[match[1]] = int(match[2])
        self.assertEqual(found, {
            "main;worker(int, char);std::mutex::lock();cache_lock": 3_000_000,
            "[truncated];main;0x7e0000000010;libcache.so+0x1234;cache_lock": 250_000,
            "main;a:b c;server.cpp:9 a:b c ?": 2,
            "[unknown];credits": 1000,
            "main;worker(int, char);table_lock": 500_000,
        })


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writer", required=True)
    parser.add_argument("--protoc", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
