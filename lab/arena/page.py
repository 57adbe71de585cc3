"""The arena's page: a summary of the results, between the markers of lab/pages/arena.md; a heat map for each lock, and the picture of
README.md. All results are in lab/results/arena/*.jsonl, and `python3 -m lab.arena judge` prints them by point."""

import math
import os
import re
import statistics
import textwrap
from xml.sax.saxutils import escape

from lab.arena import judge
from lab.arena import picture as arena_picture
import harness
from lab.arena.judge import CAUSE, CONTROL, CPU_LIMIT, LOSS
from lab.arena.points import GROUPS
from harness import die

MARKER = "arena: results"
WIDTH = 148  # of a line
NAMED = 10   # the page names undecided points if there are no more than this
LONG_WAIT, MUCH_LONGER = 0.002, 2  # a longest wait is shown if it is at least the first (in s), and the second times the other
LIBRARIES_APART = 1.1
SHARE_APART = 0.2                  # the page shows a smallest share that differs from the C library's by this


def interval_text(e, decimals=2):
    """Returns the estimate as text, without an interval if the rounds were too few."""
    if e is None:
        return "–"
    if e.low == 0:
        return f"{e.value:.{decimals}f}"
    return f"{e.value:.{decimals}f} ({e.low:.{decimals}f}–{e.high:.{decimals}f})"


def milliseconds(pair):
    return " → ".join(f"{1e3 * v:.0f}" if v >= 0.01 else f"{1e3 * v:.2g}" for v in pair) if pair else "–"


def short(pair, form="{:.2g}"):
    return " → ".join(form.format(v) for v in pair) if pair else "–"


class Judged:
    """All comparisons of one machine and C library."""

    def __init__(self, arena):
        self.arena, self.points = arena, arena.points()
        self.comparisons = {lock: {p.name: arena.compare(p.name, lock) for p in self.points} for lock in arena.locks + [CONTROL]}

    def mean(self, lock, key, *groups):
        return judge.mean_with_interval([self.arena.ratios(p.name, lock, key) for p in self.points if not groups or p.group in groups])

    def run(self, lock, *groups):
        """Returns the comparisons in which a round or a failed run exists."""
        mine = [self.comparisons[lock][p.name] for p in self.points if not groups or p.group in groups]
        return [c for c in mine if c.rounds or c.failures]

    def with_verdict(self, lock, *words, groups=()):
        return [c for c in self.run(lock, *groups) if c.verdict in words]

    def costly(self, lock):
        return [c for c in self.comparisons[lock].values() if c.cpu and c.cpu.low > CPU_LIMIT]


# ---- text ---------------------------------------------------------------------------------------------------------------

def place_line(arena):
    sessions = list(arena.sessions.values())
    last = sessions[-1]
    m = last["machine"]
    days = sorted({s["date"][:10] for s in sessions})
    others = [r["others"] for rounds in arena.rounds.values() for round_ in rounds.values() for r in round_.values() if "others" in r]
    quotas = sorted({r["quota_by"] for rounds in arena.rounds.values() for round_ in rounds.values() for r in round_.values() if "quota_by" in r})
    commits = ", ".join(dict.fromkeys(s["commit"] for s in sessions))
    packages = ", ".join(sorted({f"{name} {version}" for s in sessions for name, version in s["packages"].items()}))
    text = (f"Measured on {m['cpu']}, {m['cpus']} CPUs, {m['kernel']}, {last['libc']}; "
            f"{days[0]}{' to ' + days[-1] if len(days) > 1 else ''}; "
            f"builds of commit {commits}, by {last['compiler']}; last command `{last['command']}`. A step of the work in a section takes "
            f"{last['step_ns']:.2f} ns.")
    if others:
        text += (f" Other programs took {100 * statistics.median(others):.1f} % of the CPU time in the median run.")
    if quotas:
        text += f" CPU quotas were set by {', '.join(quotas)}."
    return text + (f" Versions of the packages: {packages}." if packages else "")


