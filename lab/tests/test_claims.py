#!/usr/bin/env python3
"""Tests lab/claims/simulated.py: verdicts over forms, commands, the tables. Tests also that lab/pages/claims.md agrees with
lab/results/claims.json."""

import contextlib
import copy
import io
import json
import random
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))
from lab.claims import ledger, spans
from lab.claims import simulated as claims
from lab.claims.rows import BUDGETS, ROWS, Figure, Form, Forms, Row, Sweep, above, at_least, below, latency_us, over


def made_up(values, forms=None, **more):
    """Returns a row with one figure for each column of `values`, each required to be at least 1. `values` contains, for each form and
    figure, the medians by jitter."""
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


def on_the_page(values, forms=None, **more):
    row, judged = made_up(values, forms, **more)
    return row, judged, claims.section_of("A paper", [(row, judged)])


def sections():
    """A section has the remarks and deciding figures of rows that are not plainly reproduced, and the remarks on the
    other rows."""
    forms = Forms("forms", [Form("this"), Form("that"), Form("another"), Form("the last")])
    good, bad = [[1, 2, 1]], [[0, 0.5, 0]]
    _, _, text = on_the_page([good, bad, good, good], forms, why="A reason.", remark="A remark.", unanswerable="speed, because it is")
    assert "| X1 | figure 0 | ≥ 1 | 0.5 with that |" in text
    assert '<a id="x1"></a>**X1, Made up** ([figures](../results/simulated/X1.json)). A reason. A remark.' in text
    assert "Not answerable here: speed, because it is." in " ".join(text.split())
    assert "0.5 with all but this |" in on_the_page([good, bad, bad, bad], forms)[2]
    assert "Not explained." in on_the_page([bad])[2]
    row, judged, text = on_the_page([good], remark="A remark.")
    assert claims.is_plain(row, judged) and "figure 0" not in text and "X1: A remark." in text
    # The page shows a range only if one of its ends is judged differently from the median. A number has enough digits to show on which side
    # of the bound it lies.
    assert "| 0.5 [0.5–1] |" in on_the_page([[[1, 0.5, 0.5]]])[2]
    assert "| 0.5 |" in on_the_page([[[0.4, 0.5, 0.6]]])[2]
    assert "| 2 [0.9999–2] |" in on_the_page([[[0.9999, 2, 2]]])[2]
    # Paragraphs are wrapped, and no line begins with ">", which Markdown takes for a quotation.
    text = on_the_page([bad], why="x " * 60 + "more than > 1 and " + "y " * 60 + "> 2")[2]
    assert max(len(line) for line in text.split("\n")) <= 150 and not [line for line in text.split("\n") if line.strip().startswith(">")]


def figures_that_are_told():
    row, judged = made_up([[[1, 2, 1]], [[1, 2.1, 1]], [[1, 9, 1]]], Forms("forms", [Form("a"), Form("b"), Form("c")]), unanswerable="x")
    for form in judged:
        form["figures"][0]["told"] = True
    assert list(claims.listed_figures(row, judged)) == [("figure 0", "≥ 1", "2–2.1 with a and b; 9 with c")]


def the_table():
    rows = [made_up([[[1, 1, 1]]]), made_up([[[0, 0, 0]]]), (made_up([[[1, 1, 1]]])[0], None)]
    for number, (row, _) in enumerate(rows, 1):
        row.id = f"X{number}"
    text = claims.table_of(rows, {"X1": "Fig 1", "X2": "Fig 2", "X3": "Fig 3"})
    assert "| [X1](../results/simulated/X1.json) | Made up | Fig 1 | reproduced |" in text
    assert "| [X2](#x2) | Made up | Fig 2 | not reproduced |" in text
    assert "| X3 | Made up | Fig 3 | not run |" in text


def bounds():
    assert [above(1)(v) for v in (0.999, 1, 1.001)] == [False, False, True]
    assert [below(1)(v) for v in (0.999, 1, 1.001)] == [True, False, False]
    # The bound in a figure's text, such as "> 2", agrees with the function that tests it: > and < exclude the bound, ≥ and ≤ include it.
    for row in ROWS:
        for figure in row.figures:
            found = re.search(r"([<>≤≥]) ([\d.]+)$", figure.wanted)
            if figure.holds is None or found is None:
                continue
            sign, limit = found[1], float(found[2])
            judged = tuple(figure.holds(limit + d) for d in (-1e-6, 0, 1e-6))
            expected = {"<": (True, False, False), "≤": (True, True, False), ">": (False, False, True), "≥": (False, True, True)}[sign]
            assert judged == expected, (row.id, figure.what, figure.wanted)


def functions_of_figures():
    assert over(3, 2) == 1.5 and over(0, 2) == 0
    assert over(0, 0) == 1, "groups without an acquisition are equal"
    assert over(1, 0) > 1e6
    parts = {"wait_ns.mean": 5000, "hold_ns.mean": 700, "unlock_ns.mean": 300}
    assert latency_us("mcs", 4)(lambda lock, threads, of: parts[of]) == 6


