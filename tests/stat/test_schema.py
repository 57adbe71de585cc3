#!/usr/bin/env python3
"""The JSON report of `usher stat` must be valid by docs/schema/stat.json, and the schema must refuse other keys. Keys
that appear only for attached processes or in PID namespaces are tested in test_attach.py and test_namespaces.py.
"""

import copy
import json
import os
import pathlib
import subprocess
import unittest

from planted import LIMIT, PROGRAMS, Planted, schema


def objects_in(value, path=()):
    """Yields (path, object) for each JSON object; a path has no indices of lists."""
    if isinstance(value, dict):
        yield path, value
    for key, part in value.items() if isinstance(value, dict) else ((None, one) for one in value) if isinstance(value, list) else ():
        yield from objects_in(part, (*path, key) if key else path)


@unittest.skipUnless(schema(), "no jsonschema")
class Schema(Planted):
    SCENARIOS = ("kinds", "timeouts", "tries", "retries", "signals", "herd", "credits")

    def reports(self):
        for lock in (None, "loiter"):
            for scenario in self.SCENARIOS:
                yield f"{scenario} {lock}", self.stat(scenario, lock=lock).report
        yield "in a circle", self.stat("opposite-order", "--duration", "1.6", status=None).report
        yield "embedded", self.stat("all", command=[str(PROGRAMS / "embedded_recorded"), "all"]).report
        folder = pathlib.Path(self.folder)
        subprocess.run([os.environ["USHER_WRITER"], folder / "pprof", folder / "folded", folder / "json"], check=True, timeout=LIMIT)
        yield "other kinds", json.loads((folder / "json").read_text())

    def test_reports_are_as_it_says(self):
        valid, tried = schema(), set()
        valid.check_schema(valid.schema)
        for name, report in self.reports():
            with self.subTest(report=name):
                self.assertEqual([(list(e.absolute_path), e.message) for e in valid.iter_errors(report)], [])
                kinds = [row["kind"] for row in report["rows"]]
                for path, _ in objects_in(report):  # each kind of object gets another key, once for each kind of row
                    if (path, *kinds) in tried:
                        continue
                    tried.add((path, *kinds))
                    changed = copy.deepcopy(report)
                    next(one for where, one in objects_in(changed) if where == path)["unknown_key"] = 1
                    self.assertFalse(valid.is_valid(changed), path)
        self.assertGreater(len(tried), 40)


if __name__ == "__main__":
    unittest.main(verbosity=2)