def time_ratio(judged, lock, name):
    """Returns the ratio of the times of uncontended calls, from the fastest run of each."""
    c = judged.comparisons[lock].get(name)
    return f"{1 / c.ratio_of_minima:.2f}" if c and c.ratio_of_minima else "–"


def bars(judged):
    """Returns a table of the criteria that a default lock must meet, with each lock's result."""
    names = {p.name for p in judged.points}
    rows = []

    def row(what, wanted, tell):
        cells = [tell(lock) for lock in judged.arena.locks + [CONTROL]]
        if any(cell != "–" for cell in cells):
            rows.append([what, wanted] + cells)

    def times(prefix):
        parts = [f"{prefix}-{what}" for what in ("pair", "try", "recursive")]
        return lambda lock: ", ".join(time_ratio(judged, lock, p) for p in parts) if any(p in names for p in parts) else "–"

    row("no threads: pair, trylock, recursive (time)", "≤ 1.10 each", times("alone"))
    row("threads, uncontended: the same", "≤ 1.02, 1.02, 1.05", times("calm"))
    row(f"points whose whole interval is below {LOSS}", "none", lambda lock: str(len(judged.with_verdict(lock, "lost"))))
    row("undecided, of the points that were run", "few",
        lambda lock: f"{len(judged.with_verdict(lock, 'undecided'))} of {len(judged.run(lock))}")
    row("MutexBench, geometric mean", "≥ 1.3", lambda lock: interval_text(judged.mean(lock, "rate", "mutexbench")))
    row("all points, geometric mean", "", lambda lock: interval_text(judged.mean(lock, "rate")))
    for threads in (8, 32):
        name = f"sysbench-threads-{threads}"
        row(f"sysbench threads, {threads}", "≥ 0.95",
            lambda lock, name=name: interval_text(judged.comparisons[lock][name].throughput) if name in names else "–")
    row("CPU for the same work, geometric mean", "≤ 0.8", lambda lock: interval_text(judged.mean(lock, "cost")))
    row(f"points whose CPU interval is above {CPU_LIMIT:.2f}", "none", lambda lock: str(len(judged.costly(lock))))
    if "20u-0-64" in names:
        row("longest wait, 64 threads, 20 µs, ms: C library → lock", "not worse", lambda lock: milliseconds(judged.comparisons[lock]["20u-0-64"].longest))
        row("smallest share there", "not worse", lambda lock: short(judged.comparisons[lock]["20u-0-64"].share, "{:.3f}"))
    heading = ["", "wanted"] + [f"`{lock}`" for lock in judged.arena.locks] + ["the C library again"]
    return harness.markdown(rows, heading)


def listed(comparisons, figure):
    return ", ".join(f"`{c.point}` {figure(c)}" for c in comparisons) or "none"


def by_value(comparisons, key, largest_first=False):
    return sorted(comparisons, key=lambda c: getattr(c, key).value, reverse=largest_first)


def group_table(judged, lock):
    rows = []
    for group, title in GROUPS.items():
        run = judged.run(lock, group)
        if not run:
            continue
        counts = [str(len(judged.with_verdict(lock, word, groups=(group,)))) for word in ("won", "lost", "undecided")]
        means = [interval_text(judged.mean(lock, key, group)) for key in ("rate", "cost")]
        rows.append([title, str(len(run))] + means + counts)
    return harness.markdown(rows, ["group", "points", "throughput", "CPU", "won", "lost", "undecided"])


def undecided_text(judged, lock):
    run, open_ = judged.run(lock), judged.with_verdict(lock, "undecided")
    text = f"{len(open_)} of {len(run)}"
    if few := sum(c.throughput is not None and c.throughput.low == 0 for c in open_):
        text += f", {'all' if few == len(open_) else few} of them with too few rounds for an interval"
    return text + (f": {', '.join(f'`{c.point}`' for c in open_)}" if 0 < len(open_) <= NAMED else "")


