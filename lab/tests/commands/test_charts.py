#!/usr/bin/env python3
"""Tests charts as files: the looks of locks, equal curves, size, axes, footer. `usher sim --merge` draws made-up figures; one test
simulates, for 50 simulated microseconds."""

import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "cli"))
from refusals import Refusals

USHER = os.environ["USHER_BIN"]
TREE = Path(__file__).resolve().parents[3]
CATALOGUE = TREE / "library" / "catalog" / "catalog.list"
SVG = "{http://www.w3.org/2000/svg}"
RISING = {1: [3.0], 2: [5.0], 4: [6.0]}


def catalogue():
    lines = (line.split("#")[0].split() for line in CATALOGUE.read_text().splitlines())
    return [words[0] for words in lines if words and words[0] != "="]  # lines that begin with = are headings


def glyph_widths():
    """Returns the tables of the program, as fractions of the font's size."""
    text = (TREE / "lab" / "draw" / "text_width.cpp").read_text()
    return [[int(n) / 1000 for n in re.search(rf"widths {weight}\{{([^}}]*)", text)[1].split(",")] for weight in ("regular", "bold")]


REGULAR, BOLD = glyph_widths()
WIDER = 1.15  # another font than that of the tables


def box_of(text):
    """Returns left, top, right and bottom of a text in a wider font."""
    size, table = float(text.get("font-size")), BOLD if text.get("font-weight") else REGULAR
    glyphs = [table[ord(c) - 32] if " " <= c <= "~" else 1 for c in text.text]
    width, x, y = WIDER * size * sum(glyphs), float(text.get("x")), float(text.get("y"))
    left = x - width * {None: 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
    return left, y - 0.75 * size, left + width, y + 0.22 * size


def pairs(element):
    return [tuple(float(n) for n in pair.split(",")) for pair in element.get("points").split()]


def shape(element, end=None):
    """Returns a symbol's outline, independent of its position and size."""
    if element.tag == SVG + "circle":
        return "disc"
    points = pairs(element)[:end]
    middle = [sum(p[i] for p in points) / len(points) for i in (0, 1)]
    size = max(abs(p[i] - middle[i]) for p in points for i in (0, 1))
    return tuple(round((p[i] - middle[i]) / size, 1) + 0.0 for p in points for i in (0, 1))


class Chart:
    """An SVG and the legend of its lines."""

    def __init__(self, path):
        self.root = xml.etree.ElementTree.parse(path).getroot()
        self.elements = list(self.root)
        self.words = self.root.findtext(SVG + "desc")
        self.texts = [e.text for e in self.root.iter(SVG + "text")]

    def look(self, name):
        """Returns the colour, symbol and dashes of a line; the legend has them before the name."""
        at = next(i for i, e in enumerate(self.elements) if e.tag == SVG + "text" and e.text == name)
        line, symbol = self.elements[at - 2:at]
        assert line.get("stroke") == symbol.get("fill"), name
        return line.get("stroke"), shape(symbol), line.get("stroke-dasharray", "")

    def lines(self, colour):
        return [e for e in self.root.iter(SVG + "polyline") if e.get("stroke") == colour]

    def bars(self, colour):
        """Returns the lengths of vertical lines."""
        ends = [pairs(e) for e in self.lines(colour)]
        return [abs(e[0][1] - e[1][1]) for e in ends if len(e) == 2 and e[0][0] == e[1][0]]


# Matrices that simulate colour vision deficiencies, from Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of
# color vision deficiency", 2009, severity 1
VISION = {"all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
          "no M cones": ((.367322, .860646, -.227968), (.280085, .672501, .047413), (-.011820, .042940, .968881)),
          "no L cones": ((.152286, 1.052583, -.204868), (.114503, .786281, .099216), (-.003882, -.048116, 1.051998)),
          "no S cones": ((1.255528, -.076749, -.178779), (-.078411, .930809, .147602), (.004733, .691367, .303900))}
XYZ = ((.4339, .3762, .1899), (.2126, .7152, .0722), (.0177, .1095, .8728))  # from linear sRGB, relative to white


def seen(colour, vision):
    """Returns the CIELAB coordinates of "#rrggbb" as an eye with this colour vision sees it."""
    def times(matrix, vector):
        return [min(1, max(0, sum(a * b for a, b in zip(row, vector)))) for row in matrix]

    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in times(XYZ, times(VISION[vision], linear)))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


