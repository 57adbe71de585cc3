"""The picture of README.md: real programs with eight threads under a lock, and under the C library once more, from the arena's
results."""

import math
from xml.sax.saxutils import escape

from lab.arena.judge import CONTROL

THREADS = 8
FEWEST = 8             # programs
ERROR = 0.05           # of each interval, as usual for error bars; the page's verdicts are corrected for their number
WIDTH, LEFT, RIGHT, ROW, TOP, FOOT = 560, 166, 66, 34, 74, 98  # pixels; legible at half of the size, too
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 4, 6)
LEVEL, GAIN, LOSS, NOISE = "#555555", "#0072b2", "#d55e00", "#b8b8b8"


def rows_of(arena, lock):
    """Returns (title, the lock's interval, the control's) of each program, the largest gain first. A program without a
    point with eight threads (redis) is represented by its first point."""
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
    """Returns a function from a ratio to a coordinate: logarithmic, wide enough for all intervals."""
    ends = [v for _, seen, again in rows for e in (seen, again) if e for v in (e.low, e.high)]
    low, high = min(ends + [0.8]) / 1.04, max(ends + [1.25]) * 1.04
    room = (WIDTH - LEFT - RIGHT) / math.log(high / low)
    return (lambda ratio: LEFT + math.log(ratio / low) * room), [t for t in TICKS if low <= t <= high]


def bar(x, y, e, colour, width, radius):
    return (f'<line x1="{x(e.low):.1f}" x2="{x(e.high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="{width}"/>'
            f'<circle cx="{x(e.value):.1f}" cy="{y}" r="{radius}" fill="{colour}"/>')


def row_of(x, y, title, seen, again):
    colour = GAIN if seen.low > 1 else LOSS if seen.high < 1 else LEVEL
    parts = [f'<text x="{LEFT - 14}" y="{y + 6}" text-anchor="end">{escape(title)}</text>', bar(x, y - 4, seen, colour, 3, 6)]
    if again:
        parts.append(bar(x, y + 9, again, NOISE, 2, 3))
    parts.append(f'<text x="{WIDTH - 8}" y="{y + 6}" text-anchor="end" font-weight="bold" fill="{colour}">{seen.value:.2f}</text>')
    return "".join(parts)


def programs(arena, lock, place, day):
    rows = rows_of(arena, lock)
    if not rows:
        return None
    x, ticks = scale(rows)
    bottom = TOP + len(rows) * ROW
    height = bottom + FOOT
    axis = "".join(
        f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{TOP - 6}" y2="{bottom}" stroke="{"#222" if t == 1 else "#ddd"}"/>'
        f'<text x="{x(t):.1f}" y="{TOP - 12}" text-anchor="middle" font-size="14">{t:g}</text>' for t in ticks)
    body = "\n".join(row_of(x, TOP + i * ROW + ROW // 2, *row) for i, row in enumerate(rows))
    lines = (f"{THREADS} threads each. Bars: 95 % intervals. Blue: a gain, orange: a loss,",
             "dark grey: within the noise. Light grey: the C library's mutex measured", f"a second time. {place}, {day}")
    foot = "\n".join(f'<text x="8" y="{bottom + 26 + 21 * i}" font-size="15">{escape(line)}</text>' for i, line in enumerate(lines))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="17" fill="#222">
<rect width="{WIDTH}" height="{height}" fill="white"/>
<text x="8" y="26" font-weight="bold" font-size="19">Throughput under {escape(lock)}; the C library's mutex is 1</text>
{axis}
{body}
{foot}
</svg>
"""
