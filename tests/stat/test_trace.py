#!/usr/bin/env python3
"""Reads the traces for Perfetto and the profiles for OpenTelemetry that are written from made-up data, with protoc and schemas of this
folder. A test plays Perfetto's module android.lock_contention; others are of programs that forge names, times and indices.
"""

import argparse
import gzip
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from protobuf_text import Trace, decode

OPTIONS = None


def setUpModule():
    global OTLP, PPROF, PLANTED, FORGED, RECORD, SECONDS
    with tempfile.TemporaryDirectory(prefix="usher-trace-") as folder:
        files = [Path(folder) / name for name in ("otlp", "planted", "forged", "record", "seconds", "pprof", "folded")]
        subprocess.run([OPTIONS.writer, "--traces", *files[:5]], check=True, timeout=100)
        subprocess.run([OPTIONS.writer, *files[5:]], check=True, timeout=100)
        OTLP = decode(OPTIONS.protoc, "otlp.proto", "ProfilesData", files[0].read_bytes())
        PPROF = decode(OPTIONS.protoc, "profile.proto", "Profile", gzip.decompress(files[5].read_bytes()))[0]
        PLANTED, FORGED, RECORD = (Trace(OPTIONS.protoc, f.read_bytes()) for f in files[1:4])
        SECONDS = float(files[4].read_text())


def by_lock_contention(trace):
    """What Perfetto's module android.lock_contention makes of a trace: (thread, owner) of slices by their names."""
    return [(thread, int(name.split("(owner tid: ")[1].split(")")[0])) for thread, name, _, _ in trace.slices()
            if name.startswith("Lock contention") and "(owner tid: " in name]


class Traces(unittest.TestCase):
    def test_has_no_unknown_fields(self):
        for trace in (PLANTED, FORGED, RECORD):
            self.assertEqual(trace.complaints, "")
            self.assertFalse(trace.has_unknown)

    def test_sequence_and_clocks(self):
        for trace in (PLANTED, FORGED, RECORD):
            self.assertEqual({tuple(p["trusted_packet_sequence_id"]) for p in trace.packets}, {(1,)})
            first = next(i for i, p in enumerate(trace.packets) if p.get("sequence_flags") == [1])
            self.assertEqual(trace.packets[first]["trace_packet_defaults"], [{"timestamp_clock_id": [3]}])
            for p in trace.packets[first + 1:]:
                self.assertEqual("track_event" in p, p.get("sequence_flags") == [2])
        self.assertEqual(PLANTED.packets[0]["clock_snapshot"][0]["clocks"], [
            {"clock_id": [3], "timestamp": [9000]}, {"clock_id": [6], "timestamp": [19000]},
            {"clock_id": [1], "timestamp": [1_000_000_009_000]}])

    def test_slices(self):
        contention = "Lock contention on cache_lock (owner tid: {})"
        self.assertEqual(PLANTED.slices(), [
            (101, contention.format(100), 1000, 2000),
            (101, "Wait for condition filled", 3000, 6000),
            (101, contention.format(100), 5000, 6000),
            (100, contention.format(101), 6500, 6600),
            (101, contention.format(100), 7000, None),
        ])
        self.assertEqual(by_lock_contention(PLANTED), [(101, 100), (101, 100), (100, 101), (101, 100)])

    def test_annotations(self):
        notes = [(at, a["name"][0], a.get("string_value", a.get("bool_value"))[0]) for at, _, _, _, e in PLANTED.events
                 for a in e.get("debug_annotations", [])]
        self.assertEqual(notes, [(1000, "at", "f server.cpp:7"), (1990, "lock", "cache_lock"), (2000, "lock", "cache_lock"),
                                 (6600, "timed out", 1)])

    def test_flows(self):
        self.assertEqual(list(PLANTED.flows().values()), [[(100, "unlock", 1990), (101, "locked", 2000)]])

    def test_counters(self):
        self.assertEqual(PLANTED.counters(), {
            "waiters: cache_lock": [(1000, 1), (2000, 0), (5000, 1), (6000, 0), (6500, 1), (6600, 0), (7000, 1)],
            "waiters: filled": [(3000, 1), (6000, 0)]})

    def test_tracks(self):
        processes = [t["process"][0] for t in PLANTED.tracks.values() if "process" in t]
        threads = [t["thread"][0] for t in PLANTED.tracks.values() if "thread" in t]
        self.assertEqual(processes, [{"pid": [100], "process_name": ["server"]}])
        self.assertEqual(threads, [{"pid": [100], "tid": [100], "thread_name": ["server"]},
                                   {"pid": [100], "tid": [101], "thread_name": ["worker"]}])
        self.assertIn("recorded by usher", [t.get("name", [None])[0] for t in PLANTED.tracks.values()])

    def test_a_forged_timeline(self):
        slices = FORGED.slices()  # raises an error if they are not nested
        self.assertEqual({thread for thread, *_ in slices}, {100, 101})
        self.assertTrue(all(len(name) < 300 and name.isprintable() for _, name, _, _ in slices))
        self.assertTrue(all(name.count("(owner tid: ") <= 1 for _, name, _, _ in slices))
        self.assertTrue(all(track in FORGED.tracks for _, _, track, _, _ in FORGED.events))
        for begin, end in FORGED.flows().values():
            self.assertTrue(begin is not None and end is not None and begin[2] <= end[2])
        for values in FORGED.counters().values():
            self.assertTrue(all(value >= 0 for _, value in values))
        times = [at for at, _, track, _, _ in FORGED.events if "thread" in FORGED.tracks[track]]
        self.assertEqual(times, sorted(times))

    def test_a_full_table_of_a_record(self):
        name = "Lock contention on log_mutex (owner tid: 100)"
        self.assertEqual(RECORD.slices(), [(101, name, 3300, 4100), (101, name, 5000, 5500), (101, name, 6000, None)])
        self.assertEqual(list(RECORD.flows().values()), [[(100, "unlock", 4050), (101, "locked", 4100)]])
        self.assertAlmostEqual(SECONDS, 4e-6)  # since chunk 4 was taken, at 4000, to 8000


