"""The arena's judgement: a lock against the C library, from the runs of paired rounds. This module runs no program.

A round runs the C library, each lock, and the C library again, in rotating order, so other load affects all alike. The ratio
of a lock's throughput to the C library's **of the same round** is judged. From the rounds' ratios:

- the estimate is the Hodges–Lehmann one, the median of the means of all pairs (of logarithms);
- the interval is the one that belongs to it, from the exact distribution of Wilcoxon's signed ranks. It assumes no
  normality: if a lock were the same as the C library, each round's ratio would be as likely above 1 as below by as
  much;
- the interval is corrected for the number of points by Bonferroni: with p points each interval is made for an error of
  0.05 / p, so that in one arena of twenty one of a lock's intervals misses its point's true ratio; in slightly more, since
  undecided points are judged after each round and get more rounds, and throughput and CPU time are two figures.

Below that error an interval needs a number of rounds (12 for 60 points); with fewer rounds the point has no interval
and is undecided. The C library against itself is judged like a lock: a verdict outside the noise there is false."""

import functools
import math
import random
import statistics
from dataclasses import dataclass, field

BASE, CONTROL = "libc", "libc-again"
FAMILY_ERROR = 0.05
LOSS, CAUSE = 0.95, 0.97  # an interval below the first is a loss; one below the second needs an explanation
WIDE = 0.10               # a point with a wider interval is undecided, unless the whole interval lies on one side of 1
CPU_LIMIT = 1.10


# ---- statistics of a list of ratios ----------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def rank_to_cut(rounds, error):
    """Returns one more than the number of sorted means of pairs that lie outside the interval on each side. 0: with so few rounds there
    is no interval."""
    ways = [1]  # by sum of the positive ranks: the number of the 2^rounds choices of signs
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
    """Returns the smallest number of rounds with which an interval exists."""
    rounds = 1
    while rank_to_cut(rounds, family_error / points) == 0:
        rounds += 1
    return rounds


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float   # 0 and infinity if the rounds are too few
    high: float

    @property
    def width(self):
        return self.high - self.low


def estimate(ratios, error):
    """Returns the estimate and the interval from positive ratios, one for each round."""
    logs = sorted(math.log(r) for r in ratios)
    means = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    cut = rank_to_cut(len(logs), error)
    low, high = (math.exp(means[cut - 1]), math.exp(means[-cut])) if cut > 0 else (0.0, math.inf)
    return Estimate(math.exp(statistics.median(means)), low, high)


def verdict(e):
    """Returns the verdict on throughput as a word."""
    if e.high < LOSS:
        return "lost"
    if e.low > 1:
        return "won"
    if e.width > WIDE:
        return "undecided"
    return "below" if e.high < CAUSE else "level"


def settled(e):
    """Whether the point is decided, so that it needs no further rounds."""
    return verdict(e) != "undecided"


# ---- comparisons -----------------------------------------------------------------------------------------------------

@dataclass
class Comparison:
    point: str
    lock: str
    rounds: int = 0
    throughput: Estimate = None
    cpu: Estimate = None              # CPU seconds for the same work
    ratio_of_minima: float = 0        # ratio of the fastest runs, by which uncontended calls are judged
    switches: tuple = ()              # context switches for an operation or a second: C library, lock; medians
    longest: tuple = ()               # seconds: the median over the rounds of each run's longest wait
    longest_ever: tuple = ()
    share: tuple = ()                 # the smallest share of a thread, relative to an equal share; medians
    owner_changes: tuple = ()         # changes of the lock's owner for an operation; medians
    failures: list = field(default_factory=list)
    left_out: int = 0                 # rounds in which other programs took too much of the CPUs

    @property
    def verdict(self):
        return verdict(self.throughput) if self.throughput else "failed" if self.failures else "undecided"


def switches_of(run):
    """Returns the number of context switches, for the same amount of work in all runs."""
    work = run.get("work")
    return (run["voluntary"] + run["involuntary"]) / work if work else None


def medians(bases, others, figure):
    """Returns a figure's medians for the C library and for a lock, over the rounds that have both."""
    pairs = [(figure(b), figure(o)) for b, o in zip(bases, others)]
    pairs = [(b, o) for b, o in pairs if b is not None and o is not None]
    if not pairs:
        return ()
    return statistics.median(b for b, _ in pairs), statistics.median(o for _, o in pairs)


def largest(bases, others, key):
    values = [(b[key], o[key]) for b, o in zip(bases, others) if b.get(key) is not None and o.get(key) is not None]
    return (max(b for b, _ in values), max(o for _, o in values)) if values else ()


def compare(point, lock, rounds, error, most_others=1.0):
    """Compares a lock with the C library. `rounds` is a list of {candidate: run}. A run that failed, or one in which
    other programs took more than `most_others` of the CPUs, excludes its round."""
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
    # If a lock completed no operation, its rate is taken as 1/1000 of the C library's, since estimate() needs the logarithm of the ratio.
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
    """Returns the geometric mean over the points, each represented by the median of its ratios, with a 95 % interval by the bootstrap:
    rounds are drawn again within each point."""
    logs = [[math.log(v) for v in values] for values in lists if values]
    if not logs:
        return None
    draw = random.Random(seed)
    means = sorted(statistics.fmean(statistics.median(draw.choices(values, k=len(values))) for values in logs)
                   for _ in range(draws))
    value = statistics.fmean(statistics.median(values) for values in logs)
    return Estimate(math.exp(value), math.exp(means[int(0.025 * draws)]), math.exp(means[int(0.975 * draws) - 1]))


def ratios(rounds, lock, key, most_others=1.0):
    """Returns the ratio of each round that is not excluded."""
    found = []
    for r in rounds:
        base, other = r.get(BASE), r.get(lock)
        if not base or not other or max(base.get("others", 0), other.get("others", 0)) > most_others:
            continue
        if base.get(key) and other.get(key):
            found.append(other[key] / base[key])
    return found


def next_points(points, least, most):
    """Returns the points that get the next round, those with the greatest need first. `points` is a list of (name, rounds, estimates of
    all locks). All points first get `least` rounds, and no point gets more than `most`."""
    fewest = [name for name, rounds, _ in points if rounds < least]
    if fewest:
        low = min(rounds for _, rounds, _ in points if rounds < least)
        return [name for name, rounds, _ in points if rounds == low]
    open_points = [(max((e.width for e in estimates if e and not settled(e)), default=0), name)
                   for name, rounds, estimates in points
                   if rounds < most and any(e is None or not settled(e) for e in estimates)]
    return [name for _, name in sorted(open_points, reverse=True)]
