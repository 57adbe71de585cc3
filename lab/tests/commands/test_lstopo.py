#!/usr/bin/env python3
"""Tests `usher sim --machine-from-lstopo` on files that lstopo wrote (lstopo/*.xml), and on files of an attacker. USHER_BIN is the
command.

The files are from hwloc 2.9.0, without lines that name the computer: `lstopo --of xml --no-io` in a virtual machine (virtual.xml), and with
--input "pack:2 [numa] [numa] l3:2 core:3 pu:2" (complexes.xml), "pack:1 [numa] l3:1 core:4 pu:2" --restrict 0x5f (uneven.xml),
"pack:4 [numa] l3:1 core:2 pu:1" and distances of hwloc-annotate (four-sockets.xml), and
--export-xml-flags 1 "pack:2 [numa] l3:1 l2:4 core:1 pu:2" (format-1.xml)."""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TREE / "tests" / "cli"))
from refusals import EVIL, Refusals

USHER = os.environ["USHER_BIN"]
LIMIT = 300
FILES = str(TREE / "tests" / "fuzz" / "corpus" / "lstopo")


def sim(*arguments):
    """Runs usher sim; if it only writes a machine file, with at most 512 MiB of memory."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))) if arguments[0] == "--machine-from-lstopo" else None
    return subprocess.run([USHER, "sim", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                          preexec_fn=limit)


def lock():
    done = subprocess.run([USHER, "list", "--json"], capture_output=True, text=True, timeout=LIMIT, check=True)
    return re.findall(r'"name": "([^"]*-spin)"', done.stdout)[0]


def packages(count, inside='<object type="Core"><object type="PU"/></object>', after=""):
    return f'<topology version="2.0">{f"""<object type="Package">{inside}</object>""" * count}{after}</topology>'


class Lstopo(Refusals, unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="usher-lstopo-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def xml(self, text, name="made.xml"):
        file = os.path.join(self.folder, name)
        with open(file, "w", encoding="utf-8") as to:
            to.write(text)
        return file

    def machine(self, file, *options, warnings=()):
        """Returns {key: (value, source)} of the machine file, after a run on the machine."""
        done = sim("--machine-from-lstopo", file, *options)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(done.stderr.count("\n"), len(warnings), done.stderr)
        for words in warnings:
            self.assertIn(words, done.stderr)
            self.assertIn("# Approximation: ", done.stdout)
            self.assertIn(words, done.stdout)
        self.assert_harmless(done.stdout + done.stderr)
        made = os.path.join(self.folder, "made.toml")
        with open(made, "w") as to:
            to.write(done.stdout)
        run = sim("mutexbench", "--machine", made, "--locks", lock(), "--threads", "2", "--seeds", "1", "--ms", "0.02", "--quiet", "--json",
                  os.path.join(self.folder, "out.json"))
        self.assertEqual(run.returncode, 0, run)
        with open(os.path.join(self.folder, "out.json")) as file:
            self.assertGreater(json.load(file)["points"][0]["throughput"], 0)
        values = {}
        for line in done.stdout.splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif found := re.fullmatch(r'(\w+) = { value = (.*), source = "(.*)" }', line):
                values[f"{section}.{found[1]}"] = (json.loads(found[2]), found[3])
            elif found := re.fullmatch(r'title = "(.*)"', line):
                self.title = found[1]
            else:
                self.assertRegex(line, "^(#.*)?$")
        for key, (_, source) in values.items():
            self.assertRegex(source, r"^(assumed|hwloc's XML )", key)
        return values

    def topology(self, machine):
        keys = ("sockets", "complexes", "nodes", "cores", "hardware_threads")
        return tuple(machine[f"machine.{key}"][0] for key in keys)

    # Files of lstopo

    def test_a_virtual_machine(self):
        made = self.machine(os.path.join(FILES, "virtual.xml"))
        self.assertEqual(self.topology(made), (1, 1, 1, 2, 1))
        self.assertIn("AMD EPYC", self.title)
        self.assertEqual(made["coherence.protocol"], ("MOESI", "assumed: as epyc-7003"))
        self.assertEqual([made[f"cache.{k}"][0] for k in ("bytes", "ways", "line", "private_bytes", "private_ways")],
                         [32 << 20, 16, 64, 1 << 20, 8])
        self.assertEqual(made["cache.bytes"][1], "hwloc's XML virtual.xml: the last-level cache")
        self.assertTrue(made["cache.miss"][1].startswith("assumed: as epyc-zen4-vm-2"))  # the AMD machine with that section
        self.assertNotIn("hardware_threads.pipelines", made)

    def test_complexes(self):
        made = self.machine(os.path.join(FILES, "complexes.xml"))
        self.assertEqual(self.topology(made), (2, 2, 1, 6, 2))
        self.assertEqual({len(made[f"coherence.{key}"][0]) for key in ("clean", "dirty", "invalidate", "memory")}, {3})
        self.assertIn("assumed", made["cache.ways"][1])  # hwloc's synthetic caches have none
        self.assertEqual(made["hardware_threads.pipelines"][0], 1)

    def test_format_1(self):
        self.assertEqual(self.topology(self.machine(os.path.join(FILES, "format-1.xml"))), (2, 1, 1, 4, 2))

    def test_distances_are_ranked(self):
        made = self.machine(os.path.join(FILES, "four-sockets.xml"))
        self.assertEqual(self.topology(made), (4, 1, 1, 2, 1))
        self.assertEqual(made["machine.hops"][0], [[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]])
        self.assertIn("21, 31", made["machine.hops"][1])
        self.assertEqual(len(made["coherence.dirty"][0]), 3)
        x5_2 = self.machine(os.path.join(FILES, "four-sockets.xml"), "--like", "x5-2")
        self.assertEqual(x5_2["coherence.dirty"], ([103, 310, 310], "assumed: as x5-2; farther than its 1 hop: as much"))
        self.assertEqual(x5_2["machine.mhz"], (2800, "assumed: as x5-2"))

    def test_what_the_simulator_cannot_express(self):
        self.assert_refused(sim("--machine-from-lstopo", os.path.join(FILES, "uneven.xml")), 2, "uneven.xml",
                            "cores have 1 to 2 hardware threads", "--restrict")

    # Made files

    def test_a_file_with_nothing_but_a_thread(self):
        made = self.machine(self.xml('<topology><object type="PU"/></topology>'))
        self.assertEqual(self.topology(made), (1, 1, 1, 1, 1))
        for key in ("sockets", "complexes", "nodes"):
            self.assertTrue(made[f"machine.{key}"][1].startswith("assumed"), made)
        self.assertNotIn("cache.bytes", made)

    def test_numa_nodes_beside_their_cpus(self):
        """Format 2.x attaches a node to an object above the CPUs, perhaps behind a cache of the memory; memory may have no CPUs."""
        memory = '<object type="MemCache"><object type="NUMANode" os_index="0"/></object><object type="NUMANode" os_index="1"/>'
        group = f'<object type="Group">{memory}<object type="Core"><object type="PU"/></object></object>'
        for inside, nodes in ((memory + '<object type="PU"/>', 1), (group * 2, 2)):
            made = self.machine(self.xml(packages(2, inside, '<object type="NUMANode" os_index="9"/>')))
            self.assertEqual(made["machine.nodes"], (nodes, "hwloc's XML made.xml: NUMA nodes of a package"))

    def test_the_clock(self):
        kind = '<cpukind cpuset="0x1"><info name="FrequencyMaxMHz" value="{}"/><info name="FrequencyBaseMHz" value="{}"/></cpukind>'
        made = self.machine(self.xml(packages(2, after=kind.format(4000, 1400))), "--like", "x5-2")
        self.assertEqual(made["machine.mhz"], (1400, "hwloc's XML made.xml: FrequencyBaseMHz"))
        # At half the clock a time has half the cycles; what happens in a core or complex has as many.
        self.assertEqual(made["scheduler.slice"], (4200000, "assumed: as x5-2, the same time"))
        self.assertEqual(made["coherence.memory"], ([110, 165], "assumed: as x5-2, the same times"))
        self.assertEqual(made["coherence.dirty"], ([103, 155], "assumed: as x5-2, the same times beyond the complex"))
        self.assertEqual(made["coherence.hit"], (4, "assumed: as x5-2"))
        # Texts and numbers are no times.
        self.assertEqual(made["coherence.home_waits_for"], ("nothing", "assumed: as x5-2"))
        few = self.machine(self.xml(packages(1, '<object type="PU"/><object type="PU"/>', kind.format(4000, 1200))), "--like", "t5")
        self.assertEqual(few["scheduler.tick_cpus"], (2, "assumed: as t5, but at most one for each CPU"))
        self.machine(self.xml(packages(1, after=kind.format(4000, 2000) + kind.format(4000, 1000))),
                     warnings=["2 kinds of CPUs: here all cores are equal, with 2000 MHz"])

    def test_approximations(self):
        memory = '<object type="NUMANode" os_index="0"/>'
        spans = f'<topology><object type="Machine">{memory}{packages(2)[24:-11]}</object></topology>'
        self.machine(self.xml(spans), warnings=["a NUMA node has the CPUs of several packages"])
        latencies = "".join(f"<latency value='{v}'/>" for v in (1, 2, 3, 4, 1, 2, 3, 2, 1))
        matrix = f"<distances nbobjs='3' latency_base='10'>{latencies}</distances>"
        made = self.machine(self.xml(packages(3, memory + '<object type="PU"/>', matrix)), warnings=["differ by direction"])
        self.assertEqual(made["machine.group"][0], 3)
        cache = '<object type="L3Cache" cache_size="{}" depth="3"><object type="Core"><object type="PU"/></object></object>'
        made = self.machine(self.xml(packages(1, cache.format(32 << 20)).replace("</topology>", packages(1, cache.format(16 << 20))[24:])),
                            warnings=["last-level caches have 16777216 to 33554432 bytes"])
        self.assertEqual(made["cache.bytes"][0], 16 << 20)

    def test_topologies_that_are_refused(self):
        thread, core = '<object type="PU"/>', '<object type="Core"><object type="PU"/></object>'
        cache = '<object type="L{}Cache" depth="{}">{}</object>'
        for text, words in (
                ('<topology><object type="Machine"/></topology>', "no PU"),
                (packages(1).replace("</topology>", packages(1, core * 2)[24:]), "packages have 1 to 2 cores"),
                (packages(1, cache.format(3, 3, core * 2) + cache.format(3, 3, core)), "last-level caches have 1 to 2 cores"),
                (packages(1, cache.format(3, 3, core) + cache.format(2, 2, core)), "different levels"),
                (packages(1, cache.format(3, 3, core) + core), "no last-level cache"),
                (f'<topology>{cache.format(3, 3, packages(2)[24:-11])}</topology>', "several packages"),
                (packages(17), "17 packages"),
                (packages(1, core * 513), "513 cores"),
                (packages(1, cache.format(3, 3, core * 2) * 65), "65 last-level caches"),
                (packages(1, f'<object type="Core">{thread * 17}</object>'), "17 hardware threads"),
                (packages(1).replace("</topology>", thread + "</topology>"), "in no package")):
            with self.subTest(words):
                self.assert_refused(sim("--machine-from-lstopo", self.xml(text)), 2, "made.xml", words)
        self.assert_refused(sim("--machine-from-lstopo", self.xml(packages(2)), "--like", "graviton3"), 2, "graviton3", "another socket")

    # An attacker's files

    def test_hostile_files(self):
        bomb = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(12))
        secret = self.xml("SECRET", "secret")
        begin, end = '<distances2 type="NUMANode" nbobjs="3" kind="5">', "</distances2>"
        for text, words in (
                (f'<!DOCTYPE topology [<!ENTITY e0 "x">{bomb}]><topology>&e12;</topology>', "declarations"),
                (f'<!DOCTYPE topology [<!ENTITY e SYSTEM "file://{secret}">]><topology>&e;</topology>', "declarations"),
                (f'<!DOCTYPE topology [<!ENTITY % e SYSTEM "file://{secret}"> %e;]><topology/>', "declarations"),
                ("<topology>" + '<object type="Group">' * 100000, "64 deep"),
                ("<topology>" + '<object type="Core"/>' * 70000 + "</topology>", "65536 objects"),
                ("<topology>" + " " * (16 << 20) + "</topology>", "16 MiB"),
                ("<topology a='" + "x" * (8 << 20) + "'/>", "no PU"),
                ('<topology><object os_index="1"/></topology>', "no type"),
                ('<topology><object type="Cache"/></topology>', "no depth"),
                ('<topology><object type="L3Cache" cache_size="-1"/></topology>', "cache_size is '-1'"),
                ('<topology><object type="L3Cache" cache_size="1e9"/></topology>', "cache_size is '1e9'"),
                ('<topology><object type="L3Cache" cache_size="99999999999999999999999999"/></topology>', "cache_size"),
                ('<topology><object type="PU" os_index="&#155;[2J&#10;x"/></topology>', "os_index is '??[2J?x'"),
                ('<topology><cpukind><info name="FrequencyMaxMHz" value="4294967296"/></cpukind></topology>', "value is"),
                (packages(3, after=begin.replace('"3"', '"1000000000"') + end), "nbobjs"),
                (packages(3, after=f"{begin}<u64values>x</u64values>{end}"), "whole number"),
                (packages(3, after=f"{begin}<u64values>{'1 ' * 70000}</u64values>{end}"), "too many numbers"),
                (packages(1, after="<distances latency_base='nan'/>"), "latency_base"),
                (packages(1, after="<distances><latency value='inf'/></distances>"), "latency"),
                ("<topology><object", "line 1"), ("<html/>", "root element"), ("", "line 1"), ("\0", "line 1"),
                ("<topology/>" + "<topology/>", "line 1"), ('<?xml version="1.0" encoding="utf-7"?><topology/>', "encoding")):
            with self.subTest(words):
                done = sim("--machine-from-lstopo", self.xml(text))
                self.assert_refused(done, 2, "made.xml", words)
                self.assertNotIn("SECRET", done.stderr)
                self.assert_harmless(done.stderr)

    def test_texts_bring_no_line_of_their_own(self):
        evil = "".join(f"&#{ord(c)};" for c in EVIL if c not in "\033\a") + '&#34; }&#10;mhz = 1\\'
        inside = f'<info name="CPUModel" value="{evil}"/><info name="CPUVendor" value="{evil}"/><object type="PU"/>'
        made = self.machine(self.xml(packages(1, inside), "x\n\"y\\.xml"))
        self.assertNotEqual(made["machine.mhz"][0], 1)
        self.assertIn('x??y?.xml', made["machine.cores"][1])

    def test_options_that_contradict(self):
        file = os.path.join(FILES, "virtual.xml")
        self.assert_refused(sim("--machine-from-lstopo", file, "mutexbench"), 2, "--machine-from-lstopo")
        self.assert_refused(sim("--machine-from-lstopo", file, "--machine", "x5-2"), 2, "--machine-from-lstopo")
        self.assert_refused(sim("--like", "x5-2"), 2, "--like")
        self.assert_refused(sim("--machine-from-lstopo", file, "--like", "x5-3"), 2, "x5-3", "unknown machine")
        self.assert_refused(sim("--machine-from-lstopo", "/nowhere/x.xml"), 2, "/nowhere/x.xml")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
