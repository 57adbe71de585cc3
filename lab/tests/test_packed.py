"""Tests lab/run/packed.py and manifest.py. In the tree, long results are packed, and each result exists in one form and can be read.
Outside the tree they stay plain. Each folder's manifest contains each stamp of its results once."""

import json
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from lab.run import manifest, packed, rounds  # noqa: E402

# Results that contain a stamp for each session, group or row; claims.json is written by hand.
WITHOUT = {"claims.json", "waits.json", "faults.json", "condition-variables.json", "stat/cost.json"}


class Packed(unittest.TestCase):
    def test_results_of_the_tree(self):
        found = packed.files(packed.RESULTS, "**/*.json") + packed.files(packed.RESULTS, "**/*.jsonl")
        self.assertGreater(len(found), 100)
        for file in found:
            self.assertFalse(file.is_file() and packed.packed(file).is_file(), f"{file} is there twice")
            text = packed.text_of(file)
            for document in [text] if file.suffix == ".json" else text.splitlines():
                json.loads(document)

    def test_manifests_have_each_stamp_once(self):
        for folder in {file.parent for file in packed.files(packed.RESULTS, "**/*.json")}:
            stamps = manifest.of_folder(folder)
            self.assertTrue(stamps, f"{folder} has no manifest")
            shared = [json.dumps({k: v for k, v in stamp.items() if k != "files"}, sort_keys=True) for stamp in stamps]
            self.assertEqual(len(shared), len(set(shared)), folder)
            named = [name for stamp in stamps for name in stamp["files"]]
            self.assertEqual(len(named), len(set(named)), folder)
            there = {file.name for file in packed.files(folder, "*.json") if str(file.relative_to(packed.RESULTS)) not in WITHOUT}
            self.assertEqual(set(named), there)
            for name in there:
                self.assertFalse({*manifest.SHARED, *manifest.OWN} & set(json.loads(packed.text_of(folder / name))), f"{folder / name}: its stamp")

    def test_a_stamp_goes_and_comes_back(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(packed, "RESULTS", Path(folder).resolve()):
            one, other = ({"machine": {"cpus": 2}, "commit": "c", "date": f"day {i}", "figures": [i]} for i in range(2))
            rounds.put(Path(folder, "a.json"), one)
            rounds.put(Path(folder, "b.json"), other)
            self.assertEqual((packed.document(Path(folder, "a.json")), packed.document(Path(folder, "b.json"))), (one, other))
            self.assertEqual(json.loads(Path(folder, "a.json").read_text()), {"figures": [0]})
            self.assertEqual([sorted(stamp["files"]) for stamp in manifest.of_folder(Path(folder))], [["a.json", "b.json"]])
            rounds.put(Path(folder, "a.json"), again := one | {"commit": "d"})
            self.assertEqual(packed.document(Path(folder, "a.json")), again)
            self.assertEqual([sorted(stamp["files"]) for stamp in manifest.of_folder(Path(folder))], [["b.json"], ["a.json"]])
            self.assertEqual(packed.files(Path(folder), "*.json"), [Path(folder, "a.json"), Path(folder, "b.json")])

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
