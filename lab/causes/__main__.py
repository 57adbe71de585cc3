"""Judges the sentences of `usher stat` on programs whose cause of waiting is known.

  python3 -m lab.causes --seed 1 --count 60 --json FILE   drawn programs; about ten minutes
  python3 -m lab.causes --fixed [--only NAME,NAME]        programs with expected sentences; two minutes, without --truth
  python3 -m lab.causes --seed 1 --count 60 --list        the programs; nothing runs
  python3 -m lab.causes --show FILE                       the tables of a result
  python3 -m lab.pages causes                             make the page of lab/results/causes

The truth is measured: the program runs in turns with its cause and without it (--without of lab/programs/causes). The cause is
real if its removal gains 15 % of throughput in every round. Then `usher stat` records the program once, and its report is judged
by lab/causes/expected.py. Every run is in a session of its own, with the largest share of the CPUs if that is permitted, since
other programs on the machine would change the truth.

Right: rule, named object and words are among the acceptable ones. Dangerous: words that break the program, or claim the opposite
of the truth. Status 1: a fixed program failed; of the drawn ones fewer than nine tenths are right, or one had dangerous advice."""

import re
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import harness  # noqa: E402
from lab.causes import expected, programs  # noqa: E402
from lab.causes.truth import Runner  # noqa: E402
from lab.run import packed, rounds, script  # noqa: E402
from lab.run.runner import Failed  # noqa: E402

RIGHT_SHARE = 54 / 60  # of the drawn programs
RESULTS = harness.TREE / "lab/results/causes"


def entry_of(program, truth, report, judgement):
    row = judgement.row
    return {"name": program.name, "cause": program.cause, "without": program.without, "options": program.options, **(truth or {}),
            "rule": report["rule"], "verdict": report["verdict"], "next": report["next"],
            "row": row and {k: row[k] for k in ("name", "rule", "verdict")},
            "waited_share": round(sum(report["waited"].values()) / report["thread_seconds"], 5) if report["thread_seconds"] else 0,
            "right": judgement.right, "why": judgement.why, "dangerous": judgement.dangerous}


def mark(entry):
    return "DANGEROUS" if entry["dangerous"] else "right" if entry["right"] else "wrong"


def progress(entry):
    gain = f"{entry['gain']:.2f} ({entry['low']:.2f}–{entry['high']:.2f})" if "gain" in entry else ""
    print(f"{entry['name']:28} {entry['cause']:22} {gain:20} {entry['rule']:14} {mark(entry):9} "
          f"{'; '.join(filter(None, [entry['why'], ', '.join(entry['dangerous'])]))}", flush=True)


# ---- drawn programs ------------------------------------------------------------------------------------------------------

def run_drawn(runner, options, report):
    entries = []
    for program in programs.drawn(options.seed, options.count):
        with report.failures(f"{program.name} ({program.cause}, {' '.join(program.words())})"):
            truth = runner.truth(program)
            said = runner.stat(program, options.stat_seconds)
            entries.append(entry_of(program, truth, said, expected.judge(program.cause, truth["truth"], said)))
            progress(entries[-1])
    return entries


# ---- fixed programs ------------------------------------------------------------------------------------------------------

def judge_fixed(program, report):
    judgement = expected.judge_one(program.expects, report)
    wrong = [judgement.why] if judgement.why else []
    spoken = {report["rule"]} | {row["rule"] for row in report["rows"]}
    wrong += [f"says {rule}" for rule in sorted(program.silent & spoken)]
    if program.no_next and report["next"]:
        wrong.append("has a next command")
    judgement.why, judgement.right = ", ".join(wrong), not wrong
    return judgement


def run_fixed(runner, options, report):
    entries, chosen = [], [name for name in (options.only or "").split(",") if name]
    for name in chosen:
        if name not in {p.name for p in programs.FIXED}:
            harness.die(f"no fixed program is called {name}: {', '.join(p.name for p in programs.FIXED)}")
    for program in programs.FIXED:
        if chosen and program.name not in chosen:
            continue
        with report.failures(program.name):
            truth = runner.truth(program) if options.truth and program.without else None
            said = runner.stat(program, options.stat_seconds)
            entries.append(entry_of(program, truth, said, judge_fixed(program, said)) | {"shows": program.shows})
            progress(entries[-1])
    return entries


# ---- tables --------------------------------------------------------------------------------------------------------------

def truth_of(entry):
    return entry.get("truth") or "undecided"


def confusion(entries):
    """Returns the table cause × rule as Markdown; a cell has the number of programs, and in brackets how many were wrong."""
    rules = sorted({e["rule"] for e in entries})
    rows = []
    for cause, truth in sorted({(e["cause"], truth_of(e)) for e in entries}):
        line = [cause, truth]
        for rule in rules:
            there = [e for e in entries if (e["cause"], truth_of(e), e["rule"]) == (cause, truth, rule)]
            wrong = sum(not e["right"] or bool(e["dangerous"]) for e in there)
            line.append(f"{len(there)}{f' ({wrong})' if wrong else ''}" if there else "")
        rows.append(line)
    return harness.markdown(rows, ["cause", "removing it", *rules])


def cell(text):
    return re.sub(r"\s+", " ", text.replace("|", r"\|"))


