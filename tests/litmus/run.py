#!/usr/bin/env python3
"""Runs the litmus tests of this folder by herd7 with Arm's model of AArch64, each test also with a mistake that herd7 must find.

  make litmus                          gets herd7 from Debian sid (build/sid-root), then runs this
  tests/litmus/run.py [NAME ...]       prints a table; status 1 if a result is not the required one
  tests/litmus/run.py --write          also writes results.json

A test is a hand-over of a lock between two threads, in the instructions that gcc 12 generates for the header's atomics:

  load acquire, seq_cst  LDAR      store release  STLR      relaxed  LDR, STR
  read-modify-write      SWP, LDADD, LDSET, LDCLR, LDEOR, CAS, with A for acquire and L for release, seq_cst as acq_rel

For a read-modify-write gcc calls a function (-moutline-atomics). It executes one of these instructions on processors with LSE, and
a loop of exclusive loads and stores on others. So each test is run in two forms: `lse`, as in the file, and `exclusive`, with the
loops. A loop is run once; an exclusive store that fails ends the execution.

The condition after `exists` is the forbidden outcome. The last sentence of a test's comment describes the mutant, in which herd7
must find this outcome, in at least one of the two forms. That also shows that the outcome is possible without the memory orders."""

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
SID = TREE / "build/sid-root"
OPERATIONS = {"SWP": None, "LDADD": "ADD", "LDSET": "ORR", "LDCLR": "BIC", "LDEOR": "EOR", "CAS": None}
AMO = re.compile(r"(SWP|LDADD|LDSET|LDCLR|LDEOR|CAS)(A?)(L?) W(\d+),W(\d+),(\[X\d+\])$")


def herd_command():
    """Returns the command of herd7: the one in the root that `make litmus` has unpacked, with that root's C library,
    else the one on PATH."""
    if (SID / "usr/bin/herd7").exists():
        lib = SID / "usr/lib/x86_64-linux-gnu"
        return [str(SID / "lib64/ld-linux-x86-64.so.2"), "--library-path", str(lib), str(SID / "usr/bin/herd7"),
                "-set-libdir", str(SID / "usr/share/herdtools7/herd")]
    return ["herd7"]


class Test:
    def __init__(self, path):
        self.name = path.stem
        head, self.comment, rest = re.fullmatch(r"(.*?\n)(\(\*.*?\*\)\n)(.*)", path.read_text(encoding="utf-8"), re.S).groups()
        self.init, code, self.condition = re.fullmatch(r"(\{.*?\n\}\n)(.*)exists \((.*)\)\n", rest, re.S).groups()
        rows = [[cell.strip() for cell in line.rstrip(" ;").split("|")] for line in code.splitlines()]
        self.threads = [[row[i] for row in rows[1:] if i < len(row) and row[i]] for i in range(len(rows[0]))]
        words = " ".join(self.comment.split())
        thread, old, new, self.mistake = re.search(r'Mutant: P(\d) "([^"]+)" -> "([^"]+)": (.*?)\. \*\)$', words).groups()
        self.mutant = [list(t) for t in self.threads]
        at = [i for i, line in enumerate(self.mutant[int(thread)]) if line == old]
        if len(at) != 1:
            sys.exit(f"{path}: the mutant's instruction is there {len(at)} times")
        self.mutant[int(thread)][at[0]:at[0] + 1] = new.split("; ")

    def text(self, threads, exclusive):
        condition = self.condition
        if exclusive:
            threads = [with_exclusives(t, i) for i, t in enumerate(threads)]
            # W26 becomes 1 when an exclusive store fails, so this excludes such executions.
            condition = f"({condition})" + "".join(f" /\\ {i}:X26=0" for i in range(len(threads)))
        rows = max(map(len, threads))
        table = "".join(" | ".join(t[r] if r < len(t) else "" for t in threads) + " ;\n" for r in range(rows))
        names = " | ".join(f"P{i}" for i in range(len(threads))) + " ;\n"
        return f"AArch64 {self.name}\n{self.init}{names}{table}exists ({condition})\n"


def with_exclusives(thread, number):
    """Returns the thread with the loops of libgcc's functions in place of the atomic instructions."""
    out, used = [], False
    for line in thread:
        match = AMO.fullmatch(line)
        if not match:
            out.append(line)
            continue
        used = True
        name, acquire, release, source, result, at = match.groups()
        load, store = "LDAXR" if acquire else "LDXR", "STLXR" if release else "STXR"
        if name == "CAS":
            label = f"DIFFERS{number}{len(out)}"
            out += [f"MOV W28,W{source}", f"{load} W{source},{at}", f"CMP W{source},W28", f"B.NE {label}",
                    f"{store} W29,W{result},{at}", f"CBNZ W29,FAILED{number}", f"{label}:"]
        else:
            out.append(f"{load} W{result},{at}")
            stored = f"W{source}"
            if OPERATIONS[name]:
                stored = "W28"
                out.append(f"{OPERATIONS[name]} W28,W{result},W{source}")
            out += [f"{store} W29,{stored},{at}", f"CBNZ W29,FAILED{number}"]
    return out + [f"B DONE{number}", f"FAILED{number}:", "MOV W26,#1", f"DONE{number}:"] if used else out


def verdict(herd, text):
    """Returns herd7's observation of the condition, Never or Sometimes, and the number of final states."""
    with tempfile.NamedTemporaryFile("w", suffix=".litmus", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([*herd, "-model", "aarch64.cat", file.name], check=False, capture_output=True,
                              text=True, timeout=300)
    states, found = re.search(r"^States (\d+)", done.stdout, re.M), re.search(r"^Observation \S+ (\w+)", done.stdout, re.M)
    if not states or not found:
        sys.exit(f"herd7 failed:\n{text}\n{done.stderr}")
    return found[1], int(states[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true", help="write results.json")
    options = parser.parse_args()
    herd = herd_command()
    version = subprocess.run([*herd, "-version"], check=True, capture_output=True, text=True).stdout.split(",")[0].strip()
    print(f"herd7 {version}, aarch64.cat. Is the forbidden outcome reachable, as it is / with the mutant's mistake?")
    results, failed = {}, []
    for path in sorted(HERE.glob("*.litmus")):
        if options.names and path.stem not in options.names:
            continue
        test = Test(path)
        row = {"mistake": test.mistake}
        for form in ("lse", "exclusive"):
            for of, threads in (("test", test.threads), ("mutant", test.mutant)):
                row[f"{form}.{of}"], row[f"{form}.{of}.states"] = verdict(herd, test.text(threads, form == "exclusive"))
        good = row["lse.test"] == row["exclusive.test"] == "Never" and "Sometimes" in (row["lse.mutant"], row["exclusive.mutant"])
        if not good:
            failed.append(test.name)
        results[test.name] = row
        print(f"{'ok  ' if good else 'FAIL'} {test.name:16}" + "".join(
            f" {form} {row[form + '.test'].lower()} / {row[form + '.mutant'].lower():9}" for form in ("lse", "exclusive")) + f" {test.mistake}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    if options.write and not options.names:
        record = {"herd7": version, "model": "aarch64.cat", "date": datetime.date.today().isoformat(), "tests": results}
        (HERE / "results.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