class Charts(Refusals, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name):
        return os.path.join(self.folder, name)

    def usher(self, *arguments):
        return subprocess.run([USHER, *arguments], capture_output=True, text=True, timeout=150)

    def points(self, locks):
        """Writes a file of results. `locks`: {lock, or tuple of the point's fields: {threads: [throughput of each seed]}}."""
        with open(name := self.file("lines"), "w") as to:
            for lock, by_threads in locks.items() if isinstance(locks, dict) else locks:
                more = dict(lock) if isinstance(lock, tuple) else {"lock": lock}
                for threads, seeds in by_threads.items():
                    for seed, throughput in enumerate(seeds, 1):
                        print(json.dumps({"workload": "mutexbench", "machine": "x5-2", "threads": threads, "seed": seed, "run_ns": 1000,
                                          "throughput": throughput, "operations": [1], **more}), file=to)
        return name

    def drawn(self, locks, *options, command="sim"):
        done = self.usher(command, "--merge", self.points(locks), "--mixed", "--chart", name := self.file("chart.svg"), *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return name

    def chart(self, locks, *options, **more):
        return Chart(self.drawn(locks, *options, **more))

    # The looks of locks

    def test_a_look_is_the_locks_own(self):
        one = self.chart({name: RISING for name in ("twa", "mcs", "pthread", "steady-park")})
        other = self.chart({name: RISING for name in ("steady-park", "ticket", "pthread", "tas", "mcs", "unheard-of", "twa")}, command="bench")
        for name in ("twa", "mcs", "pthread", "steady-park"):
            self.assertEqual(one.look(name), other.look(name))
        self.assertEqual(other.look("unheard-of"), self.chart({"unheard-of": RISING}).look("unheard-of"))

    def test_families_share_the_colour_and_forms_the_symbol(self):
        chart = self.chart({name: RISING for name in ("twa", "twa-staged", "twa-new", "twa-spin", "twa-park", "mcs", "pthread")})
        colour, symbol, dashes = chart.look("twa")
        self.assertEqual(dashes, "")
        for name in ("twa-staged", "twa-new"):
            self.assertEqual(chart.look(name)[0], colour)
            self.assertNotEqual(chart.look(name)[1], symbol)
        for name in ("twa-spin", "twa-park"):
            self.assertEqual(chart.look(name)[:2], (colour, symbol))
            self.assertNotEqual(chart.look(name)[2], "")
        self.assertNotEqual(chart.look("twa-spin"), chart.look("twa-park"))
        self.assertNotEqual(chart.look("mcs")[0], colour)
        self.assertRegex(chart.look("pthread")[0], r"#(..)\1\1")
        self.assertEqual(len(chart.look("pthread")[1]), 2 * 4)  # a diamond

    def test_every_lock_of_the_catalogue_has_a_look(self):
        families = {}
        for line in CATALOGUE.read_text().splitlines():
            if line.startswith("="):
                members = families.setdefault(line, [])
            elif line and not line.startswith("#"):
                members.append(line.split()[0])
        chart = self.chart({name: RISING for name in catalogue()})
        colours = [{chart.look(name)[0] for name in members} for members in families.values()]
        self.assertEqual([len(one) for one in colours], [1] * len(families))
        self.assertEqual(len(set.union(*colours)), len(families))
        # No lock is shown with dashes since its symbol is another's: it has the same look in a chart of its own.
        self.assertEqual(len({chart.look(name)[:2] for name in catalogue()}), len(catalogue()))
        for name in ("mcs-awake", "k42-stack", "c-ptl-tkt-fast"):
            self.assertEqual(self.chart({name: RISING}).look(name), chart.look(name))

    def test_colours_for_any_colour_vision(self):
        heads = ("pthread", "steady", "loiter", "mcscr", "twa", "ticket", "mcs", "ttas", "c-bo-mcs")
        chart = self.chart({name: RISING for name in heads})
        for vision in VISION:
            for one, other in itertools.combinations(heads, 2):
                distance = math.dist(*(seen(chart.look(name)[0], vision) for name in (one, other)))
                self.assertGreater(distance, 15, (vision, one, other))

    def test_no_two_look_alike(self):
        names = catalogue() + [name + "-spin" for name in catalogue()] + [f"lock-{i}" for i in range(20)]
        chart = self.chart({name: RISING for name in names})
        self.assertEqual(len({chart.look(name) for name in names}), len(names))
        # Curves of one lock with different settings also have different looks (colour, symbol, dashes), whatever the order of the points.
        ran = [((("lock", "twa"), ("parameters", {"ncs": n})), RISING) for n in (0, 5, 9)]
        looks = []
        for order in (ran, ran[::-1]):
            chart = self.chart(order)
            looks.append([chart.look(f"twa ncs={n}") for n in (0, 5, 9)])
        self.assertEqual(len(set(looks[0])), 3)
        self.assertEqual(len({look[:2] for look in looks[0]}), 1)
        self.assertEqual(looks[0], looks[1])

    # Coinciding lines

    def test_of_equal_lines_both_are_seen(self):
        equal = {"mcs": RISING, "twa": RISING, "ticket": {1: [1.0], 2: [1.0], 4: [1.0]}}
        chart = self.chart(equal)
        upper, lower, alone = (chart.look(name)[0] for name in equal)
        widest = {colour: max(float(e.get("stroke-width")) for e in chart.lines(colour)) for colour in (upper, lower, alone)}
        self.assertEqual(widest[upper], widest[alone])
        self.assertGreaterEqual(widest[lower], widest[upper] + 2)

    def test_ranges_are_bars(self):
        chart = self.chart({"mcs": {1: [3.0, 2.0, 2.5], 2: [5.0]}, "twa": {1: [1.0, 1.0], 2: [2.0]}})
        # The bar shows the range from 2 to 3 on an axis from 0 to 5.2, in a plot of 360 pixels.
        self.assertEqual([round(length) for length in chart.bars(chart.look("mcs")[0])], [round(360 / 5.2)])
        self.assertEqual(chart.bars(chart.look("twa")[0]), [])

    # Layout

    def test_title_and_size(self):
        chart = self.chart({"mcs": RISING}, "--title", "Two & <three>", "--size", "1000x400")
        self.assertIn("Two & <three>", chart.texts)
        self.assertTrue(chart.root.findtext(SVG + "title").startswith("Two & <three>: "))
        self.assertEqual((chart.root.get("width"), chart.root.get("height")), ("1000px", "400px"))

    def test_a_small_one_has_everything(self):
        names = [f"a-long-name-{i}" for i in range(60)]
        chart = self.chart({name: RISING for name in names}, "--size", "400x300")
        self.assertEqual((chart.root.get("width"), chart.root.get("height")), ("400px", "300px"))
        _, _, width, height = (float(n) for n in chart.root.get("viewBox").split())
        self.assertAlmostEqual(width / height, 4 / 3, delta=0.01)
        self.assertLessEqual(set(names), set(chart.texts))

    def assert_text_has_room(self, chart):
        """Asserts that no text in a wider font leaves the image or meets another."""
        _, _, width, height = (float(n) for n in chart.root.get("viewBox").split())
        boxes = [(e.text, box_of(e)) for e in chart.root.iter(SVG + "text") if e.text]
        for text, (left, top, right, bottom) in boxes:
            self.assertTrue(-0.1 < left and -0.1 < top and right < width + 0.1 and bottom < height + 0.1, text)
        for (one, a), (other, b) in itertools.combinations(boxes, 2):
            self.assertTrue(any(a[i] > b[i + 2] - 0.1 or b[i] > a[i + 2] - 0.1 for i in (0, 1)), (one, other))

    def test_text_has_room_in_curves(self):
        wide, far = "W" * 300, {n: [1.0 / n, 7e6 * n] for n in (1, 3, 64, 100, 1000)}
        for names, size, log in itertools.product((["mcs"], [f"a-long-name-{i}" for i in range(60)], [wide], ["锁" * 40]),
                                                  ("200x200", "400x300", "800x600", "1600x200"), ("none", "xy")):
            with self.subTest(name=names[0], size=size, log=log):
                for by_threads in (RISING, far):
                    chart = self.chart({name: by_threads for name in names}, "--size", size, "--log", log, "--title", wide)
                    self.assert_text_has_room(chart)
        self.assert_text_has_room(self.chart({"mcs": RISING, "twa": RISING}))

    def test_axes(self):
        few, many = {1: [3.0], 8: [5.0]}, {1: [3.0], 9: [5.0]}
        for by_threads, log, axes in ((few, "", ""), (many, "", "x"), (few, "x", "x"), (few, "y", "y"), (many, "y", "xy"), (few, "xy", "xy"),
                                      (many, "none", ""), (many, "x", "x")):
            with self.subTest(by_threads=by_threads, log=log):
                chart = self.chart({"mcs": by_threads}, *(["--log", log] if log else []))
                self.assertEqual("threads; logarithmic" in chart.texts, "x" in axes)
                self.assertEqual(any(re.search("operations.*; logarithmic", t) for t in chart.texts), "y" in axes)
        self.assertIn("threads is not logarithmic", self.chart({"mcs": {2: [1.0]}}, "--log", "x").words)

    def test_a_simulated_one_says_where_from(self):
        for seeds, said in (([1.0], "seed 1"), ([1.0, 2.0, 3.0], "seeds 1–3")):
            self.assertIn(said, self.chart({"mcs": {2: seeds}}).words.split("\n"))
        name = self.file("sim.svg")
        asked = ("sim", "mutexbench", "--locks", "ticket-spin", "--threads", "2", "--seeds", "2", "--ms", "0.05", "--quiet")
        done = self.usher(*asked, "--chart", name, "--json", self.file("out.json"))
        if done.returncode == 2:
            self.skipTest("this build has no ticket-spin")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        words = Chart(name).words
        for pattern in (r"^commit \S+", r"^simulated: .*, 72 CPUs$", r"^seeds 1–2$"):
            self.assertRegex(words, "(?m)" + pattern)
        self.assertIn("seeds 1–2", " ".join(Chart(name).texts))
        # A second run of the same points, and a drawing from the file of results, give the same chart.
        self.usher(*asked, "--chart", self.file("again.svg"))
        self.usher("sim", "--merge", self.file("out.json"), "--chart", self.file("merged.svg"))
        for other in ("again.svg", "merged.svg"):
            self.assertEqual(Path(name).read_bytes(), Path(self.file(other)).read_bytes())

    # Errors

    def test_what_is_refused(self):
        points = self.points({"mcs": RISING})
        asked = ("--merge", points, "--chart", self.file("none.svg"))
        for command in ("sim", "bench"):
            for size in ("10x10", "800", "800x", "x600", "800x600x1", "1e3x600", "-800x600", "800X600", "100000x600", " 800x600", ""):
                self.assert_refused(self.usher(command, *asked, "--size", size), 2, "--size", f"'{size}'", "800x600")
            for log in ("z", "yx", "X", ""):
                self.assert_refused(self.usher(command, *asked, "--log", log), 2, "--log", f"'{log}'", "xy")
            self.assert_refused(self.usher(command, *asked, "--log", "y", "--log-x"), 2, "--log")
            for option in (("--size", "800x600"), ("--log", "x"), ("--title", "t")):
                self.assert_refused(self.usher(command, "--merge", points, *option), 2, option[0], "--chart")
        self.assertFalse(os.path.exists(self.file("none.svg")))


if __name__ == "__main__":
    unittest.main()
