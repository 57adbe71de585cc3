#!/usr/bin/env python3
"""Collects results of `usher check` in tests/check/verification.json: verdicts of every lock, of mutants, and of memory orders that are
weakened one at a time. --tables writes a page of all results, and the table of unseen mutants (by authors who had not seen the
scenarios) in docs/verification.md.

  verification.py                                  runs everything that the file lacks; takes hours
  verification.py --only twa,mcs --again           runs these locks again
  verification.py --merge FILE...                  adds files that `usher check --json` has written
  verification.py --unseen LABEL FILE...           adds the number of unseen mutants that were caught: FILE is written by
                                                   `usher check --mutants NAME... --json`; LABEL: before3, after…
  verification.py --tables                         writes build/verification.md: every lock, the mutants that escape, the weakened
                                                   orders that no lock's scenarios catch. Runs nothing

Numbers of executions: --executions with 3 threads, --executions-4 with 4 threads, --mutants for each mutant, and
--weaken for each weakened order, with the lock's usual number of threads.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import catalog  # noqa: E402
import harness  # noqa: E402
import mutants  # noqa: E402
from harness import TREE, Build, between_markers, clean_environment, die  # noqa: E402

OUT = TREE / "tests" / "check" / "verification.json"
DOC = TREE / "docs" / "verification.md"
TABLES = TREE / "build" / "verification.md"
UNSEEN = TREE / "tests" / "check" / "unseen-mutants.json"


# ---- results ---------------------------------------------------------------------------------------------------------

def load(out):
    if out.is_file():
        return json.loads(out.read_text())
    return {"verdicts": {}, "mutants": {}, "orders": {}, "code": {}}


def save(out, results):
    """Writes the results as JSON with one line for each entry."""
    kinds = []
    for kind, entries in results.items():
        lines = [f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in sorted(entries.items())]
        kinds.append(f' {json.dumps(kind)}: {{\n' + ",\n".join(lines) + "\n }")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("{\n" + ",\n".join(kinds) + "\n}\n")


def by_lock(entries, key):
    locks = {}
    for e in entries:
        locks.setdefault(e[key], []).append(e)
    return locks


def merge(results, said):
    """Adds the results of one file of `usher check --json`. They replace older ones of the same lock with the same
    number of threads."""
    if said["interrupted"]:
        return
    for family, parts in by_lock(said["parts"], "family").items():
        rows = {}
        for p in parts:
            key = f"{p['lock']} {p['threads']}"
            row = rows.setdefault(key, {"lock": p["lock"], "family": family, "threads": p["threads"], "scenarios": [],
                                        "executions": 0, "seeds": [p["seed"], p["seed"]], "failed": [],
                                        "date": said["date"][:10]})
            row["scenarios"].append(p["scenario"])
            row["executions"] += p["executions"]
            row["seeds"][1] = max(row["seeds"][1], p["seed"] + p["executions"] - 1)
            if not p["passed"]:
                row["failed"].append({"scenario": p["scenario"], "why": p["why"], "replay": p["replay"]})
        results["verdicts"].update(rows)
    for m in said["mutants"]:
        by = m.get("by") and {key: m["by"][key] for key in ("lock", "scenario", "threads")}
        results["mutants"][m["name"]] = {"mutation": m["mutation"], "caught": m["caught"], "executions": m["executions"], "by": by,
                                         "why": m.get("why"), "replay": m.get("replay"), "date": said["date"][:10]}
    for lock, orders in by_lock(said["orders"], "lock").items():
        places = results["orders"][lock] = {}
        for o in orders:
            place = f"{o['file']}:{o['line']}:{o['column']}"
            results["code"][place] = o["code"]
            order = places[f"{place}:{o['made']}"] = {"date": said["date"][:10], "caught": o["caught"], "executions": o["executions"]}
            if o["caught"]:
                by = o["by"]
                order["by"] = f"{by['lock']}, {by['scenario']}, {by['threads']} threads, seed {o['replay']}: {o['why']}"


# ---- runs ------------------------------------------------------------------------------------------------------------

def families(build):
    """Returns the names of all targets except the mutants, without suffixes for ways of waiting."""
    done = subprocess.run([build.usher, "check", "--list"], capture_output=True, text=True, timeout=300,
                          env=clean_environment())
    if done.returncode != 0:
        die(done.stderr.strip(), 1)
    names = [cells[0] for cells in (re.split(r" {2,}", line.rstrip()) for line in done.stdout.splitlines()[1:])
             if len(cells) == 2]
    return [n for n in names if re.sub(r"-(spin|park)$", "", n) == n or re.sub(r"-(spin|park)$", "", n) not in names]


def check(build, *arguments):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run([build.usher, "check", *map(str, arguments), "--json", file.name], stdout=subprocess.DEVNULL,
                              env=clean_environment())
        if done.returncode not in (0, 1):
            sys.exit(done.returncode)
        return json.loads(Path(file.name).read_text())


def measure(options, build):
    results = load(options.out)
    everything = families(build)
    wanted = options.only.split(",") if options.only else everything
    for lock in wanted:
        if lock not in everything:
            die(f"no lock {lock} to check (usher check --list shows which there are)")
        for threads, executions in ((3, options.executions), (4, options.executions_4)):
            if options.again or f"{lock} {threads}" not in results["verdicts"]:
                print(f"{lock}: {threads} threads", flush=True)
                merge(results, check(build, lock, "--threads", threads, "--executions", executions))
                save(options.out, results)
        if options.again or lock not in results["orders"]:
            print(f"{lock}: orders weakened", flush=True)
            merge(results, check(build, "--weaken", lock, "--executions", options.weaken))
            save(options.out, results)
    if not options.only:
        print("mutants", flush=True)
        merge(results, check(build, "--mutants", "--executions", options.mutants))
        save(options.out, results)


# ---- the tables ------------------------------------------------------------------------------------------------------

def cell(text):
    return text.replace("|", "\\|")


def code(text):
    """Returns a line of code, shortened, as a cell of a table."""
    text = re.sub(r"\s*//.*", "", text)
    return "`" + cell(text if len(text) <= 90 else text[:89] + "…") + "`"


def names(locks, most=4):
    locks = sorted(locks)
    return ", ".join(locks) if len(locks) <= most else f"{', '.join(locks[:most])} and {len(locks) - most} more"


# Types that are not in the catalogue of locks, and the target that tests the mutants of each.
TARGETS = {"condition_parts": "wait-queue", "basic_condition_variable": "condition-variable", "semaphore_core": "semaphore",
           "check::counted_cohort": "c-tkt-tkt-1"}


def mutants_by_lock(results):
    """Returns the results of mutants by lock. A mutant belongs to the lock whose type its patch names."""
    types = {lock.type: lock.name for lock in catalog.locks()} | TARGETS
    found = {}
    for patch in sorted((TREE / mutants.PATCHES).glob("*.patch")):
        if patch.stem in results["mutants"]:
            kind = mutants.Mutant(patch).facts["Type"]
            lock = types.get(kind, kind.removeprefix("check::").replace("_", "-"))
            found.setdefault(lock, []).append(results["mutants"][patch.stem])
    return found


def once_each(lists):
    """Returns the elements of all lists in their order, without repetitions."""
    return list(dict.fromkeys(e for one in lists for e in one))


def share(entries):
    """Returns a text such as "4 of 5": how many of the entries are caught."""
    entries = list(entries)
    return f"{sum(e['caught'] for e in entries)} of {len(entries)}" if entries else ""


def form_of(verdict):
    return verdict["lock"].removeprefix(verdict["family"]).removeprefix("-") or "plain"


def verdict_of(verdicts):
    failed = [f"{v['lock']}, {f['scenario']}, {v['threads']} threads, seed {f['replay']}: {f['why']}"
              for v in verdicts for f in v["failed"]]
    return "**fails**: " + cell("; ".join(failed)) if failed else "pass"


def lock_table(results):
    """Returns a table with one row for each lock."""
    mutants_of = mutants_by_lock(results)
    rows = []
    for family, verdicts in sorted(by_lock(results["verdicts"].values(), "family").items()):
        rows.append([family, ", ".join(sorted({form_of(v) for v in verdicts}, key=("plain", "spin", "park").index)),
                     " ".join(once_each(v["scenarios"] for v in verdicts)),
                     ", ".join(sorted({str(v["threads"]) for v in verdicts})), f"{sum(v['executions'] for v in verdicts):,}",
                     verdict_of(verdicts), max(v["date"] for v in verdicts), share(mutants_of.get(family, [])),
                     share(results["orders"].get(family, {}).values())])
    return harness.markdown(rows, ["lock", "forms", "scenarios", "threads", "executions", "verdict", "date", "mutants caught",
                                   "orders caught"])


def escaped_table(results):
    """Returns the table of the mutants that no scenario catches."""
    rows = [[name, cell(mutants.Mutant(TREE / mutants.PATCHES / f"{name}.patch").summary), f"{m['executions']:,}", m["date"]]
            for name, m in sorted(results["mutants"].items()) if not m["caught"]]
    return (f"{share(results['mutants'].values())} mutants are caught. The others:\n\n" +
            harness.markdown(rows, ["mutant", "mutation", "executions", "date"]))


def order_table(results):
    """Returns the table of the weakened orders that no lock's scenarios catch, with one row for each place in the
    source. Several locks may execute the same place."""
    places = {}
    for lock, orders in results["orders"].items():
        for order, o in orders.items():
            # Older entries have no part `made`: in their runs the whole order became relaxed.
            file, line, column, made = re.fullmatch(r"(.+?):(\d+):(\d+)(?::(.+))?", order).groups()
            places.setdefault((file, int(line), int(column), made or "relaxed"), []).append((lock, o))
    rows = []
    for (file, line, column, made), entries in sorted(places.items()):
        if any(o["caught"] for _, o in entries):
            continue
        rows.append([file.removeprefix("usher/"), made, code(results["code"][f"{file}:{line}:{column}"]),
                     names([lock for lock, _ in entries]), f"{max(o['executions'] for _, o in entries):,}",
                     max(o["date"] for _, o in entries)])
    return (f"{len(places)} weakened orders: {len(places) - len(rows)} are caught in some lock, {len(rows)} in none:\n\n" +
            harness.markdown(rows, ["header", "made", "code", "locks", "executions of each, at most", "date"]))


# ---- mutants by authors who had not seen the scenarios -----------------------------------------------------------------

def unseen(which="yes"):
    """Returns {name: category} of a set of unseen mutants: the first set ("yes") or the second ("second")."""
    facts = {patch.stem: mutants.Mutant(patch).facts for patch in sorted((TREE / mutants.PATCHES).glob("*.patch"))}
    return {name: f["Category"] for name, f in facts.items() if f.get("Unseen") == which}


def merge_unseen(label, *files):
    """Adds the results in these files under the label. Each file has the results of one number of threads."""
    runs = json.loads(UNSEEN.read_text()) if UNSEEN.is_file() else {}
    all_said = [json.loads(Path(file).read_text()) for file in files]
    found = {m["name"]: m["caught"] for said in all_said for m in said["mutants"]}
    wanted = unseen("second" if label.startswith("second") else "yes")
    if missing := [name for name in wanted if name not in found]:
        die(f"the files have no result of {', '.join(missing)}")
    runs[label] = {"date": all_said[0]["date"][:10], "executions": all_said[0]["executions"],
                   "caught": sorted(name for name in wanted if found[name]),
                   "escaped": sorted(name for name in wanted if not found[name])}
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(runs.items())]
    UNSEEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def unseen_table(_):
    runs, wanted = json.loads(UNSEEN.read_text()), unseen()
    labels = ["before3", "before4", "blind", "after"]
    rows = []
    for category in (*mutants.CATEGORIES, None):
        names_of = [name for name, c in wanted.items() if category in (None, c)]
        cells = []
        for label in labels:
            if strange := [n for n in names_of if n not in runs[label]["caught"] + runs[label]["escaped"]]:
                die(f"{UNSEEN} does not say of {', '.join(strange)} whether it was caught ({label})")
            caught = sum(name in runs[label]["caught"] for name in names_of)
            share = f" ({100 * caught / len(names_of):.0f} %)" if category is None else ""
            cells.append(f"{caught}{share}")
        rows.append([f"**{category or 'all'}**" if category is None else category, str(len(names_of)), *cells])
    return harness.markdown(rows, ["category", "mutants", "caught before, 3 threads", "before, 4 threads",
                                   "new scenarios, at first", "now"])


PAGE = """# Results of `usher check`

