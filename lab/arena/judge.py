"""How the arena judges: a lock against the C library, from the runs of paired rounds. Nothing here runs anything.

A round runs the C library, each lock, and the C library again, in rotating order, so what else the machine does falls on all
alike. Judged is the ratio of a lock's throughput to the C library's **of the same round**. Of the rounds' ratios:

- the estimate is the Hodges–Lehmann one, the median of the means of all pairs (of logarithms);
- the interval is the one that belongs to it, from the exact distribution of Wilcoxon's signed ranks. It asks no
  normality: were a lock the same as the C library, each round's ratio would be as likely above 1 as below by as much;
- corrected for the number of points by Bonferroni: with p points each interval is made for an error of 0.05 / p, so
  that, of all intervals of a lock, one that misses its point's true ratio is to be expected in one arena of twenty; a little
  oftener, since undecided points are looked at after each round and given more, and throughput and CPU time are two figures.

Below that error an interval needs a number of rounds (12 for 60 points); with fewer there is none, and the point is
undecided. The C library against itself is judged like a lock: what is outside the noise there is false."""

import functools
import math
import random
import statistics
from dataclasses import dataclass, field

BASE, CONTROL = "libc", "libc-again"
FAMILY_ERROR = 0.05
LOSS, CAUSE = 0.95, 0.97  # an interval below the first is a loss; one below the second wants a cause
WIDE = 0.10               # an interval wider than that leaves a point undecided, unless it lies on one side
CPU_LIMIT = 1.10


# ---- figures of one list of ratios ----------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def rank_to_cut(rounds, error):
    """How many of the sorted means of pairs lie outside the interval on each side, plus one; 0: there is no interval with so few."""
    ways = [1]  # in how many of 2^rounds choices of signs the ranks with a plus have this sum
    for rank in range(1, rounds + 1):
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    allowed = error / 2 * 2 ** rounds
    below = 0
    for k, count in enumerate(ways):
        below += count
        if below > allowed:
            return k
    return len(ways) - 1


def rounds_needed(points, family_error=FAMILY_ERROR):
    """Fewest rounds with which an interval exists."""
    rounds = 1
    while rank_to_cut(rounds, family_error / points) == 0:
        rounds += 1
    return rounds


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float   # 0 and infinity where there are too few rounds
    high: float

    @property
    def width(self):
        return self.high - self.low


def estimate(ratios, error):
    """Of positive ratios, one a round."""
    logs = sorted(math.log(r) for r in ratios)
    means = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    cut = rank_to_cut(len(logs), error)
    low, high = (math.exp(means[cut - 1]), math.exp(means[-cut])) if cut > 0 else (0.0, math.inf)
    return Estimate(math.exp(statistics.median(means)), low, high)


def verdict(e):
    """Of throughput, in a word."""
    if e.high < LOSS:
        return "lost"
    if e.low > 1:
        return "won"
    if e.width > WIDE:
        return "undecided"
    return "below" if e.high < CAUSE else "level"


def settled(e):
    """Whether more rounds would change nothing that is asked."""
    return verdict(e) != "undecided"


# ---- comparisons -----------------------------------------------------------------------------------------------------

@dataclass
class Comparison:
    point: str
    lock: str
    rounds: int = 0
    throughput: Estimate = None
    cpu: Estimate = None              # CPU seconds for the same work
    ratio_of_minima: float = 0        # of the fastest run of each, by which uncontended calls are judged
    switches: tuple = ()              # of operations, or a second: C library, lock; medians
    longest: tuple = ()               # seconds; the median over rounds of the longest wait of a run
    longest_ever: tuple = ()
    share: tuple = ()                 # the smallest, of the fair one; medians
    owner_changes: tuple = ()         # of an operation; medians
    failures: list = field(default_factory=list)
    left_out: int = 0                 # rounds in which others took too much of the CPUs

    @property
    def verdict(self):
        return verdict(self.throughput) if self.throughput else "failed" if self.failures else "undecided"


def switches_of(run):
    """Switches for the same work."""
    work = run.get("work")
    return (run["voluntary"] + run["involuntary"]) / work if work else None