def counts_text(judged, lock):
    counts = ", ".join(f"{len(judged.with_verdict(lock, word))} {word}" for word in ("lost", "won", "undecided"))
    return f"`{lock}` {counts} of {len(judged.run(lock))} points"


def wait_rows(run):
    """Returns the longest waits and smallest shares that are much worse or much better than the C library's."""
    far = [c for c in run if c.longest and max(c.longest) >= LONG_WAIT and max(c.longest) >= MUCH_LONGER * min(c.longest)]
    far.sort(key=lambda c: -max(c.longest) / max(min(c.longest), 1e-9))
    apart = [c for c in run if c.share and abs(c.share[1] - c.share[0]) >= SHARE_APART]
    apart.sort(key=lambda c: -abs(c.share[1] - c.share[0]))

    def waits(some):
        return listed(some, lambda c: milliseconds(c.longest))

    def shares(some):
        return listed(some, lambda c: short(c.share, "{:.2f}"))

    lines = [("longest wait much longer, ms", waits, [c for c in far if c.longest[1] > c.longest[0]]),
             ("longest wait much shorter, ms", waits, [c for c in far if c.longest[1] < c.longest[0]]),
             ("smallest share much smaller", shares, [c for c in apart if c.share[1] < c.share[0]]),
             ("smallest share much larger", shares, [c for c in apart if c.share[1] > c.share[0]])]
    return [[f"{what}: C library → lock", text(some)] for what, text, some in lines if some]


def points_table(judged, lock):
    """Returns a table that lists the points by their result."""
    run = judged.run(lock)
    won = by_value(judged.with_verdict(lock, "won"), "throughput", largest_first=True)
    lost = by_value(judged.with_verdict(lock, "lost"), "throughput")
    behind = by_value([c for c in run if c not in lost and c.throughput and c.throughput.value < CAUSE], "throughput")
    costly = by_value(judged.costly(lock), "cpu", largest_first=True)
    nearly = by_value([c for c in run if c not in costly and c.cpu and c.cpu.value > CPU_LIMIT], "cpu", largest_first=True)
    failed = [c for c in run if c.failures]
    rows = [["won: throughput, whole interval above 1", listed(won, lambda c: f"{c.throughput.value:.2f}")],
            [f"lost: throughput, whole interval below {LOSS}", listed(lost, lambda c: interval_text(c.throughput))],
            [f"throughput estimated below {CAUSE}, not lost", listed(behind, lambda c: interval_text(c.throughput))],
            [f"CPU time, whole interval above {CPU_LIMIT:.2f}", listed(costly, lambda c: interval_text(c.cpu))],
            [f"CPU time estimated above {CPU_LIMIT:.2f}, not the whole interval", listed(nearly, lambda c: interval_text(c.cpu))],
            ["undecided", undecided_text(judged, lock)]] + wait_rows(run)
    if failed:
        rows.append(["failed runs", listed(failed, lambda c: f"{len(c.failures)} ({c.failures[-1]})")])
    return harness.markdown(rows, ["result against the C library", "points"])


def place_name(place):
    return f"{place[0]}, {place[1]} CPUs, {place[2]}"


def file_name(kind, lock, place, places):
    """Returns the file name of a picture. If the results are from several places, the name contains the processor, the number of CPUs
    and the C library."""
    if len(places) == 1:
        return f"{kind}-{lock}.svg"
    processor = "-".join(re.findall(r"[a-z0-9]+", re.sub(r"\(\w+\)|\b(processor|cpu)\b|@.*", "", place[0].lower())))
    return f"{kind}-{lock}-{processor}-{place[1]}-{place[2].replace(' ', '-')}.svg"


def picture_of_programs(judged, lock, folder, places):
    """Draws the picture of README.md if enough programs have been run."""
    day = max(s["date"][:10] for s in judged.arena.sessions.values())
    text = arena_picture.programs(judged.arena, lock, place_name(judged.arena.place), day)
    if text:
        (folder / file_name("programs", lock, judged.arena.place, places)).write_text(text)


