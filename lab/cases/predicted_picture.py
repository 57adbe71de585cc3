"""A picture of predictions: for each program a row, and for each of its points the ratio of the predicted to the measured throughput."""

import math
from xml.sax.saxutils import escape

from lab.arena.picture import lines_of, text_width

WIDTH, EDGE, ROW, TEXT, SMALL, TITLE = 760, 8, 30, 13, 12, 16  # pixels
COLOURS = "#444444", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"  # distinguishable with all kinds of colour vision
TICKS = (0.1, 0.25, 0.5, 1, 2, 4, 10), (0.5, 0.7, 1, 1.4, 2), (0.8, 0.9, 1, 1.1, 1.25)
BANDS = (0.40, "#f4f4f4"), (0.15, "#e6e6e6"), (0.05, "#cfcfcf")
SIZES = {2: 2.5, 4: 3.5, 8: 4.5}


def ratios_of(points):
    """Returns [(predicted / measured, lock, threads)] of the points that have both values."""
    return [(p["predicted"][0] / p["actual"][0], p["lock"], p["threads"]) for p in points if p["actual"][0] > 0 and p["predicted"][0] > 0]


def picture(rows, locks, origin):
    """Returns the SVG. `rows` is a list of (title, points); the rows with the largest errors are drawn first."""
    rows = [(title, ratios_of(points)) for title, points in rows]
    rows = sorted([r for r in rows if r[1]], key=lambda r: -max(abs(math.log(x)) for x, _, _ in r[1]))
    everything = [x for _, found in rows for x, _, _ in found]
    low, high = min([0.6, *everything]) / 1.1, max([1.6, *everything]) * 1.1
    left = 2 * EDGE + max(text_width(title, TEXT) for title, _ in rows)
    room = (WIDTH - EDGE - left) / math.log(high / low)

    def x(ratio):
        return left + math.log(ratio / low) * room

    top = 74
    bottom = top + ROW * len(rows)
    out = [f'<text x="{EDGE}" y="22" font-size="{TITLE}" font-weight="bold">Throughput: predicted, divided by measured</text>']
    at = EDGE
    for lock, colour in zip(locks, COLOURS):
        out.append(f'<circle cx="{at + 5:.1f}" cy="41" r="4.5" fill="{colour}"/><text x="{at + 14:.1f}" y="45" font-size="{SMALL}">{lock}</text>')
        at += 28 + text_width(lock, SMALL)
    for threads, size in SIZES.items():
        label = f"{threads} threads"
        out.append(f'<circle cx="{at + 5:.1f}" cy="41" r="{size}" fill="none" stroke="#444444"/><text x="{at + 14:.1f}" y="45" '
                   f'font-size="{SMALL}">{label}</text>')
        at += 26 + text_width(label, SMALL)
    for part, colour in BANDS:
        a, b = x(max(low, 1 - part)), x(min(high, 1 + part))
        out.append(f'<rect x="{a:.1f}" y="{top - 8}" width="{b - a:.1f}" height="{bottom - top + 8}" fill="{colour}"/>')
    for ticks in TICKS:
        shown = [t for t in ticks if low <= t <= high]
        if len(shown) >= 3:
            break
    for t in shown:
        out.append(f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{top - 8}" y2="{bottom}" stroke="{"#000000" if t == 1 else "#bbbbbb"}"/>'
                   f'<text x="{x(t):.1f}" y="{bottom + 15}" font-size="{SMALL}" text-anchor="middle">{t:g}</text>')
    for i, (title, found) in enumerate(rows):
        y = top + ROW * i + ROW / 2
        out.append(f'<text x="{EDGE}" y="{y + 4:.1f}" font-size="{TEXT}">{escape(title)}</text>')
        for ratio, lock, threads in found:
            n = locks.index(lock)
            out.append(f'<circle cx="{x(ratio):.1f}" cy="{y + 3.6 * (n - (len(locks) - 1) / 2):.1f}" r="{SIZES.get(threads, 3)}" '
                       f'fill="{COLOURS[n % len(COLOURS)]}" fill-opacity="0.75"><title>{lock}, {threads} threads: {ratio:.3g}</title></circle>')
    foot = bottom + 34
    for line in lines_of(f"Bands: within 5, 15 and 40 %. {origin}", SMALL):
        out.append(f'<text x="{EDGE}" y="{foot}" font-size="{SMALL}" fill="#555555">{escape(line)}</text>')
        foot += 15
    values = "; ".join(f"{title}: " + ", ".join(f"{lock} {threads} {ratio:.3g}" for ratio, lock, threads in found) for title, found in rows)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{foot}" viewBox="0 0 {WIDTH} {foot}" font-family="sans-serif">\n'
            f'<desc>{escape(values)}</desc>\n<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(out) + "\n</svg>\n")