def sentence(entry):
    return cell(entry["verdict"] + (f" Next: `{entry['next']}`" if entry["next"] else ""))


def outcome(entry):
    return "; ".join(filter(None, [entry["why"], entry["dangerous"] and "dangerous: " + ", ".join(entry["dangerous"])])) or "pass"


def sentences(entries):
    """Returns the table of the fixed programs as Markdown."""
    rows = [[e["name"], e["shows"], f"{e['gain']:.2f}" if "gain" in e else "", e["rule"], sentence(e), outcome(e)] for e in entries]
    return harness.markdown(rows, ["program", "what it is", "gain", "rule", "said", "judgement"])


def before_and_after(before, after):
    """Returns the fixed programs with the sentences of two results as Markdown."""
    then, rows = {e["name"]: e for e in before}, []
    for e in after:
        old = then.get(e["name"])
        said_before = [sentence(old), outcome(old)] if old else ["", ""]
        rows.append([e["shows"], f"{e['gain']:.2f}" if "gain" in e else "", *said_before, sentence(e), outcome(e)])
    return harness.markdown(rows, ["program", "gain", "said before", "", "says", ""])


def summary(entries):
    right, dangerous = sum(e["right"] for e in entries), sum(bool(e["dangerous"]) for e in entries)
    truths = Counter(truth_of(e) for e in entries if "gain" in e)
    return (f"{len(entries)} programs; right {right}, dangerous advice {dangerous}" +
            (f"; removing the cause: {', '.join(f'{n} {t}' for t, n in sorted(truths.items()))}" if truths else ""))


def show(document):
    entries = document["programs"]
    print(confusion(entries) if document["kind"] == "drawn" else sentences(entries))
    print()
    print(summary(entries))
    print(harness.provenance_line(document))


def page(text):
    """Returns the page: the results with the old and with the present rules of `usher stat` side by side, and the drawn programs."""
    before = packed.document(RESULTS / "before.json")
    after = packed.document(RESULTS / "fixed.json") if packed.is_there(RESULTS / "fixed.json") else None
    drawn = [packed.document(file) for file in [RESULTS / "before-drawn.json", *packed.files(RESULTS, "drawn-*.json")]]
    fixed = [before_and_after(before["programs"], after["programs"]) if after else sentences(before["programs"]), ""]
    for name, document in (("Before", before), ("Now", after)):
        fixed += [f"{name}: {summary(document['programs'])}. {harness.provenance_line(document)}", ""] if document else []
    parts = []
    for number, document in enumerate(drawn):
        when = "Now" if number else "Before"
        parts += [f"{when}, seed {document['seed']}: {summary(document['programs'])}.", "", confusion(document["programs"]), "",
                  harness.provenance_line(document), ""]
    text = harness.between_markers(text, "fixed", "\n".join(fixed).rstrip())
    return harness.between_markers(text, "drawn", "\n".join(parts).rstrip())


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--count", type=int, default=60, metavar="N", help="drawn programs (60)")
    parser.add_argument("--fixed", action="store_true", help="the fixed programs instead")
    parser.add_argument("--only", metavar="NAMES", help="of the fixed programs, comma-separated; those of an earlier FILE stay")
    parser.add_argument("--truth", action="store_true", help="measure the gain also of fixed programs")
    parser.add_argument("--seconds", type=float, default=1, metavar="S", help="length of a run with or without the cause (1)")
    parser.add_argument("--stat-seconds", type=float, default=2, metavar="S", help="length of the recorded run (2)")
    parser.add_argument("--usher", type=Path, metavar="FILE", help="the command that is judged (bin/usher of the build)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    parser.add_argument("--list", action="store_true", help="list the programs; nothing runs")
    parser.add_argument("--show", type=Path, metavar="FILE", help="the tables of a result; nothing runs")
    options = parser.parse_args()
    if options.show:
        show(packed.document(options.show))
        return 0
    if options.list:
        for p in programs.FIXED if options.fixed else programs.drawn(options.seed, options.count):
            print(f"{p.name:28} {p.cause:22} {' '.join(p.words())} --without {p.without}")
        return 0
    build = harness.Build(options.build)
    others, report = harness.OthersShare(), script.Report()
    with Runner(build, (options.usher or build.usher).resolve(), options.seconds) as runner:
        entries = (run_fixed if options.fixed else run_drawn)(runner, options, report)
    if options.only and options.json:  # the other programs of an earlier result stay
        entries = rounds.merged(options.json, "programs", entries, "name", [p.name for p in programs.FIXED])
    document = {"kind": "fixed" if options.fixed else "drawn", "seed": None if options.fixed else options.seed,
                **harness.provenance(build, others), "programs": entries}
    # Removes paths, which have no meaning on another machine.
    document["command"] = re.sub(r"(?<![\w.])/[\w./-]*/(?=[\w.-]+)", "", document["command"])
    if options.json:
        rounds.put(options.json, document)
    print()
    show(document)
    failed = report.end()
    if not entries:
        raise Failed("nothing was run")
    needed = len(entries) if options.fixed else RIGHT_SHARE * len(entries)
    good = sum(e["right"] for e in entries) >= needed and not any(e["dangerous"] for e in entries)
    return failed or (0 if good else 1)


if __name__ == "__main__":
    script.entry(main)
