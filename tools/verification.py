#!/usr/bin/env python3
"""What `usher check` has shown of every lock: verdicts, seeded mistakes, memory orders weakened one at a time. The results
are in one file, lock by lock, and in the tables of docs/verification.md.

  verification.py                                  everything that is not there yet; hours
  verification.py --only twa,mcs --again           some of it once more
  verification.py --merge FILE...                  take over what `usher check --json` has written
  verification.py --unseen LABEL FILE...           take over how many mistakes that the scenarios' authors had not seen were caught:
                                                   FILE is `usher check --bugs NAME... --json` has written; LABEL: before3, after…
  verification.py --write-doc                      set the results into docs/verification.md

Executions: --executions at 3 threads, --executions-4 at 4 threads, --weaken for each order at the lock's usual number of
threads, --bugs for each seeded mistake."""

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import mutants
from harness import TREE, Build, between_markers, clean_environment, die

OUT = TREE / "results" / "verification.json"
DOC = TREE / "docs" / "verification.md"
UNSEEN = TREE / "results" / "unseen-mutants.json"


# ---- results ---------------------------------------------------------------------------------------------------------

def load(out):
    if out.is_file():
        return json.loads(out.read_text())
    return {"verdicts": {}, "mistakes": {}, "orders": {}, "code": {}}


def save(out, results):
    """One line an entry."""
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
    """One output of `usher check --json`. What it says of a lock and a number of threads replaces what was there."""
    if said["interrupted"]:
        return
    for family, parts in by_lock(said["parts"], "family").items():
        rows = {}
        for p in parts:
            key = f"{p['lock']} {p['threads']}"
            row = rows.setdefault(key, {"lock": p["lock"], "family": family, "threads": p["threads"], "clients": [],
                                        "executions": 0, "seeds": [p["seed"], p["seed"]], "failed": [],
                                        "date": said["date"][:10]})
            row["clients"].append(p["client"])
            row["executions"] += p["executions"]
            row["seeds"][1] = max(row["seeds"][1], p["seed"] + p["executions"] - 1)
            if not p["passed"]:
                row["failed"].append({"client": p["client"], "why": p["why"], "replay": p["replay"]})
        results["verdicts"].update(rows)
    for m in said["mistakes"]:
        results["mistakes"][m["lock"]] = {"bug": m["bug"], "caught": m["caught"], "executions": m["executions"],
                                          "by": m.get("by"), "why": m.get("why"), "replay": m.get("replay"),
                                          "date": said["date"][:10]}
    for lock, orders in by_lock(said["orders"], "lock").items():
        places = results["orders"][lock] = {}
        for o in orders:
            place = f"{o['file']}:{o['line']}:{o['column']}"
            results["code"][place] = o["code"]
            order = places[f"{place}:{o['made']}"] = {"date": said["date"][:10], "caught": o["caught"], "executions": o["executions"]}
            if o["caught"]:
                by = o["by"]
                order["by"] = f"{by['lock']}, {by['client']}, {by['threads']} threads, seed {o['replay']}: {o['why']}"


# ---- runs ------------------------------------------------------------------------------------------------------------

