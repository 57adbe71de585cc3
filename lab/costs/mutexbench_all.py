"""Makes two pages of MutexBench: from lab/results/mutexbench.json, with few locks, and from mutexbench-all.json. Both files were written
by `usher bench mutexbench --set shared=1` (which was a separate program then). `python3 -m lab.pages mutexbench mutexbench-all` calls
this."""

from lab.costs import summaries
from lab.costs.summaries import Column, listed
import harness
from lab.run import packed

NAME = "mutexbench-all"
RESULTS = harness.TREE / "lab" / "results"
ALMOST_NOTHING = 0.05


def column(heading, points, get, form, **more):
    def of_name(name):
        if name not in points:
            return None
        value = get(points[name])
        return value, form.format(value)
    return Column(heading, of_name, **more)


def page(result):
    counts = sorted({p["threads"] for p in result["points"]})
    at = {n: {p["lock"]: p for p in result["points"] if p["threads"] == n} for n in counts}
    two, most = counts[1], counts[-1]
    names = list(at[most])
    rates = [column(f"{n}", at[n], lambda p: p["median"] / 1e3, "{:.0f}", least=True) for n in counts]
    share = column("smallest share", at[most], lambda p: p["smallest_share"], "{:.2f}", least=True)
    failed = list(dict.fromkeys(p["lock"] for p in result["points"] if not all(r["exclusive"] and r["finished"] for r in p["rounds"])))
    keep = [name for name in names if at[most][name]["median"] >= at[two][name]["median"] / 2]
    starved = [name for name in names if at[most][name]["smallest_share"] < ALMOST_NOTHING]
    few = [name for name in names if at[most][name]["median"] < at[two][name]["median"] / 20]
    heading, rows = summaries.table(names, rates + [share])
    m = result["machine"]
    virtual = ", virtual machine" if m["hypervisor"] else ""
    paragraphs = [
        "# MutexBench, all locks\n",
        "MutexBench ran with all locks as on the page [MutexBench by number of threads](mutexbench.md), but with shorter runs. A column is "
        f"a number of threads; a cell has thousand acquisitions a second, the median of {result['rounds']} rounds of "
        f"{result['seconds']:g} s. The smallest share is the number of acquisitions of the thread with the fewest acquisitions, "
        f"of {most} threads, relative to an equal share. {summaries.CELLS} {summaries.without_default(names)}",
        harness.markdown(rows, heading),
        "Expectations and results:",
        (f"- Every run ends, and every lock excludes other threads, also with {most // m['cpus']} threads for each CPU." if not failed else
         f"- Without an end or without exclusion: {listed(failed)}."),
        "- With one thread all locks have similar throughput, since the work outside the lock takes most of the time: "
        f"{summaries.extremes(rates[0], names, 'thousand acquisitions a second')}.",
        f"- Locks whose unlock names the next owner lose most of their throughput with more threads than CPUs. With {most} threads "
        f"{len(few)} "
        f"of {len(names)} locks have less than a twentieth of the throughput that they have with {two} threads. The following locks have "
        f"at least half of their throughput with {two} threads: {listed(keep)}.",
        f"- The smallest share with {most} threads is below {ALMOST_NOTHING:g} under: {listed(starved) or 'none'}.",
        "- Most of these locks were designed for more than two CPUs; `usher sim` shows their effect.",
        f"The figures of all rounds are in [{NAME}.json.xz](../results/{NAME}.json.xz). Measured on {m['cpu']}, {m['cpus']} CPUs{virtual}, "
        f"{m['kernel']}, {result['compiler']}, commit {result['commit']}; {result['date'][:10]}; command "
        f"`{summaries.measuring(result['command'])}`. Other programs took {100 * result['others_cpu_share']:.1f} % of the CPU time. The "
        f"error "
        "of a single figure is about a fifth."]
    filled = [text if text.startswith(("|", "#")) else summaries.filled(text, "  " if text.startswith("- ") else "") for text in paragraphs]
    lines = []
    for text, following in zip(filled, filled[1:] + [""]):
        lines.append(text if text.startswith("- ") and following.startswith("- ") or text.endswith("\n") else text + "\n")
    return "\n".join(lines)


def stored_page(_):
    return page(packed.document(RESULTS / f"{NAME}.json"))


def few_locks(text):
    """Returns the page with few locks, those that existed when it was measured, with one round of ten seconds each."""
    result = packed.document(RESULTS / "mutexbench.json")
    counts = sorted({p["threads"] for p in result["points"]})
    at = {(p["lock"], p["threads"]): p for p in result["points"]}
    share = 32  # threads
    rows = [[f"`{lock}`", *(f"{at[lock, n]['median'] / 1e3:.0f}" for n in counts), f"{at[lock, share]['smallest_share']:.2f}"]
            for lock in dict.fromkeys(p["lock"] for p in result["points"])]
    table = harness.markdown(rows, ["lock", *map(str, counts), f"smallest share at {share}"])
    return harness.between_markers(text, "mutexbench", table)
