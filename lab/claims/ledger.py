"""lab/pages/claims.md from lab/results/claims.json: a row for each result of the papers, with the claim and our result.

Verdicts of the simulated machine stand in the same file, by row; python3 -m lab.claims.simulated --write-doc writes them. The rest of the
file is written by hand. Without an option, the script says whether the page agrees."""

import argparse
import json
import re
import sys

from harness import TREE

LEDGER = TREE / "lab" / "results" / "claims.json"
PAGE = TREE / "lab" / "pages" / "claims.md"
COLUMNS = ["shown_by", "seen"]  # the page's columns between the claim and the verdict
NOTHING = "–"


def read():
    return json.loads(LEDGER.read_text())


def write(ledger):
    LEDGER.write_text(json.dumps(ledger, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page_of(ledger))


def rows_named(cell):
    """Returns the rows that the first cell of a table row names: "T3, T4", "G1, G2, G4–G7"."""
    names = []
    for part in cell.replace(" ", "").split(","):
        first, _, last = part.partition("–")
        names += [f"{first[0]}{i}" for i in range(int(first[1:]), int(last[1:]) + 1)] if last else [part]
    return names


def brief(verdict):
    """Returns a verdict without the list of forms, if it holds in all forms."""
    return re.sub(r" over (all|both) [^;]*", "", verdict).replace("; a part is not answerable here", ", in part unanswerable")


def verdict_of(row, simulated):
    """Returns the row's own verdict, followed by those of the simulated machine."""
    names = rows_named(row["row"])
    shown = [(f"{name} " if len(names) > 1 else "") + brief(simulated[name]) for name in names if name in simulated]
    parts = [row["verdict"]] if "verdict" in row else []
    return "; ".join(parts + (["simulated: " + "; ".join(shown)] if shown else []))


def table_of(rows, simulated):
    lines = ["| | claimed | shown by | seen | verdict |", "|---|---|---|---|---|"]
    for row in rows:
        cells = [row["row"], f"{row['source']}: {row['claimed']}", *(row.get(column, NOTHING) for column in COLUMNS), verdict_of(row, simulated)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def page_of(ledger):
    parts = ["\n".join(ledger["introduction"])]
    for paper in ledger["papers"]:
        parts += [f"## {paper['title']}", table_of(paper["rows"], ledger["simulated"])] + ([paper["note"]] if "note" in paper else [])
    return "\n\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args()
    if options.write:
        PAGE.write_text(page_of(read()))
    elif PAGE.read_text() != page_of(read()):
        sys.exit("lab/pages/claims.md is not what lab/results/claims.json makes of it: python3 -m lab.claims.ledger --write")


if __name__ == "__main__":
    main()