def what_has_not_settled(usher):
    """Unsettled runs are counted by form and by figure, marked on the page, and listed where a row is printed."""
    row, forms, text = on_the_page([[[1, 2, 1], [0, 0, 0]]])
    assert "| 0 |" in text and not claims.settling_of(forms)
    forms[0]["unsettled"] = {"mcs with 160 threads": 2}
    forms[0]["figures"][1]["unsettled"] = 2
    assert "| 0* |" in claims.section_of("A paper", [(row, forms)])
    assert "2 of 3 (mcs with 160 threads 2 times)" in claims.settling_of(forms)
    assert claims.seen(forms[0]["figures"][1]) == "0* ✗" and claims.seen(forms[0]["figures"][0]) == "2 [1–2] ✓"

    points = claims.Points([{("mcs", 1): {"throughput": 1.0, "settled": True}, ("mcs", 2): {"throughput": 1.0, "settled": False}}])
    assert points("mcs", 1) == 1.0 and points.settled
    assert points("mcs", 2) == 1.0 and not points.settled

    # In a run of one microsecond some of the 72 threads complete no operation, so the run is counted as unsettled.
    row = Row("X1", "Made up", [Sweep("mutexbench", "x5-2", ["mcs-spin"], [1, 72], ms=0.001, seeds=2)],
              [Figure("one", lambda p: p("mcs-spin", 1)), Figure("many", lambda p: p("mcs-spin", 72))], forms=Forms(jitters=(1,)))
    form = claims.measure(usher, row)["forms"][0]
    assert form["runs"] == 4 and form["unsettled"]["mcs-spin with 72 threads"] == 2, form
    assert form["figures"][1]["unsettled"] == 2


def figures_of_medians():
    """A figure of medians is computed once for each jitter, from the median of each point over the seeds."""
    def points(rates):
        return {(seed, place): {("null", t): {"throughput": rate, "settled": True} for t, rate in zip((1, 2), of_seed)}
                for place, seeds in enumerate(rates) for seed, of_seed in enumerate(seeds)}

    # With one of the seeds the value rises by a factor of 3 between the two points. But the medians of the points over the seeds, 2 and 1,
    # fall.
    sweep = points([[(2, 1), (1, 3), (3, 1)]])
    keys = sorted(sweep)
    ratio = Figure("rise", lambda p: p("null", 2) / p("null", 1), of_medians=True)
    assert [(place, ratio.of(p)) for place, p in claims.points_for(ratio, [sweep], keys)] == [(0, 0.5)]
    each = Figure("rise", ratio.of)
    assert [each.of(p) for _, p in claims.points_for(each, [sweep], keys)] == [1 / 2, 3, 1 / 3]
    ((_, medians),) = claims.points_for(ratio, [sweep], keys)
    assert medians.counts() == [1, 2] and medians("null", 1) == 2 and medians.settled
    sweep[(1, 0)][("null", 2)]["settled"] = False
    ((_, medians),) = claims.points_for(ratio, [sweep], keys)
    medians("null", 2)
    assert not medians.settled


def machine_files():
    """Results for another machine file are not accepted, nor are those of another command."""
    row, _ = made_up([[[1, 1, 1]]])
    result = {"commands": claims.commands_of(row), "machines": claims.hashes(row), "sources": claims.sources_of(row),
              "forms": [{"name": "", "options": "", "runs": 1, "unsettled": {}, "figures": [{"what": "figure 0", "values": [[1]], "unsettled": 0}]}]}
    assert set(result["machines"]) == {"x5-2"} and len(result["machines"]["x5-2"]) == 64
    other, without, command, code = (copy.deepcopy(result) for _ in range(4))
    code["sources"] = "0" * 64
    other["machines"]["x5-2"] = "0" * 64
    del without["machines"]
    command["commands"][0] += " --pinned"
    folder = claims.FOLDER
    with tempfile.TemporaryDirectory() as temporary:
        claims.FOLDER = Path(temporary)
        try:
            for written, refusal in ((result, ""), (other, "another x5-2.toml"), (without, "another x5-2.toml"), (command, "another X1"),
                                     (code, "another simulator, program or lock")):
                (claims.FOLDER / "X1.json").write_text(json.dumps(written))
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    taken = claims.measured(row)
                assert (taken is None) == bool(refusal) and refusal in said.getvalue(), said.getvalue()
        finally:
            claims.FOLDER = folder


def sources_without_comments():
    """A comment does not make results old, but a change of a lock's header, the program or the simulator does."""
    code = claims.sources.code
    assert code('int x; // a comment\n/* and\nanother */ char* s = "// none";') == 'int x; char* s = "// none";'
    files = {f.name for f in claims.sources.files_of({"mutexbench"}, {"ticket-spin"})}
    assert {"ticket.hpp", "mutexbench.hpp", "coherence.cpp", "waiting.hpp", "program.hpp"} <= files, files
    assert not {"mcs.hpp", "quads.hpp", "variants.cpp", "trace.cpp", "version.h"} & files, files
    assert "variants.cpp" in {f.name for f in claims.sources.files_of({"mutexbench"}, {"tkt-dual-releaser-spin"})}


def thread_counts(text):
    """Reads 1,2,4 or 1..8."""
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else [int(t) for t in text.split(",")]


