#!/usr/bin/env python3
"""What lab/claims/simulated.py makes of figures: verdicts over forms, commands, the tables. And that lab/pages/claims.md agrees with
lab/results/claims.json."""

import contextlib
import copy
import io
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))
from lab.claims import ledger
from lab.claims import simulated as claims
from lab.claims.rows import BUDGETS, ROWS, Figure, Form, Forms, Row, Sweep, above, at_least, below


def made_up(values, forms=None, **more):
    """A row of one figure per column of `values`, wanted ≥ 1; `values`: of each form the figures, of each the medians by jitter."""
    forms = forms or Forms()
    row = Row("X1", "Made up", [Sweep("ideal", "x5-2", ["null"], [1])],
              [Figure(f"figure {i}", None, "≥ 1", at_least(1)) for i in range(len(values[0]))], forms=forms, **more)
    result = {"forms": [{"name": f.name, "runs": 3, "unsettled": {}, "figures": [{"what": g.what, "values": [[v] for v in medians], "unsettled": 0}
                                                                                 for g, medians in zip(row.figures, of_form)]}
                        for f, of_form in zip(forms.all, values)]}
    return row, claims.judge(row, result)


def verdict(values, forms=None, **more):
    return claims.verdict_of(*made_up(values, forms, **more))


def verdicts():
    two = Forms("forms", [Form("this"), Form("that")])
    three = Forms("forms", [Form("a"), Form("b"), Form("c")])
    good, bad, shaky = [1, 2, 1], [0, 0, 0], [0, 2, 1]
    assert verdict([[good, good]]) == "reproduced"
    assert verdict([[good, shaky]]) == "reproduced, not at every jitter"
    assert verdict([[good, bad]]) == "in part"
    assert verdict([[bad]]) == "not reproduced"
    assert verdict([[good], [good]], two) == "reproduced over both forms"
    assert verdict([[good], [good], [good]], three) == "reproduced over all forms"
    assert verdict([[good], [bad]], two) == "reproduced only with this; not reproduced with that"
    assert verdict([[shaky], [bad]], two) == "reproduced only with this, not at every jitter; not reproduced with that"
    assert verdict([[bad, bad], [good, bad], [good, bad]], three) == "in part only with b and c; not reproduced with a"
    assert verdict([[good]], unanswerable="speed: because") == "reproduced; a part is not answerable here"


def unanswerable_alone():
    row = Row("X1", "Made up", [], [Figure("seen", None)], unanswerable="all of it: because")
    result = {"forms": [{"name": "", "runs": 1, "unsettled": {}, "figures": [{"what": "seen", "values": [[1]], "unsettled": 0}]}]}
    assert claims.verdict_of(row, claims.judge(row, result)) == "not answerable here"


def sections():
    row, forms = made_up([[[1, 2, 1]], [[0, 0, 0]]], Forms("forms", [Form("this", {"coherence.x": "until a hit"}), Form("that", spin=7)]),
                         remark="A remark.", unanswerable="speed, because it is")
    text = claims.section_of(row, forms)
    assert "| figure | wanted | this | that | range of all |" in text
    assert "| figure 0 | ≥ 1 | 2 ✓ | 0 ✗ | 0–2 |" in text
    assert "| figure 0 | ≥ 1 | 2 [1–2] ✓ |" in claims.section_of(*made_up([[[1, 2, 1]]]))
    assert "'coherence.x=until a hit'" in text and "--spin 7" in text
    assert "Not answerable here: speed, because it is." in text and "A remark." in text


def reasons():
    row, _ = made_up([[[1, 1, 1]]])
    assert claims.reason(row, "in part", "in part") == claims.reason(row, "in part", "in part over all forms") == "as before"
    assert "not yet said" in claims.reason(row, "in part", "in part only with this; reproduced with that")
    row.why = "because"
    assert claims.reason(row, "in part", "in part") == "because"


def bounds():
    assert [above(1)(v) for v in (0.999, 1, 1.001)] == [False, False, True]
    assert [below(1)(v) for v in (0.999, 1, 1.001)] == [True, False, False]
    # What a figure says is wanted is what judges it: > and < are strict.
    for row in ROWS:
        for figure in row.figures:
            found = re.search(r"([<>≤≥]) ([\d.]+)$", figure.wanted)
            if figure.holds is None or found is None:
                continue
            sign, limit = found[1], float(found[2])
            judged = tuple(figure.holds(limit + d) for d in (-1e-6, 0, 1e-6))
            expected = {"<": (True, False, False), "≤": (True, True, False), ">": (False, False, True), "≥": (False, True, True)}[sign]
            assert judged == expected, (row.id, figure.what, figure.wanted)


def what_has_not_settled(usher):
    """Counted by form and by figure, and said in the section."""
    row, forms = made_up([[[1, 2, 1], [0, 0, 0]]])
    assert "*" not in claims.section_of(row, forms).replace("**", "")
    forms[0]["unsettled"] = {"mcs with 160 threads": 2}
    forms[0]["figures"][1]["unsettled"] = 2
    text = claims.section_of(row, forms)
    assert "Some runs had not settled." in text and "2 of 3 (mcs with 160 threads 2 times)" in text
    assert "| 0* ✗ |" in text and "| 2 [1–2] ✓ |" in text

    points = claims.Points([{("mcs", 1): {"throughput": 1.0, "settled": True}, ("mcs", 2): {"throughput": 1.0, "settled": False}}])
    assert points("mcs", 1) == 1.0 and points.settled
    assert points("mcs", 2) == 1.0 and not points.settled

    # A run of one microsecond has fewer operations than threads.
    row = Row("X1", "Made up", [Sweep("mutexbench", "x5-2", ["mcs-spin"], [1, 72], ms=0.001, seeds=2)],
              [Figure("one", lambda p: p("mcs-spin", 1)), Figure("many", lambda p: p("mcs-spin", 72))], forms=Forms(jitters=(1,)))
    form = claims.measure(usher, row)["forms"][0]
    assert form["runs"] == 4 and form["unsettled"]["mcs-spin with 72 threads"] == 2, form
    assert form["figures"][1]["unsettled"] == 2


