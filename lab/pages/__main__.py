"""The pages of measurements. claims.md, arena.md and try.md are in the tree; the others are made of lab/results and of the texts
NAME.txt of this folder:

  python3 -m lab.pages NAME...     writes build/pages/NAME.md; without a name all pages
  python3 -m lab.pages --list"""

import argparse
import functools
import os
import re
from pathlib import Path

import lab  # noqa: F401
import harness
from harness import TREE
from lab.arena import simulated as arena_simulated
from lab.cases import arm_forms, replayed, replayed_native, stat_cases, try_power
from lab.causes import __main__ as causes
from lab.claims import held_out
from lab.claims import simulated as simulated_claims
from lab.costs import measure_alignment, measure_cost, measure_waits, mutexbench_all
from lab.roots import __main__ as roots

FOLDER = Path(__file__).resolve().parent
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def as_written(text):
    return text


# Each function gets the page's text, with places for tables between its markers ("" if there is no text), and returns the page.
PAGES = {
    "alignment": measure_alignment.page,
    "arena-simulated": arena_simulated.page,
    "arm-forms": arm_forms.page,
    "calibration": as_written,
    "causes": causes.page,
    "condition-variables": functools.partial(measure_waits.stored_page, "condition-variables"),
    "faults": functools.partial(measure_waits.stored_page, "faults"),
    "held-out": held_out.whole_page,
    "mutexbench": mutexbench_all.few_locks,
    "mutexbench-all": mutexbench_all.stored_page,
    "pair-cost": functools.partial(measure_cost.stored_page, "pair-cost"),
    "pair-cost-tickets": functools.partial(measure_cost.stored_page, "pair-cost-tickets"),
    "replayed": replayed.page,
    "replayed-native": replayed_native.page,
    "roots": roots.page,
    "simulated-claims": simulated_claims.whole_page,
    "simulator-speed": as_written,
    "simulator-tables": as_written,
    "soak": as_written,
    "stat": stat_cases.page,
    "try-itself": try_power.page,
    "waits": functools.partial(measure_waits.stored_page, "waits"),
}


def text_of(name):
    file = FOLDER / f"{name}.txt"
    return file.read_text() if file.is_file() else ""


def relinked(text, folder):
    """Returns the text with its links changed: they are relative to a page in this folder, and become relative to `folder`. All pages
    that are made lie in one folder."""
    def link(found):
        target, place = found[1], found[2] or ""
        if target.removesuffix(".md") not in PAGES:
            target = os.path.relpath(FOLDER / target, folder)
        return f"]({target}{place})"
    return LINK.sub(link, text)


def made(name, folder):
    return relinked(PAGES[name](text_of(name)), folder)


def write(names, folder):
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.md").write_text(made(name, folder))
        print(os.path.relpath(folder / f"{name}.md"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="the names")
    parser.add_argument("--out", type=Path, default=TREE / "build" / "pages", metavar="DIR", help="(build/pages)")
    options = parser.parse_args()
    for name in options.names:
        if name not in PAGES:
            harness.die(f"unknown page '{name}': {', '.join(PAGES)}")
    print("\n".join(PAGES)) if options.list else write(options.names or PAGES, options.out)


if __name__ == "__main__":
    main()