def families(build):
    """All that can be checked and has no seeded mistake, without the ways of waiting."""
    done = subprocess.run([build.usher, "check", "--list"], capture_output=True, text=True, timeout=60,
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
        print("seeded mistakes", flush=True)
        merge(results, check(build, "--bugs", "--executions", options.bugs))
        save(options.out, results)


# ---- the page --------------------------------------------------------------------------------------------------------

def cell(text):
    return text.replace("|", "\\|")


def code(text):
    """A line of code, cut, as a cell."""
    text = re.sub(r"\s*//.*", "", text)
    return "`" + cell(text if len(text) <= 90 else text[:89] + "…") + "`"


def names(locks, most=4):
    locks = sorted(locks)
    return ", ".join(locks) if len(locks) <= most else f"{', '.join(locks[:most])} and {len(locks) - most} more"


def verdict_table(results):
    rows = []
    for v in results["verdicts"].values():
        verdict = "pass" if not v["failed"] else "**fails**: " + "; ".join(
            f"{f['client']}, seed {f['replay']}: {f['why']}" for f in v["failed"])
        rows.append([v["lock"], str(v["threads"]), " ".join(v["clients"]), str(v["executions"]),
                     f"{v['seeds'][0]}–{v['seeds'][1]}", verdict, v["date"]])
    return harness.markdown(rows, ["lock", "threads", "clients", "executions", "seeds", "verdict", "date"])


def mistake_table(results):
    rows = []
    for name, m in results["mistakes"].items():
        by = f"{m['by']['lock']}, {m['by']['client']}, {m['by']['threads']} threads, seed {m['replay']}" if m["caught"] else ""
        rows.append([name, cell(m["bug"]), m["why"] if m["caught"] else "**not caught**", by, m["date"]])
    return harness.markdown(rows, ["name", "what is wrong", "caught: what happens", "by", "date"])


def order_table(results):
    """One row a place in the source and what is made of its order, whatever locks come by it."""
    sites = {}
    for lock, orders in results["orders"].items():
        for order, o in orders.items():
            # Entries that are older than halves of orders do not say what was made of them: all was relaxed.
            file, line, column, made = re.fullmatch(r"(.+?):(\d+):(\d+)(?::(.+))?", order).groups()
            s = sites.setdefault((file, int(line), int(column), made or "relaxed"),
                                 {"code": results["code"][f"{file}:{line}:{column}"], "caught": [], "survives": []})
            s["caught" if o["caught"] else "survives"].append((o["executions"], lock, o))
    # A line with two operations has rows for each.
    rows, needed = [], 0
    for (file, line, _, made), s in sorted(sites.items()):
        by = "**survives**"
        if s["caught"]:
            needed += 1
            by = min(s["caught"], key=lambda c: c[:2])[2]["by"].split(": ")
            by = f"{by[0]}: {by[1]}"
        rest = names([lock for _, lock, _ in s["survives"]])
        if rest:
            rest += f" ({max(n for n, _, _ in s['survives'])})"
        rows.append([f"{file.removeprefix('usher/')}:{line}", made, code(s["code"]), by, rest])
    places = len({site[:3] for site in sites})
    text = (f"{len(rows)} weakened orders at {places} places: {needed} are missed by some lock, {len(rows) - needed} by "
            f"none.\n\n")
    return text + harness.markdown(rows, ["place", "made", "code", "caught by", "survives in (executions, at most)"])


# ---- mistakes that the scenarios' authors had not seen ------------------------------------------------------------------

def unseen():
    """By name, the category."""
    facts = {patch.stem: mutants.Mutant(patch).facts for patch in sorted((TREE / mutants.PATCHES).glob("*.patch"))}
    return {name: f["Category"] for name, f in facts.items() if "Unseen" in f}


def merge_unseen(label, *files):
    """Each at one number of threads."""
    runs = json.loads(UNSEEN.read_text()) if UNSEEN.is_file() else {}
    all_said = [json.loads(Path(file).read_text()) for file in files]
    found = {m["lock"]: m["caught"] for said in all_said for m in said["mistakes"]}
    if missing := [name for name in unseen() if name not in found]:
        die(f"nothing is said of {', '.join(missing)}")
    runs[label] = {"date": all_said[0]["date"][:10], "executions": all_said[0]["executions"],
                   "caught": sorted(name for name in unseen() if found[name]),
                   "escaped": sorted(name for name in unseen() if not found[name])}
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
    return harness.markdown(rows, ["category", "mistakes", "caught before, 3 threads", "before, 4 threads",
                                   "new scenarios, at first", "now"])


def write_doc(options):
    results = load(options.out)
    text = options.doc.read_text()
    for name, table in (("verdicts", verdict_table), ("unseen", unseen_table), ("mistakes", mistake_table),
                        ("orders", order_table)):
        text = between_markers(text, name, table(results))
    options.doc.write_text(text)
    print(f"{len(results['verdicts'])} verdicts, {len(results['mistakes'])} mistakes, orders of {len(results['orders'])} "
          f"locks are in {options.doc}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="LOCKS", help="comma-separated (all)")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--executions", type=int, default=100000, metavar="N")
    parser.add_argument("--executions-4", type=int, default=20000, metavar="N")
    parser.add_argument("--weaken", type=int, default=20000, metavar="N")
    parser.add_argument("--bugs", type=int, default=100000, metavar="N")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--unseen", nargs="+", metavar=("LABEL", "FILE"))
    parser.add_argument("--write-doc", action="store_true")
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
    elif not options.write_doc:
        measure(options, Build(options.build))
    if options.write_doc:
        write_doc(options)


if __name__ == "__main__":
    main()