def two_libraries(all_judged):
    """Returns the points whose results differ between two C libraries on one machine."""
    blocks = []
    for machine in dict.fromkeys(j.arena.place[:2] for j in all_judged):
        there = [j for j in all_judged if j.arena.place[:2] == machine]
        locks = [lock for lock in there[0].arena.locks if all(lock in j.arena.locks for j in there)]
        if len(there) < 2 or not locks:
            continue
        names = [p.name for p in there[0].points if all(p.name in {q.name for q in j.points} for j in there)]
        for lock in locks:
            found = {name: [j.comparisons[lock][name].throughput for j in there] for name in names}
            apart = {name: es for name, es in found.items()
                     if all(es) and max(e.value for e in es) >= LIBRARIES_APART * min(e.value for e in es)}
            text = (f"`{lock}`, {machine[0]}, {machine[1]} CPUs: {len(apart)} of {len(names)} points have estimates that differ by a factor of "
                    f"{LIBRARIES_APART} or more.")
            rows = [[f"`{name}`"] + [interval_text(e) for e in es] for name, es in apart.items()]
            blocks.append(text + ("\n\n" + harness.markdown(rows, ["point"] + [j.arena.place[2] for j in there]) if rows else ""))
    return "\n\n".join(blocks)


def write(results, options):
    page = options.page
    if not page.is_file():
        die(f"{page} is missing: it is written by hand but for the results", 1)
    places = results.places()
    options.charts.mkdir(parents=True, exist_ok=True)
    all_judged = [Judged(results.of(place, options.others)) for place in places]
    all_judged = [j for j in all_judged if j.arena.locks]
    blocks = ["\n".join(f"- {place_name(j.arena.place)}: {counts_text(j, lock)}" for j in all_judged for lock in j.arena.locks)]
    for j in all_judged:
        error = f"{judge.FAMILY_ERROR} / {len(j.points)}"
        origin = textwrap.fill(f"{place_line(j.arena)} Error of an interval: {error}.", WIDTH,
                               break_long_words=False, break_on_hyphens=False)
        blocks += [f"## {place_name(j.arena.place)}", origin, bars(j)]
        for lock in j.arena.locks:
            chart = options.charts / file_name("heat", lock, j.arena.place, places)
            chart.write_text(heat_map(j, lock))
            picture_of_programs(j, lock, options.charts, places)
            if len(j.arena.locks) > 1:
                blocks += [f"### `{lock}`"]
            blocks += [f"[{lock} by point]({os.path.relpath(chart, page.resolve().parent)})", group_table(j, lock), points_table(j, lock)]
    side_by_side = two_libraries(all_judged)
    if side_by_side:
        blocks += ["## Two C libraries", side_by_side]
    page.write_text(harness.between_markers(page.read_text(), MARKER, "\n\n".join(blocks)))
    print(f"{os.path.relpath(page)}: {len(all_judged)} machines and C libraries, {sum(len(j.arena.locks) for j in all_judged)} heat maps")
    return 0


# ---- heat map -----------------------------------------------------------------------------------------------------------

CELL, HIGH, LEFT, PITCH, ACROSS = 92, 40, 180, 128, 8  # pixels, with room for wide fonts; cells in a row


def colour(ratio):
    """Returns a shade of blue for a ratio above 1 and of orange below 1; the colour is full at 2 and at 1/2."""
    x = max(-1.0, min(1.0, math.log2(ratio)))
    full = (61, 133, 198) if x > 0 else (222, 110, 45)
    return "#" + "".join(f"{round(255 + (c - 255) * abs(x)):02x}" for c in full)


