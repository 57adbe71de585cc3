"""The power of `usher try`: runs the simulated trials (tests/unit/contest_power.cpp), writes lab/results/try-power.jsonl and draws
lab/results/try-power.svg; `python3 -m lab.pages try-itself` makes the page. Deterministic; about a minute."""

import argparse
import json
import subprocess
from html import escape

from harness import TREE, Build, between_markers, die
from lab.run import packed

RESULTS = TREE / "lab/results/try-power.jsonl"
CHART = TREE / "lab/results/try-power.svg"
NOISES = ["1 %", "3 %", "10 %", "recorded"]
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"]  # Okabe and Ito's, by budget
DASHES = ["", "7 3", "3 3", "9 3 2 3"]
WIDE, HIGH, LEFT, TOP, GAP = 320, 200, 56, 58, 74  # of one panel, and around it, in pixels


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release", help="build folder (build/release)")
    parser.add_argument("--again", action="store_true", help="only draw the results in lab/results/try-power.jsonl")
    return parser.parse_args()


def simulate(folder):
    """Returns the rows that the simulation prints."""
    build = Build(folder)
    done = subprocess.run(["cmake", "--build", build.folder, "--target", "contest_power"], capture_output=True, text=True)
    if done.returncode != 0:
        die(f"cannot build contest_power: {done.stderr or done.stdout}")
    found = sorted(build.folder.glob("**/contest_power"))
    program = next((f for f in found if f.is_file()), None) or die("contest_power is nowhere in the build folder")
    return subprocess.run([program], capture_output=True, text=True, check=True, timeout=1800).stdout


def share_table(rows, by, across, count, decimals=1, unit="", form="{}"):
    """Returns a table with a row for each pair of values of the fields `by`, and a column for each value of the field `across`. A cell
    is the share, in per cent, of the trials that `count` selects."""
    columns = sorted({r[across] for r in rows})
    heads = {"noise": ("noise", "---"), "candidates": ("candidates", "--:"), "budget": ("rounds", "--:")}
    lines = ["| " + " | ".join([*(heads[name][0] for name in by), *(form.format(c) for c in columns)]) + " |",
             "|" + "|".join([*(heads[name][1] for name in by), *["--:"] * len(columns)]) + "|"]
    for key in dict.fromkeys(tuple(r[name] for name in by) for r in rows):
        of = {r[across]: r for r in rows if tuple(r[name] for name in by) == key}
        shares = [f"{100 * of[c][count] / of[c]['trials']:.{decimals}f}{unit}" for c in columns]
        lines.append("| " + " | ".join([*map(str, key), *shares]) + " |")
    return "\n".join(lines)


def power_table(rows):
    """Returns a table: the probability that `usher try` finds a gain, by the size of the gain."""
    return share_table(rows, ("noise", "budget"), "gain", "found", 0, form="{:g} ×")


def panel(rows, title, left, top, legend):
    """Draws the probability that a winner is found, over the gain, with a line for each budget."""
    gains, budgets = sorted({r["gain"] for r in rows}), sorted({r["budget"] for r in rows})
    across = [left + WIDE * i / (len(gains) - 1) for i in range(len(gains))]  # at equal distances, in their order
    parts = [f'<text x="{left}" y="{top - 8}" class="left bold">{escape(title)}</text>']
    for share in range(0, 101, 25):
        y = top + HIGH * (1 - share / 100)
        parts.append(f'<line x1="{left}" y1="{y:g}" x2="{left + WIDE}" y2="{y:g}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:g}" class="right">{share} %</text>')
    for x, gain in zip(across, gains):
        parts.append(f'<text x="{x:.1f}" y="{top + HIGH + 16}">{gain:g}</text>')
    parts.append(f'<text x="{left + WIDE / 2:g}" y="{top + HIGH + 32}">speed-up</text>')
    for budget, colour, dash in zip(budgets, COLOURS, DASHES):
        of = {r["gain"]: 100 * r["found"] / r["trials"] for r in rows if r["budget"] == budget}
        points = [(x, top + HIGH * (1 - of[g] / 100)) for x, g in zip(across, gains)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        if legend:
            y = top + HIGH - 14 * (len(budgets) - budgets.index(budget)) + 4
            parts.append(f'<line x1="{left + WIDE - 100}" y1="{y - 4}" x2="{left + WIDE - 66}" y2="{y - 4}" stroke="{colour}" '
                         f'stroke-width="2" stroke-dasharray="{dash}"/>')
            parts.append(f'<text x="{left + WIDE - 60}" y="{y}" class="left">{budget} rounds</text>')
    return parts


def chart(rows):
    """Draws four panels, one for each kind of noise."""
    parts = []
    for i, noise in enumerate(NOISES):
        left, top = LEFT + i % 2 * (WIDE + LEFT + 20), TOP + i // 2 * (HIGH + GAP)
        title = "recorded noise" if noise == "recorded" else f"noise of {noise} a run"
        parts += panel([r for r in rows if r["noise"] == noise], title, left, top, i == 0)
    width, height = 2 * (WIDE + LEFT) + 44, TOP + 2 * (HIGH + GAP) + 8
    trials = rows[0]["trials"]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="12" text-anchor="middle">\n'
            '<style>.left{text-anchor:start}.right{text-anchor:end}.bold{font-weight:bold}.small{font-size:11px}</style>\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n'
            '<text x="12" y="24" class="left bold" font-size="16">The chance that usher try finds a lock, by its speed-up</text>\n'
            + "\n".join(parts) + "\n"
            f'<text x="12" y="{height - 10}" class="left small">Simulated: four candidates, three of them as fast as the C library\'s '
            f'mutex; budgets of so many rounds of all; {trials} trials a point.</text>\n</svg>\n')


def stored():
    return [json.loads(line) for line in packed.text_of(RESULTS).splitlines()]


def page(text):
    rows = stored()
    power = [r for r in rows if r["what"] == "power"]
    level, losing = ([r for r in power if r["others"] == others] for others in (1, 0.7))
    for name, table in (("null trials", share_table([r for r in rows if r["what"] == "null"], ("noise", "candidates"), "budget", "false",
                                                     unit=" %", form="{} rounds")),
                        ("in step", share_table([r for r in rows if r["what"] == "in step"], ("candidates", "budget"), "period", "false")),
                        ("power", power_table(level)),
                        ("power, others lose", power_table([r for r in losing if r["noise"] in ("3 %", "recorded")]))):
        text = between_markers(text, name, f"\n{table}\n")
    return text


def main():
    chosen = options()
    if not chosen.again:
        packed.write(RESULTS, simulate(chosen.build))
    CHART.write_text(chart([r for r in stored() if r["what"] == "power" and r["others"] == 1]))


if __name__ == "__main__":
    main()
