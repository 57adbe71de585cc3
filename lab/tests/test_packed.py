"""lab/run/packed.py: long results of the tree are packed, each is there once, and can be read; elsewhere they stay plain."""

import json
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from lab.run import packed  # noqa: E402


class Packed(unittest.TestCase):
    def test_results_of_the_tree(self):
        found = packed.files(packed.RESULTS, "**/*.json") + packed.files(packed.RESULTS, "**/*.jsonl")
        self.assertGreater(len(found), 100)
        for file in found:
            self.assertFalse(file.is_file() and packed.packed(file).is_file(), f"{file} is there twice")
            text = packed.text_of(file)
            for document in [text] if file.suffix == ".json" else text.splitlines():
                json.loads(document)

    def test_raw_results_have_few_lines(self):
        lines = sum(file.read_bytes().count(b"\n") for file in packed.RESULTS.rglob("*") if file.is_file() and file.suffix != ".xz")
        self.assertLessEqual(lines, 40000, "python3 -m lab.run.packed FILE packs a result")

    def test_both_forms(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(packed, "RESULTS", Path(folder).resolve()):
            file, long = Path(folder, "new", "a.json"), "1\n" * (packed.LONG + 1)
            packed.write(file, long)
            self.assertFalse(file.exists())
            self.assertTrue(packed.is_there(file))
            for name in file, packed.packed(file):
                self.assertTrue(packed.is_there(name))
                self.assertEqual(packed.text_of(name), long)
            self.assertEqual(packed.files(file.parent, "*.json"), [file])
            packed.unpack(file)
            self.assertEqual((file.read_text(), packed.packed(file).exists()), (long, False))
            packed.write(file, long)
            packed.write(file, "short\n")
            self.assertEqual((file.read_text(), packed.packed(file).exists()), ("short\n", False))
            self.assertEqual([f.name for f in file.parent.iterdir()], ["a.json"])

    def test_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "a.json")
            packed.write(file, "1\n" * (packed.LONG + 1))
            self.assertTrue(file.is_file())
            self.assertRaises(FileNotFoundError, packed.text_of, Path(folder, "b.json"))


if __name__ == "__main__":
    unittest.main()
