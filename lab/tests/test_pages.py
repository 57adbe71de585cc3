"""Tests the pages that lab.pages makes: each page can be made from the stored results, its tables are not empty, and its links resolve.
README.md lists each page with its command."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))
from lab.pages import __main__ as pages  # noqa: E402

KEPT = {"README", "arena", "claims", "try"}
PICTURE = re.compile(r"\]\([^)]*\.svg\)")
WORDS = 11000  # of Markdown in lab/


class Pages(unittest.TestCase):
    def test_each_is_made_of_stored_results(self):
        with tempfile.TemporaryDirectory(prefix="usher-pages-") as folder:
            pages.write(pages.PAGES, folder)
            for name in pages.PAGES:
                text = Path(folder, f"{name}.md").read_text()
                self.assertTrue(text.startswith("# "), name)
                self.assertIn("20", re.findall(r"20(?=26-)", text), f"{name} has no date")
                self.assertNotRegex(text, r"<!-- [\w ,-]+ -->\s*<!-- /", f"{name} has an empty table")
                for target in pages.LINK.findall(text):
                    self.assertTrue((Path(folder) / target[0]).exists(), f"{name}: {target[0]}")

    def test_predictions_are_as_documented(self):
        """`usher predict` and docs/predict.md give the same accuracy of earlier predictions; tests/cli compares these two."""
        documented = " ".join((TREE / "docs" / "predict.md").read_text().split())
        for name, patterns in {
                "replayed": [r"\d+ of \d+ points are within 5 % \(median error [\d.]+ %\)",
                             r"\d+ of \d+ pairs of locks that differ by 10 % are in order"],
                "replayed-native": [r"Of \d+ points, \d+ are within 5 %, \d+ within 15 % and \d+ within 40 % \(median error [\d.]+ %\)",
                                    r"Of \d+ pairs of locks that differ by 10 %, \d+ are in order"]}.items():
            text = " ".join(pages.made(name, pages.FOLDER).split())
            for pattern in patterns:
                self.assertEqual(re.search(pattern, documented)[0], re.search(pattern, text)[0])

    def test_texts_belong_to_pages(self):
        self.assertLessEqual({file.stem for file in pages.FOLDER.glob("*.txt")}, set(pages.PAGES))
        self.assertEqual({file.stem for file in pages.FOLDER.glob("*.md")}, KEPT)

    def test_links_of_kept_pages_resolve(self):
        for name in KEPT:
            for target, _ in pages.LINK.findall((pages.FOLDER / f"{name}.md").read_text()):
                self.assertTrue((pages.FOLDER / target).exists(), f"{name}: {target}")

    def test_kept_pages_are_what_the_results_make(self):
        """Claims: test_claims."""
        with tempfile.TemporaryDirectory(prefix="usher-pages-") as folder:
            charts = Path(folder, "results", "arena")
            (made := Path(folder, "pages")).mkdir()
            for name, command in (("arena", ["lab.arena", "report", "--page", made / "arena.md", "--charts", charts]),
                                  ("try", ["lab.cases.try_cases", "--write-doc", "--doc", made / "try.md"])):
                kept = (pages.FOLDER / f"{name}.md").read_text()
                (made / f"{name}.md").write_text(re.sub(r"(<!-- ([^/][^>]*) -->\n).*?(<!-- /\2 -->)", r"\1\3", kept, flags=re.S))
                subprocess.run([sys.executable, "-m", *map(str, command)], cwd=TREE, check=True, stdout=subprocess.DEVNULL, timeout=200)
                text = (made / f"{name}.md").read_text()
                self.assertEqual(PICTURE.sub("]()", text), PICTURE.sub("]()", kept), name)

    def test_the_index_has_each_page(self):
        text = (pages.FOLDER / "README.md").read_text()
        for name in pages.PAGES:
            self.assertEqual(text.count(f"`{name}`"), 1, name)

    def test_markdown_is_short(self):
        words = sum(len(file.read_text().split()) for file in (TREE / "lab").rglob("*.md"))
        self.assertLessEqual(words, WORDS)


if __name__ == "__main__":
    unittest.main()