def cell(x, y, comparison, caption=""):
    e = comparison.throughput
    if e is None:
        return (f'<rect x="{x}" y="{y}" width="{CELL - 3}" height="{HIGH - 3}" fill="#eee"/>'
                f'<text x="{x + CELL / 2 - 2}" y="{y + 22}" class="small">{escape(caption or comparison.verdict)}</text>')
    open_ = comparison.verdict == "undecided"
    number = f"({e.value:.2f})" if open_ else f"{e.value:.2f}"
    cpu = f"CPU {comparison.cpu.value:.2f}" if comparison.cpu else ""
    border = ' stroke="#888" stroke-dasharray="3 2"' if open_ else ' stroke="#444"' if comparison.verdict in ("lost", "won") else ""
    title = f"{comparison.point}: throughput {interval_text(e)}, CPU {interval_text(comparison.cpu)}, {comparison.rounds} rounds"
    return (f'<g><title>{escape(title)}</title><rect x="{x}" y="{y}" width="{CELL - 3}" height="{HIGH - 3}" fill="{colour(e.value)}"{border}/>'
            f'<text x="{x + CELL / 2 - 2}" y="{y + 16}"{"" if open_ else " font-weight=" + chr(34) + "bold" + chr(34)}>{number}</text>'
            f'<text x="{x + CELL / 2 - 2}" y="{y + 30}" class="small">{escape(caption + "  " if caption else "")}{cpu}</text></g>')


def duration_text(ns):
    if ns == 0:
        return "0"
    return f"{ns / 1000:g} µs" if ns >= 1000 else f"{ns:g} ns"


def heat_map(judged, lock):
    """Draws the heat map: for MutexBench, a row for each section and work outside, and a column for each number of threads; below, the
    other points in rows, by group."""
    comparisons = judged.comparisons[lock]
    parts, y = [], 30
    grid = [p for p in judged.points if p.group == "mutexbench"]
    if grid:
        threads = sorted({int(p.arguments[1]) for p in grid})
        rows = sorted({(p.section, p.outside) for p in grid})
        parts.append(f'<text x="0" y="{y + 12}" class="left" font-weight="bold">section, outside; threads</text>')
        parts += [f'<text x="{LEFT + i * CELL + CELL / 2}" y="{y + 12}">{t}</text>' for i, t in enumerate(threads)]
        y += 20
        for section, outside in rows:
            parts.append(f'<text x="0" y="{y + 24}" class="left">{duration_text(section)}, {duration_text(outside)}</text>')
            for p in grid:
                if (p.section, p.outside) == (section, outside):
                    parts.append(cell(LEFT + threads.index(int(p.arguments[1])) * CELL, y, comparisons[p.name]))
            y += HIGH
    for group, title in GROUPS.items():
        points = [p for p in judged.points if p.group == group and group != "mutexbench"]
        if not points:
            continue
        y += 12
        parts.append(f'<text x="0" y="{y + 12}" class="left" font-weight="bold">{escape(title)}</text>')
        y += 20
        for i, p in enumerate(points):
            at = y + i // ACROSS * (HIGH + 14)
            x = i % ACROSS * PITCH
            parts.append(f'<text x="{x}" y="{at + 10}" class="left small">{escape(p.name)}</text>')
            parts.append(cell(x, at + 13, comparisons[p.name]))
        y += (len(points) + ACROSS - 1) // ACROSS * (HIGH + 14)
    width = max(LEFT + 8 * CELL, ACROSS * PITCH) + 10
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 24}" width="{width}" height="{y + 24}" '
            'font-family="sans-serif" font-size="13" text-anchor="middle">\n'
            '<style>.left{text-anchor:start}.small{font-size:10px}</style>\n'
            f'<rect width="{width}" height="{y + 24}" fill="white"/>\n'
            f'<text x="0" y="16" class="left" font-size="15" font-weight="bold">{escape(lock)}: throughput against the C library '
            f'({escape(place_name(judged.arena.place))})</text>\n')
    foot = (f'<text x="0" y="{y + 16}" class="left small">Blue: more than the C library, full at twice; orange: less, full at half. '
            'In brackets: undecided. CPU: CPU seconds for the same work, less is better.</text>\n</svg>\n')
    return head + "\n".join(parts) + "\n" + foot