Made by tests/check/verification.py from tests/check/verification.json, which has the seeds. docs/verification.md describes the method.

## Targets

One row for each target. *Executions* is the sum over the target's forms, scenarios and numbers of threads. *Mutants caught* counts the
mutants of this target. *Orders caught* is, for example, 18 of 20 if the target's forms execute 20 memory orders, and for 18 of them a
scenario failed when the order was weakened. Empty cells were not run.

{locks}

## Mutants

{mutants}

## Memory orders, weakened one at a time

File names and code are those of the date in the last column.

{orders}
"""


def write_tables(options):
    results = load(options.out)
    options.tables.parent.mkdir(parents=True, exist_ok=True)
    options.tables.write_text(PAGE.format(locks=lock_table(results), mutants=escaped_table(results), orders=order_table(results)))
    options.doc.write_text(between_markers(options.doc.read_text(), "unseen", unseen_table(results)))
    print(f"{len(results['verdicts'])} verdicts, {len(results['mutants'])} mutants, orders of {len(results['orders'])} "
          f"locks are in {options.tables}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="LOCKS", help="comma-separated (all)")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--executions", type=int, default=100000, metavar="N")
    parser.add_argument("--executions-4", type=int, default=20000, metavar="N")
    parser.add_argument("--weaken", type=int, default=20000, metavar="N")
    parser.add_argument("--mutants", type=int, default=100000, metavar="N")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--unseen", nargs="+", metavar=("LABEL", "FILE"))
    parser.add_argument("--tables", nargs="?", type=Path, const=TABLES, metavar="FILE", help="(build/verification.md)")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    parser.add_argument("--doc", type=Path, default=DOC, metavar="FILE")
    parser.add_argument("--build", default="build/release", metavar="DIR")
    options = parser.parse_args()
    if options.unseen:
        merge_unseen(*options.unseen)
    elif options.merge:
        results = load(options.out)
        for file in options.merge:
            merge(results, json.loads(file.read_text()))
        save(options.out, results)
    elif not options.tables:
        measure(options, Build(options.build))
    if options.tables:
        write_tables(options)


if __name__ == "__main__":
    main()
