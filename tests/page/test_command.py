#!/usr/bin/env python3
"""`usher report` as a command: which files it takes, what it refuses, and that no text of a file ends the page's data.
The template is one of the test's, so neither Node.js nor a browser is needed."""

import json
import os
import pathlib
import re
import stat
import tempfile
import unittest

from trees import HOSTILE, Tree, frame, hostile_report, stack, stat_report, stat_row, top_report

TEMPLATE = '<meta charset="utf-8"><script type="application/json" id="data">@DATA@</script><p>after</p>'
SPLIT = re.compile(r'^<meta charset="utf-8"><script type="application/json" id="data">(.*)</script><p>after</p>$', re.DOTALL)
LARGEST = 1_500_000
TRIAL = {"format": 2, "conclusion": {"kind": "keep", "text": "keep", "command": None}, "candidates": [{"name": "pthread", "runs": []}]}


class Command(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory(prefix="usher-page-")
        self.addCleanup(self.kept.cleanup)
        self.tree = Tree(self.kept.name, TEMPLATE)
        self.page = self.tree.folder / "page.html"

    def data(self, *files):
        done = self.tree.report(*files, "-o", self.page)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        text = self.page.read_text(encoding="utf-8")
        self.assertLessEqual(len(text.encode()), LARGEST)
        inner = SPLIT.match(text)[1]
        self.assertTrue(inner.isascii())
        self.assertNotRegex(inner, r"[<>&\x00-\x09\x0b-\x1f]")
        return json.loads(inner)

    def refused(self, *words, says, status):
        done = self.tree.report(*words)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, f"^usher: report: [^\n]*{says}[^\n]*\n$")

    def test_formats(self):
        data = self.data(self.tree.write("a.json", stat_report([stat_row("lock", 1)])), self.tree.write("b.json", TRIAL),
                         self.tree.write("c.json", top_report()))
        self.assertEqual([f["kind"] for f in data["files"]], ["stat", "try", "top"])
        self.assertEqual(data["rules"]["long-hold"], "held too long")
        self.assertEqual(data["files"][0]["report"]["rows"][0]["name"], "lock")
        # A frame that many stacks have is written once.
        first = data["files"][0]
        self.assertEqual([first["frames"][n]["function"] for n in first["report"]["rows"][0]["waiters"][0]["frames"]], ["lock", "lock", "main"])

    def test_refused(self):
        good = self.tree.write("good.json", stat_report([]))
        cases = {"empty": "", "no": "{", "a list": "[]", "a number": "1e999", "another": {"format": "usher_bench", "rows": []},
                 "rows": stat_report({}), "deep": "[" * 100 + "]" * 100, "a newer": stat_report([], version=2), "trial": TRIAL | {"format": 3},
                 "top": top_report() | {"version": 9}, "huge version": stat_report([]) | {"version": 1e300}, "no UTF-8": '{"version": "\\ud800"}'}
        for i, (what, value) in enumerate(cases.items()):
            with self.subTest(what):
                bad = self.tree.write(f"bad{i}.json", value)
                self.refused(good, bad, "-o", self.page, says=f"cannot show .*bad{i}.json: ", status=1)
                self.assertFalse(self.page.exists())
        self.refused(self.tree.folder / "none.json", "-o", self.page, says="cannot read .*none.json: No such file", status=1)
        self.refused(self.tree.folder, "-o", self.page, says="cannot read ", status=1)
        self.refused(good, says="--output is required", status=2)
        self.refused("-o", self.page, says="FILE is required", status=2)
        self.refused(good, "-o", good, says="would replace", status=2)
        self.refused(*[good] * 51, "-o", self.page, says="50 at most", status=2)
        self.assertEqual(json.loads(good.read_text()), stat_report([]))

    def test_sizes(self):
        large = self.tree.folder / "large.json"
        with open(large, "wb") as file:
            file.truncate((64 << 20) + 1)
        self.refused(large, "-o", self.page, says="more than 64 MiB", status=1)

    def test_without_a_page(self):
        with tempfile.TemporaryDirectory(prefix="usher-page-") as folder:
            self.tree = Tree(folder, None)
            self.refused(self.tree.write("a.json", stat_report([])), "-o", "p.html", says="this build has no page to fill: `make page`", status=125)
        for broken in ("no mark", "@DATA@ twice @DATA@"):
            with tempfile.TemporaryDirectory(prefix="usher-page-") as folder:
                tree = Tree(folder, broken)
                done = tree.report(tree.write("a.json", stat_report([])), "-o", "p.html")
                self.assertEqual((done.returncode, done.stderr), (125, "usher: the template has no place for the data\n"))

    def test_hostile_names(self):
        data = self.data(self.tree.write("a.json", hostile_report()))
        names = [row["name"] for row in data["files"][0]["report"]["rows"]]
        self.assertEqual(names, list(HOSTILE))  # the data are true; the page shows them as text
        odd = self.tree.write("a<b>\n&.json", stat_report([]))
        self.assertEqual(self.data(odd)["files"][0]["name"], str(odd).replace("\n", "\\x0a"))

    def test_a_large_file_is_cut_and_says_so(self):
        rows = [stat_row(f"lock_{i}", 600.0 - i, each=[stat_row(f"object {i}.{j}", 1.0) for j in range(5)],
                         holders=[stack(f"f{i}", f"g{i}.{j}", "main") for j in range(20)]) for i in range(600)]
        report = self.data(self.tree.write("a.json", stat_report(rows)))["files"][0]["report"]
        self.assertEqual(report["rows_left_out"] + len(report["rows"]), 600)
        self.assertEqual([r["name"] for r in report["rows"]][:3], ["lock_0", "lock_1", "lock_2"])  # the hottest stay
        self.assertGreater(len(report["rows"]), 40)
        self.assertEqual(report["rows"][0]["holders_left_out"] + len(report["rows"][0]["holders"]), 20)
        # A small file beside it is not cut.
        both = self.data(self.tree.write("a.json", stat_report(rows)), self.tree.write("b.json", stat_report([stat_row("x", 1)])))
        self.assertNotIn("rows_left_out", both["files"][1]["report"])

    def test_shapes_that_cost_time_or_room(self):
        for what, more in {"keys": {f"key{i}": i for i in range(200_000)}, "a long key": {"k" * 100_000: 1}, "a long text": {"verdict": "é" * 2_000_000},
                           "frames": {"deadlocks": [{"threads": [{"stack": {"frames": [frame("f" * 200 + str(i)) for i in range(50_000)]}}]}]},
                           "numbers": {"remarks": [1e308, -0.0, 123456789.123456789, 18446744073709551615, -9223372036854775808] * 1000}}.items():
            with self.subTest(what):
                self.data(self.tree.write("a.json", stat_report([], **more)))

    def test_the_output_is_replaced_as_a_whole(self):
        good = self.tree.write("good.json", stat_report([]))
        victim = self.tree.write("victim.html", "kept")
        self.page.symlink_to(victim)
        os.chmod(self.tree.folder, 0o777 | stat.S_ISVTX)  # where others may plant links
        self.data(good)
        self.assertEqual(victim.read_text(), "kept")
        self.assertFalse(self.page.is_symlink())
        self.assertEqual([p.name for p in pathlib.Path(self.tree.folder).iterdir() if p.name.startswith(".")], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