def machine_files():
    """Figures of another machine's file are not taken, as those of another command are not."""
    row, _ = made_up([[[1, 1, 1]]])
    result = {"commands": claims.commands_of(row), "machines": claims.hashes(row),
              "forms": [{"name": "", "options": "", "runs": 1, "unsettled": {}, "figures": [{"what": "figure 0", "values": [[1]], "unsettled": 0}]}]}
    assert set(result["machines"]) == {"x5-2"} and len(result["machines"]["x5-2"]) == 64
    other, without, command = copy.deepcopy(result), copy.deepcopy(result), copy.deepcopy(result)
    other["machines"]["x5-2"] = "0" * 64
    del without["machines"]
    command["commands"][0] += " --pinned"
    folder = claims.FOLDER
    with tempfile.TemporaryDirectory() as temporary:
        claims.FOLDER = Path(temporary)
        try:
            for written, refusal in ((result, ""), (other, "another x5-2.toml"), (without, "another x5-2.toml"), (command, "another X1")):
                (claims.FOLDER / "X1.json").write_text(json.dumps(written))
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    taken = claims.measured(row)
                assert (taken is None) == bool(refusal) and refusal in said.getvalue(), said.getvalue()
        finally:
            claims.FOLDER = folder


def thread_counts(text):
    """1,2,4 or 1..8"""
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else [int(t) for t in text.split(",")]


def charts():
    """Each has all locks of the command that is said to draw it."""
    drawn = claims.charts_of(claims.DOC.read_text())
    assert drawn
    for file, words in drawn:
        described = (TREE / file).read_text().split("<desc>")[1].split("</desc>")[0]
        values = dict(re.findall(r"^([\w+-]+): (.*)$", described, re.M))
        for lock in words[words.index("--locks") + 1].split(","):
            assert lock in values, f"{file} has no {lock}"
            for threads in thread_counts(words[words.index("--threads") + 1]):
                assert re.search(rf"(^|, ){threads}: ", values[lock]), f"{file}: {lock} has nothing of {threads} threads"


def commands():
    sweep = Sweep("mutexbench", "x5-2", ["mcs", "mcs-spin"], [2], placement="compact", pinned=True)
    words = claims.command_of(claims.in_form(sweep, Form("x", {"coherence.store_entries": "1"}, 20000, {"cs": 3})))
    assert " ".join(words).endswith("--set cs=3 --pinned --placement compact --spin 20000 --set-machine coherence.store_entries=1")
    # Locks that only spin run once for all budgets.
    parts = [claims.parts_of(claims.in_form(sweep, f)) for f in BUDGETS.all]
    assert len({tuple(claims.command_of(p[0])) for p in parts}) == 1 and parts[0][0].locks == ["mcs-spin"]
    assert len({tuple(claims.command_of(p[1])) for p in parts}) == len(BUDGETS.all)
    # Without a length it is the usual one.
    assert "--ms" not in claims.command_of(Sweep("mutexbench", "t5", ["mcs"], [160], ms=None))
    # What a sweep says itself counts more than a form.
    own = Sweep("mutexbench", "x5-2", ["mcs"], [2], machine_settings={"coherence.store_entries": "9"}, spin=1)
    assert claims.in_form(own, Form("x", {"coherence.store_entries": "1"})).machine_settings == {"coherence.store_entries": "9"}
    assert claims.in_form(own, BUDGETS.all[0]).spin == 1


def every_row_is_accepted(usher):
    """Without running: `--list-points` refuses what the command does not know."""
    seen = set()
    for row in ROWS:
        for form in row.forms.all:
            for sweep in row.sweeps:
                words = claims.command_of(claims.in_form(sweep, form)) + ["--list-points"]
                if tuple(words) in seen:
                    continue
                seen.add(tuple(words))
                done = subprocess.run([usher] + words, capture_output=True, text=True, timeout=60)
                assert done.returncode == 0, (row.id, done.stderr)


def the_page():
    known = {row.id for row in ROWS}
    written = ledger.read()
    named = [name for paper in written["papers"] for row in paper["rows"] for name in ledger.rows_named(row["row"])]
    assert len(named) == len(set(named)), named
    assert known | set(written["simulated"]) <= set(named), (known | set(written["simulated"])) - set(named)
    assert ledger.rows_named("G1, G2, G4–G7") == ["G1", "G2", "G4", "G5", "G6", "G7"]
    shown = {"X1": "seen", "X2": "in part"}
    assert ledger.verdict_of({"row": "X1", "verdict": "so"}, shown) == "so; [simulated](simulated-claims.md): seen"
    assert ledger.verdict_of({"row": "X1, X2"}, shown) == "[simulated](simulated-claims.md): X1 seen; X2 in part"
    assert ledger.PAGE.read_text() == ledger.page_of(written), "lab/claims/ledger.py --write"
    assert all(row.title for row in ROWS)
    table = claims.table_of([(row, None) for row in ROWS])
    assert max(len(line) for line in table.split("\n")) < 400


def main():
    for test in (verdicts, unanswerable_alone, sections, reasons, bounds, machine_files, charts, commands, the_page):
        test()
    what_has_not_settled(sys.argv[1])
    every_row_is_accepted(sys.argv[1])


if __name__ == "__main__":
    main()