def charts():
    """Each chart has all locks of the command that the page gives for it."""
    drawn = claims.charts_of(claims.TEXT.read_text())
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
    # Locks that only spin have no spin budget, so one run serves all budgets.
    parts = [claims.parts_of(claims.in_form(sweep, f)) for f in BUDGETS.all]
    assert len({tuple(claims.command_of(p[0])) for p in parts}) == 1 and parts[0][0].locks == ["mcs-spin"]
    assert len({tuple(claims.command_of(p[1])) for p in parts}) == len(BUDGETS.all)
    # A sweep with ms=None has the command's default length.
    assert "--ms" not in claims.command_of(Sweep("mutexbench", "t5", ["mcs"], [160], ms=None))
    # Settings of the Sweep itself (here store_entries=9 and spin=1) take precedence over the settings of the form, under which all sweeps
    # of a row run.
    own = Sweep("mutexbench", "x5-2", ["mcs"], [2], machine_settings={"coherence.store_entries": "9"}, spin=1)
    assert claims.in_form(own, Form("x", {"coherence.store_entries": "1"})).machine_settings == {"coherence.store_entries": "9"}
    assert claims.in_form(own, BUDGETS.all[0]).spin == 1


def every_row_is_accepted(usher):
    """The command accepts every row. Nothing runs: `--list-points` refuses arguments that the command does not know."""
    seen = set()
    for row in ROWS:
        for form in row.forms.all:
            for sweep in row.sweeps:
                words = claims.command_of(claims.in_form(sweep, form)) + ["--list-points"]
                if tuple(words) in seen:
                    continue
                seen.add(tuple(words))
                done = subprocess.run([usher] + words, capture_output=True, text=True, timeout=300)
                assert done.returncode == 0, (row.id, done.stderr)


def the_page():
    known = {row.id for row in ROWS}
    written = ledger.read()
    named = [name for paper in written["papers"] for row in paper["rows"] for name in ledger.rows_named(row["row"])]
    assert len(named) == len(set(named)), named
    assert known | set(written["simulated"]) <= set(named), (known | set(written["simulated"])) - set(named)
    assert ledger.rows_named("G1, G2, G4–G7") == ["G1", "G2", "G4", "G5", "G6", "G7"]
    shown = {"X1": "seen", "X2": "in part"}
    assert ledger.verdict_of({"row": "X1", "verdict": "so"}, shown) == "so; simulated: seen"
    assert ledger.verdict_of({"row": "X1, X2"}, shown) == "simulated: X1 seen; X2 in part"
    assert ledger.PAGE.read_text() == ledger.page_of(written), "lab/claims/ledger.py --write"
    assert all(row.title for row in ROWS)
    rows = claims.judged_rows()
    stale = " ".join(row.id for row, forms in rows if not forms)
    assert not stale, f"python3 -m lab.claims.simulated {stale}"
    text = claims.page_of(claims.TEXT.read_text(), rows, written)
    assert written["simulated"] == {row.id: claims.verdict_of(row, forms) for row, forms in rows}, "python3 -m lab.claims.simulated --no-run --write-doc"
    anchors = set(re.findall(r'<a id="(\w+)"></a>', text))
    assert {target for target in re.findall(r"\]\(#([tgmf]\d+)\)", text)} == anchors
    assert text.count("\n") <= 410


def choices_of_keys():
    machine = tomllib.loads(spans.MACHINE.read_text())["coherence"]
    first, again = (spans.choice(random.Random(7)) for _ in range(2))
    assert first == again and set(first) <= set(machine) | {"ownership_ahead", "load_then_store"}
    assert set(machine) - set(first) == {"protocol", "hit", "store_entries"}
    row = next(row for row in ROWS if row.id == "F2")
    assert spans.met(row, "total, fairlock / test-and-set", 0.672) and not spans.met(row, "total, fairlock / test-and-set", 0.9)
    assert spans.met(row, "fairlock", 1.0) and spans.met(row, "test-and-set, M/s", 1.0) is None
    of = lambda total: {f.what: 1.0 for f in row.figures} | {"total, fairlock / test-and-set": total}
    lines = spans.summary(row, [({"home": "0", "home_waits_for": "nothing"}, of(0.7)), ({"home": "1", "home_waits_for": "nothing"}, of(0.9))])
    assert "   total, fairlock / test-and-set: 0.7 to 0.9, limits met by 1 of 2" in lines
    assert "      home: 0: 1 of 1, 0.7 to 0.7; 1: 0 of 1, 0.9 to 0.9" in lines and lines[-1] == "   all together: 1 of 2"
    for row in ROWS:
        assert set(spans.LIMITS.get(row.id, {})) <= {figure.what for figure in row.figures}


def main():
    for test in (choices_of_keys, verdicts, unanswerable_alone, sections, figures_that_are_told, the_table, bounds, functions_of_figures,
                 figures_of_medians, machine_files, sources_without_comments, charts, commands, the_page):
        test()
    what_has_not_settled(sys.argv[1])
    every_row_is_accepted(sys.argv[1])


if __name__ == "__main__":
    main()