def medians(bases, others, figure):
    """A figure of the C library and of a lock, over the rounds that have both."""
    pairs = [(figure(b), figure(o)) for b, o in zip(bases, others)]
    pairs = [(b, o) for b, o in pairs if b is not None and o is not None]
    if not pairs:
        return ()
    return statistics.median(b for b, _ in pairs), statistics.median(o for _, o in pairs)


def largest(bases, others, key):
    values = [(b[key], o[key]) for b, o in zip(bases, others) if b.get(key) is not None and o.get(key) is not None]
    return (max(b for b, _ in values), max(o for _, o in values)) if values else ()


def compare(point, lock, rounds, error, most_others=1.0):
    """`rounds` is a list of {candidate: run}. A run that failed, or one in which others took more than `most_others` of
    the CPUs, takes its round with it."""
    result = Comparison(point, lock)
    pairs = []
    for r in rounds:
        base, other = r.get(BASE), r.get(lock)
        if base is None or other is None:
            continue
        if "failed" in base or "failed" in other:
            result.failures += [f"{name}: {run['failed']}" for name, run in ((BASE, base), (lock, other)) if "failed" in run]
            continue
        if max(base.get("others", 0), other.get("others", 0)) > most_others:
            result.left_out += 1
            continue
        pairs.append((base, other))
    result.rounds = len(pairs)
    if not pairs:
        return result
    bases, others = zip(*pairs)
    # A lock without one operation counts as a thousandth of the C library's.
    rates = [(b["rate"] or 1e-9, o["rate"] or (b["rate"] or 1e-9) / 1000) for b, o in pairs]
    result.throughput = estimate([o / b for b, o in rates], error)
    result.ratio_of_minima = max(o for _, o in rates) / max(b for b, _ in rates)
    costs = [(b.get("cost"), o.get("cost")) for b, o in pairs]
    costs = [o / b for b, o in costs if b and o]
    if costs:
        result.cpu = estimate(costs, error)
    result.switches = medians(bases, others, switches_of)
    result.longest = medians(bases, others, lambda run: run.get("longest_wait"))
    result.longest_ever = largest(bases, others, "longest_wait")
    result.share = medians(bases, others, lambda run: run.get("smallest_share"))
    result.owner_changes = medians(bases, others, lambda run: run.get("owner_changes"))
    return result


def geometric_mean(values):
    values = list(values)
    return math.exp(statistics.fmean(math.log(v) for v in values)) if values else None


def mean_with_interval(lists, seed=1, draws=400):
    """The geometric mean over points of the medians of their ratios, with a 95 % interval by the bootstrap: rounds drawn
    again within each point."""
    logs = [[math.log(v) for v in values] for values in lists if values]
    if not logs:
        return None
    draw = random.Random(seed)
    means = sorted(statistics.fmean(statistics.median(draw.choices(values, k=len(values))) for values in logs)
                   for _ in range(draws))
    value = statistics.fmean(statistics.median(values) for values in logs)
    return Estimate(math.exp(value), math.exp(means[int(0.025 * draws)]), math.exp(means[int(0.975 * draws) - 1]))


def ratios(rounds, lock, key, most_others=1.0):
    """One a round, of those that count."""
    found = []
    for r in rounds:
        base, other = r.get(BASE), r.get(lock)
        if not base or not other or max(base.get("others", 0), other.get("others", 0)) > most_others:
            continue
        if base.get(key) and other.get(key):
            found.append(other[key] / base[key])
    return found


def next_points(points, least, most):
    """The points that get the next round, those that need it most first. `points` is a list of (name, rounds, estimates
    of all locks); all get `least` rounds first, and none more than `most`."""
    fewest = [name for name, rounds, _ in points if rounds < least]
    if fewest:
        low = min(rounds for _, rounds, _ in points if rounds < least)
        return [name for name, rounds, _ in points if rounds == low]
    open_points = [(max((e.width for e in estimates if e and not settled(e)), default=0), name)
                   for name, rounds, estimates in points
                   if rounds < most and any(e is None or not settled(e) for e in estimates)]
    return [name for _, name in sorted(open_points, reverse=True)]