class OpenTelemetry(unittest.TestCase):
    def setUp(self):
        self.data = OTLP[0]
        self.tables = self.data["dictionary"][0]
        self.strings = self.tables["string_table"]
        self.scope = self.data["resource_profiles"][0]["scope_profiles"][0]

    def string(self, message, field):
        return self.strings[message.get(field, [0])[0]]

    def attribute(self, number):
        one = self.tables["attribute_table"][number]
        return self.string(one, "key_strindex"), one["value"][0].get("string_value", [""])[0]

    def stack(self, number):
        found = []
        for place in self.tables["stack_table"][number]["location_indices"]:
            location = self.tables["location_table"][place]
            self.assertEqual([self.attribute(a) for a in location["attribute_indices"]], [("profile.frame.type", "native")])
            functions = self.tables["function_table"]
            found.append(tuple((self.string(functions[l["function_index"][0]], "name_strindex"),
                                self.string(functions[l["function_index"][0]], "filename_strindex"), l.get("line", [0])[0])
                               for l in location.get("lines", [])) or location["address"][0])
        return tuple(found)

    def samples(self, profile):
        return {(*[value for _, value in map(self.attribute, s["attribute_indices"])], self.stack(s["stack_index"][0])):
                s["values"][0] for s in profile["samples"]}

    def test_has_no_unknown_fields(self):
        self.assertEqual(OTLP[1:], ("", False))

    def test_tables_begin_with_an_empty_entry(self):
        for table in ("mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table"):
            self.assertEqual(self.tables[table][0], {}, table)
        self.assertEqual(self.strings[0], "")
        self.assertEqual(len(set(self.strings)), len(self.strings))

    def test_types_and_times(self):
        types = [tuple(self.string(p["sample_type"][0], f"{f}_strindex") for f in ("type", "unit")) for p in self.scope["profiles"]]
        self.assertEqual(types, [("delay", "nanoseconds"), ("contentions", "count")])
        for p in self.scope["profiles"]:
            self.assertEqual((p["time_unix_nano"], p["duration_nano"]), ([1_700_000_000_000_000_000], [2_000_000_000]))

    def test_values_are_those_of_pprof(self):
        """A sample of pprof's with the same stack and object as another one is one sample here."""
        strings = PPROF["string_table"]
        places = {place["id"][0]: place for place in PPROF["location"]}
        functions = {f["id"][0]: f for f in PPROF["function"]}
        expected = {}
        for s in PPROF["sample"]:
            labels = [strings[label["str"][0]] for label in s["label"]]
            stack = tuple(tuple((strings[functions[l["function_id"][0]]["name"][0]],
                                 strings[functions[l["function_id"][0]].get("filename", [0])[0]], l.get("line", [0])[0])
                                for l in places[at].get("line", [])) or places[at]["address"][0] for at in s["location_id"])
            sums = expected.setdefault((*labels, stack), [0, 0])
            for i in range(2):
                sums[i] += s["value"][i]
        delay, contentions = (self.samples(p) for p in self.scope["profiles"])
        self.assertEqual({key: [contentions[key], delay[key]] for key in delay}, expected)
        self.assertEqual(set(delay), set(contentions))

    def test_resource(self):
        attributes = self.data["resource_profiles"][0]["resource"][0]["attributes"]
        self.assertEqual([(a["key"][0], a["value"][0]["string_value"][0]) for a in attributes],
                         [("process.executable.name", "server")])
        self.assertEqual(self.scope["scope"][0]["name"], ["usher stat"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writer", required=True)
    parser.add_argument("--protoc", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
