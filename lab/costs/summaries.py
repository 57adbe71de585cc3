"""Makes pages that summarise measurements of many locks. A table has a row for the C library, one for the default lock, and one for each
family of the other locks (the headings of library/catalog/catalog.list). A cell of a family has the median lock and the worst lock. The
raw figures are in JSON files with one point a line."""

import json
import re
import statistics
import textwrap
from dataclasses import dataclass
from typing import Callable

import catalog
import harness

DEFAULT = "steady"
BY_NAME = 10  # a table of at most so many candidates has a row for each of them
WIDTH = 130

CELLS = ("A row with a number in parentheses stands for a family of locks, as [the catalogue](../../library/catalog/catalog.list) groups "
         "them. Its cells have the figure of the median lock, and that of the worst lock with its name.")


# ---- cells -----------------------------------------------------------------------------------------------------------

def number(value, form="{:.2f}"):
    return form.format(value).replace("-", "−")


def three_digits(value):
    size = abs(value)
    return number(value, "{:,.%df}" % (0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 1 else 3))


def whole(value):
    return number(value, "{:,.0f}")


def why_empty(point):
    """Returns the text of a cell for a point without a result."""
    if not point["failures"]:
        return "–"
    why = point["failures"][0]
    return f"> {why.split(' after ')[1]}" if why.startswith("hung") else f"**{why[:60]}**"


def of(*path, scale=1.0):
    """Returns a function that reads a figure from a round's JSON."""
    def get(result):
        for key in path:
            result = result[key]
        return result * scale
    return get


def itself(value):
    return value


def median(point, get=itself):
    values = [v for v in map(get, point["rounds"]) if v is not None]
    return statistics.median(values) if values else None


def figure(point, get=itself, show=three_digits):
    """Returns the median over the rounds, and its text. None if there is no point; the value is None if the point has no result."""
    if point is None:
        return None
    value = median(point, get)
    failed = len(point["failures"])
    text = why_empty(point) if value is None else show(value) + (f", **{failed} failed**" if failed else "")
    return value, text


def with_range(point, get=itself, form="{:.2f}"):
    """Returns the median over the rounds, and the range."""
    failed = len(point["failures"])
    return harness.median_range([get(r) for r in point["rounds"]], form) + (f", **{failed} failed**" if failed else "")


def at(points, **where):
    return [p for p in points if all(p.get(name) == value for name, value in where.items())]


def by_name(points):
    return {p["candidate"]: p for p in points}


def names_in(points):
    return list(by_name(points))


# ---- tables ----------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Column:
    """A column of a table. `figure` returns (value, text) for a candidate's name, or None. `least`: small values are bad. `brief`: the
    worst lock of a family is not shown."""
    heading: str
    figure: Callable
    least: bool = False
    brief: bool = False

    def ordered(self, names):
        """Returns [(value, text, name)], the best one first. A candidate without a result is the worst one."""
        found = [(*f, name) for name in names if (f := self.figure(name)) is not None]
        return sorted(found, key=lambda f: (f[0] is None, 0 if f[0] is None else -f[0] if self.least else f[0]))

    def cell(self, names):
        ordered = self.ordered(names)
        if not ordered:
            return "–"
        # The median; of two middle values the lower one. The list descends if `least` is set, otherwise it ascends.
        middle = ordered[len(ordered) // 2 if self.least else (len(ordered) - 1) // 2][1]
        _, worst, name = ordered[-1]
        return middle if self.brief or worst == middle else f"{middle}; {worst} {code(name)}"


def code(name):
    return f"`{name}`" if name in {lock.name for lock in catalog.locks()} else name


def listed(names):
    return ", ".join(map(code, names))


def families(names):
    """Returns {name of the row: its locks}."""
    if len(names) <= BY_NAME:
        return {code(name): [name] for name in names}
    ours = {lock.name: re.split("[:,]", lock.heading)[0] for lock in catalog.locks() if not lock.is_the_c_librarys}
    found = {code(name): [name] for name in names if name not in ours}
    if DEFAULT in names:
        found[f"`{DEFAULT}`, the default"] = [DEFAULT]
    members = {}
    for name, family in ours.items():
        if name in names and name != DEFAULT:
            members.setdefault(family, []).append(name)
    return {**found, **{f"{name} ({len(those)})": those for name, those in members.items()}}


def table(names, columns, first="lock"):
    """Returns the heading and the rows."""
    return ([first] + [c.heading for c in columns],
            [[row] + [c.cell(those) for c in columns] for row, those in families(names).items()])


def extremes(column, names, unit=""):
    """Returns the best and the worst candidate as text, without ranges."""
    ordered = [f for f in column.ordered(names) if f[0] is not None]
    if not ordered:
        return "no result"
    (best, one), (worst, other) = ((text.split(" (")[0], name) for _, text, name in (ordered[0], ordered[-1]))
    return f"{best} ({code(one)}) to {worst} ({code(other)})" + (f" {unit}" if unit else "")


# ---- pages and files -------------------------------------------------------------------------------------------------

def filled(text, indent=""):
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def without_default(names):
    return "" if DEFAULT in names else f"`{DEFAULT}`, the default lock, was not measured."


def measuring(command):
    """Returns the measuring command without the options that name files, except --build."""
    return re.sub(r" --(?!build )[a-z-]+ \S*/\S*", "", command)


def provenance(groups):
    """Returns one line for each machine, commit and command."""
    alike = {}
    for name, group in groups.items():
        alike.setdefault(harness.provenance_line({**group, "date": group["date"][:10], "command": measuring(group["command"]),
                                                  "others_cpu_share": 0}).rsplit(". Other programs", 1)[0], []).append(name)
    for line, names in alike.items():
        yield filled(f"{line}.")
        yield harness.markdown([[name, rounds_of(groups[name]) or "–", f"{100 * groups[name]['others_cpu_share']:.1f} "
                                                                       f"%"] for name in names],
                               ["group of measurements", "rounds of a point", "CPU time of other programs"])


def rounds_of(group):
    counts = sorted({len(p["rounds"]) for p in group["points"] if "rounds" in p})
    return "–".join(str(n) for n in dict.fromkeys(counts[:1] + counts[-1:]))


def page(title, introduction, groups, tables, raw):
    """Returns a page. `tables` has, by a group's name, [(title, text, heading, rows)]. Lines of a text that begin with a hyphen become a
    list."""
    text = [f"# {title}\n"] + ([filled(introduction) + "\n"] if introduction else [])
    for name, group in groups.items():
        for heading, explanation, head, rows in tables(name):
            lines = "\n".join(filled(line, "  " if line.startswith("- ") else "") for line in explanation.split("\n"))
            text.append(f"## {heading}\n\n{lines}\n\n{harness.markdown(rows, head)}\n")
        text += [filled(f"**{remark}**") + "\n" for remark in group.get("remarks", [])]
    text.append("## Raw figures and provenance\n")
    text.append(filled(f"The figures of all rounds are in [{raw}](../results/{raw}).") + "\n")
    text += [line + "\n" for line in provenance(groups)]
    return "\n".join(text)


def compact(name, groups):
    """Returns JSON with one point a line, so that a diff shows the changed points."""
    def short(value):
        return json.dumps(value, separators=(",", ":"))

    parts = []
    for group, content in groups.items():
        rest = {key: value for key, value in content.items() if key != "points"}
        parts.append(f'{short(group)}:{short(rest)[:-1]},"points":[\n' + ",\n".join(map(short, content["points"])) + "]}")
    return f'{{"measurement":{short(name)},"groups":{{{",".join(parts)}}}}}\n'
