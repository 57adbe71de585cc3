"""The picture of README.md: real programs with eight threads under a lock, and under the C library once more, from the arena's
results."""

import math
import re
from xml.sax.saxutils import escape

import harness
from lab.arena.judge import CONTROL

THREADS = 8
FEWEST = 8             # programs
ERROR = 0.05           # of each interval, as usual for error bars; the verdicts on the page are corrected for the number of points
WIDTH, RIGHT, ROW, TOP, EDGE = 560, 70, 34, 100, 8  # pixels; legible at half of the size, too
TITLE, TEXT, SMALL, TICK = 19, 17, 15, 14           # sizes of text
FOR_OTHER_FONTS = 1.15                              # as in the charts of usher
SOURCE = (harness.TREE / "lab/draw/text_width.cpp").read_text()
GLYPHS = {weight: [int(n) / 1000 for n in re.search(rf"widths {weight}\{{([^}}]*)", SOURCE)[1].split(",")]
          for weight in ("regular", "bold")}
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 4, 6), (0.5, 1, 2, 4), (1,)  # of these lists, the first whose labels fit into the picture is used
LEVEL, GAIN, LOSS, NOISE = "#555555", "#0072b2", "#d55e00", "#b8b8b8"


def text_width(text, size, weight="regular"):
    return FOR_OTHER_FONTS * size * sum(GLYPHS[weight][ord(c) - 32] if " " <= c <= "~" else 1 for c in text)


def lines_of(text, size):
    """Returns the text in lines that fit the picture."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= WIDTH - 2 * EDGE:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def rows_of(arena, lock):
    """Returns (title, the lock's interval, the control's interval) of each program, the largest gain first. Of a program without a point
    with eight threads (redis) the first point is taken."""
    chosen = {}
    for p in arena.points():
        if p.group == "programs" and (p.program not in chosen or p.threads == THREADS):
            chosen[p.program] = p
    rows = []
    for p in chosen.values():
        seen, again = (arena.compare(p.name, name, ERROR).throughput for name in (lock, CONTROL))
        if seen and seen.low:
            title = p.case.title if p.threads == THREADS else f"{p.case.title} ({p.threads})"
            rows.append((title, seen, again if again and again.low else None))
    return sorted(rows, key=lambda row: -row[1].value) if len(rows) >= FEWEST else []


def scale(rows):
    """Returns the plot's left end, a function from a ratio to a coordinate, and the ticks. The scale is logarithmic, wide enough for all
    intervals."""
    ends = [v for _, seen, again in rows for e in (seen, again) if e for v in (e.low, e.high)]
    low, high = min(ends + [0.8]) / 1.04, max(ends + [1.25]) * 1.04
    left = 2 * EDGE + max(text_width(title, TEXT) for title, _, _ in rows)
    room = (WIDTH - left - RIGHT) / math.log(high / low)

    def x(ratio):
        return left + math.log(ratio / low) * room

    for ticks in TICKS:
        shown = [t for t in ticks if low <= t <= high]
        if all(x(b) - x(a) > text_width(f"{a:g} ", TICK) for a, b in zip(shown, shown[1:])):
            break
    return left, x, shown


def bar(x, y, e, colour, width, radius):
    return (f'<line x1="{x(e.low):.1f}" x2="{x(e.high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="{width}"/>'
            f'<circle cx="{x(e.value):.1f}" cy="{y}" r="{radius}" fill="{colour}"/>')


def row_of(left, x, y, title, seen, again):
    colour = GAIN if seen.low > 1 else LOSS if seen.high < 1 else LEVEL
    parts = [f'<text x="{left - EDGE:.1f}" y="{y + 6}" text-anchor="end">{escape(title)}</text>', bar(x, y - 4, seen, colour, 3, 6)]
    if again:
        parts.append(bar(x, y + 9, again, NOISE, 2, 3))
    parts.append(f'<text x="{WIDTH - EDGE}" y="{y + 6}" text-anchor="end" font-weight="bold" fill="{colour}">{seen.value:.2f}</text>')
    return "".join(parts)


def programs(arena, lock, place, day):
    rows = rows_of(arena, lock)
    if not rows:
        return None
    left, x, ticks = scale(rows)
    bottom = TOP + len(rows) * ROW
    foot = lines_of(f"{THREADS} threads each. Bars: 95 % intervals. Blue: a gain, orange: a loss, dark grey: within the noise. "
                    f"Light grey: the C library's mutex measured a second time. {place}, {day}", SMALL)
    height = bottom + 14 + 21 * len(foot)
    axis = "".join(
        f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{TOP - 6}" y2="{bottom}" stroke="{"#222" if t == 1 else "#ddd"}"/>'
        f'<text x="{x(t):.1f}" y="{TOP - 12}" text-anchor="middle" font-size="{TICK}">{t:g}</text>' for t in ticks)
    body = "\n".join(row_of(left, x, TOP + i * ROW + ROW // 2, *row) for i, row in enumerate(rows))
    foot = "\n".join(f'<text x="{EDGE}" y="{bottom + 26 + 21 * i}" font-size="{SMALL}">{escape(line)}</text>'
                     for i, line in enumerate(foot))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="{TEXT}" fill="#222">
<rect width="{WIDTH}" height="{height}" fill="white"/>
<text x="{EDGE}" y="26" font-weight="bold" font-size="{TITLE}">Throughput under {escape(lock)}</text>
<text x="{EDGE}" y="50" font-size="{SMALL}">The C library's mutex is 1.</text>
{axis}
{body}
{foot}
</svg>
"""
