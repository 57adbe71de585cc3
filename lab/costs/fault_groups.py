"""The groups of measure_waits.py that measure the size of known faults: signalled, held, deadlines, broadcast. Each has a
function that measures and one that makes tables, with an earlier measurement beside."""

import statistics

GROUPS = ["signalled", "held", "deadlines", "broadcast"]
FILE = "faults"
TITLE = "Waits that were too long"
# Where a point takes long: these and no others unless locks are named.
NOTABLE = ["loiter", "mcs", "mcscr", "ticket", "twa", "fairlock", "clh"]
LIMIT = 60  # seconds, for runs that may not end


def rounds_of(options, otherwise):
    if options.quick:
        return 1
    return options.given_rounds or otherwise


def document_of(runner):
    """Reads a program's JSON without its provenance."""
    def read(text):
        found = runner.document(text)
        if found is not None:
            found.pop("command", None)
            found.pop("date", None)
        return found
    return read


def measure(runner, where, rounds, program, arguments, limit, jobs=1, candidates=None):
    o = runner.options
    if o.jobs:
        jobs = min(jobs, o.jobs)
    return [p.as_json() for p in runner.point(candidates or runner.catalog(), where, rounds, program,
                                              [str(a) for a in arguments], limit, document_of(runner), jobs=jobs)]


# ---- cells -----------------------------------------------------------------------------------------------------------

def number(value, form="{:.2f}"):
    return form.format(value).replace("-", "−")


def three_digits(value):
    size = abs(value)
    return number(value, "{:,.%df}" % (0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 1 else 3))


def whole(value):
    return number(value, "{:,.0f}")


def why_empty(point):
    """Of a point without a result."""
    if not point["failures"]:
        return "–"
    why = point["failures"][0]
    return f"> {why.split(' after ')[1]}" if why.startswith("hung") else f"**{why[:60]}**"


def cell(point, get, show=three_digits, spread=False):
    """The median over the rounds, and the range where that is asked for."""
    if point is None:
        return ""
    values = [v for v in map(get, point["rounds"]) if v is not None]
    if not values:
        return why_empty(point)
    text = show(statistics.median(values))
    if spread and len(values) > 1:
        text += f" ({show(min(values))}–{show(max(values))})"
    return text + (f", **{len(point['failures'])} failed**" if point["failures"] else "")


class Column:
    """A column: its heading and its value at a point; `compared`: with the earlier value beside."""

    def __init__(self, heading, text, compared=False):
        self.heading, self.text, self.compared = heading, text, compared


def key(point):
    return tuple((name, value) for name, value in sorted(point.items()) if name not in ("rounds", "failures"))


def rows(points, before, columns):
    """One row a point, as [heading], [rows]."""
    past = {key(p): p for p in before}
    heading = ["lock"]
    for c in columns:
        heading += [c.heading, "before"] if c.compared and past else [c.heading]
    table = []
    for p in points:
        row = [p["candidate"]]
        for c in columns:
            row.append(c.text(p))
            if c.compared and past:
                row.append(c.text(past[key(p)]) if key(p) in past else "")
        table.append(row)
    return heading, table


def at(points, **where):
    return [p for p in points if all(p.get(name) == value for name, value in where.items())]


def side_by_side(groups):
    """Points of several places as one a candidate: {"candidate", "at": {name: point}}; a row has them all."""
    order, merged = [], {}
    for name, points in groups.items():
        for p in points:
            if p["candidate"] not in merged:
                order.append(p["candidate"])
                merged[p["candidate"]] = {}
            merged[p["candidate"]][name] = p
    return [(candidate, merged[candidate]) for candidate in order]


# ---- signalled -------------------------------------------------------------------------------------------------------

# hold in µs, how, seconds of a run, patience, rounds, candidates at once
SIGNALLED = [(10, "spin", 0.3, 1, 1, 1), (100, "spin", 0.3, 1, 1, 1), (1000, "sleep", 0.4, 2, 2, 4),
             (20000, "sleep", 1, 2, 2, 8), (200000, "sleep", 2, 3, 2, 14)]


def signalled(runner):
    o = runner.options
    holds = SIGNALLED[:3] if o.quick else SIGNALLED
    points = []
    for hold, how, seconds, patience, rounds, jobs in holds:
        if o.hold != "auto":
            how, jobs = o.hold, jobs if o.hold == "sleep" else 1
        points += measure(runner, traffic(o, hold, how), rounds_of(o, rounds), "signalled",
                          ["--hold-us", hold, "--hold", how, "--outside-us", o.outside_us, "--seconds",
                           0.05 if o.quick else seconds, "--patience", patience], seconds + 2 * patience + 40, jobs)
    return points


def traffic(options, hold, how):
    return {"hold_us": hold, "hold": how, **({"outside_us": options.outside_us} if options.outside_us else {})}


def how_they_use_it(hold, how, outside):
    length = f"{hold} µs" if hold < 1000 else f"{hold // 1000} ms"
    slept = "asleep" if how == "sleep" else "awake"
    return (f"{length}, {slept}" + (f", {outside} µs apart" if outside else ""),
            f"use the mutex all the time and hold it for {length}, {slept}" +
            (f", with {outside} µs between two uses" if outside else ", with nothing between two uses"))


def kinds_of_traffic(points):
    return dict.fromkeys((p["hold_us"], p["hold"], p.get("outside_us", 0)) for p in points)


def with_traffic(points, hold, how, outside):
    return [p for p in at(points, hold_us=hold, hold=how) if p.get("outside_us", 0) == outside]


def mean_wait(point, who):
    """Over all rounds, in ms: (mean, whether it is a lower bound, because turns were ended by force)."""
    total = sum(r[who + "_us"]["mean"] * r[who + "_us"]["n"] for r in point["rounds"])
    n = sum(r[who + "_us"]["n"] for r in point["rounds"])
    return (total / n / 1000 if n else None), any(r[who + "_relieved"] for r in point["rounds"])


def bounded(value, bound):
    sign = bound if isinstance(bound, str) else ">" if bound else ""
    return "–" if value is None else (sign + " " if sign else "") + three_digits(value)


def wait_cell(who):
    return lambda p: bounded(*mean_wait(p, who)) if p["rounds"] else why_empty(p)


def tail_cell(who):
    return lambda p: cell(p, lambda r: r[who + "_us"]["p99"] / 1000 if r[who + "_us"]["n"] else None)


def difference(point):
    (signal, bound), (coming, other) = mean_wait(point, "signalled"), mean_wait(point, "newcomer")
    if signal is None or coming is None:
        return None, ""
    return signal - coming, ">" if bound and not other else "<" if other and not bound else "?" if bound else ""


def verdict(hold_us):
    def text(p):
        value, _ = difference(p)
        return "–" if value is None else "yes" if value <= max(1, hold_us / 1000) else "**no**"
    return text


def turns(point):
    return str(sum(r["signalled_us"]["n"] for r in point["rounds"]))


def signalled_tables(points, before):
    tables = []
    for hold, how, outside in kinds_of_traffic(points):
        here, then = (with_traffic(some, hold, how, outside) for some in (points, before))
        title, use = how_they_use_it(hold, how, outside)
        columns = [Column("signalled, ms", wait_cell("signalled"), True), Column("99 %", tail_cell("signalled")),
                   Column("newcomer, ms", wait_cell("newcomer"), True), Column("99 %", tail_cell("newcomer")),
                   Column("difference", lambda p: bounded(*difference(p)), True), Column("within", verdict(hold)),
                   Column("turns", turns)]
        text = (f"Two threads {use}. Signalled: from the call of `pthread_cond_signal` to the return of `pthread_cond_wait`; "
                "newcomer: a `pthread_mutex_lock` that is called right after the mutex has gone from the signaller to a user. "
                "Means of all turns, ms; 99 %: the median over the runs, of few turns the longest. "
                f"Within: signalled needs at most {three_digits(max(1, hold / 1000))} ms more than the newcomer (1 ms or one "
                "hold, whichever is more). `>`: there were turns that ended only because the users paused when patience did, "
                "and that count as that long; the difference is then at least (`>`) or at most (`<`) that.")
        tables.append((f"Signalled: holds of {title}", text, *rows(here, then, columns)))
    return tables


# ---- held ------------------------------------------------------------------------------------------------------------

ORDERS = ("forward", "reverse", "random")
HELD_COUNTS, RING_COUNTS = (1000, 10000, 50000), (0, 1000)
ENDED, MANY_ENDED = 10000, 100000


def held(runner):
    o = runner.options
    points = []
    for count in HELD_COUNTS[:1] if o.quick else HELD_COUNTS:
        points += measure(runner, {"what": "all", "count": count}, rounds_of(o, 2), "held_locks",
                          ["--count", count, "--limit", LIMIT], LIMIT + 30)
    for count in RING_COUNTS:
        points += measure(runner, {"what": "ring", "count": count}, rounds_of(o, 2), "held_locks",
                          ["--what", "ring", "--count", count, "--limit", LIMIT], LIMIT + 30)
    for count in (100,) if o.quick else (ENDED, MANY_ENDED):
        candidates = None
        if count == MANY_ENDED and not o.locks_named:
            candidates = [c for c in runner.catalog() if c.lock is None or c.lock in NOTABLE]
        points += measure(runner, {"what": "ended", "count": count}, rounds_of(o, 1), "held_locks",
                          ["--what", "ended", "--count", count, "--limit", LIMIT], LIMIT + 30, 2, candidates)
    return points


def slowest_order(r):
    return max(r[order]["ms"] for order in ORDERS if order in r)


def best(point, get, show=three_digits):
    """The minimum over the rounds: without contention, noise only adds. `>`: the time did not suffice for all."""
    if point is None:
        return ""
    if not point["rounds"]:
        return why_empty(point)
    least = min(point["rounds"], key=lambda r: (not r["complete"], get(r)))
    return ("" if least["complete"] else "> ") + show(get(least))


def joined(groups, before, columns):
    """A table of side-by-side points: columns are (place, heading, text, compared)."""
    past = dict(side_by_side(before))
    heading = ["lock"]
    for _, title, _, compared in columns:
        heading += [title, "before"] if compared and past else [title]
    table = []
    for candidate, here in side_by_side(groups):
        row = [candidate]
        for place, _, text, compared in columns:
            row.append(text(here[place]) if place in here else "")
            if compared and past:
                then = past.get(candidate, {}).get(place)
                row.append(text(then) if then else "")
        table.append(row)
    return heading, table


def held_tables(points, before):
    def places(what, counts):
        return tuple({c: at(some, what=what, count=c) for c in counts} for some in (points, before))

    counts = sorted({p["count"] for p in points if p["what"] == "all"})
    tables = [("Held: all at once",
               "One thread locks so many mutexes and then unlocks them: in that order, in the reverse order, in no order; ms, "
               f"of the slowest of the three. `>`: broken off after {LIMIT} s.",
               *joined(*places("all", counts),
                       [(c, f"{c:,}: ms", lambda p: best(p, slowest_order), c == max(counts)) for c in counts]))]
    tables.append(("Held: hand over hand",
                   "Through a ring of 64 mutexes, while so many others are held: ns a step.",
                   *joined(*places("ring", RING_COUNTS),
                           [(c, f"{c:,} held: ns", lambda p: best(p, lambda r: r["ns_per_step"]), c > 0)
                            for c in RING_COUNTS])))
    counts = sorted({p["count"] for p in points if p["what"] == "ended"})
    columns = []
    for c in counts:
        columns += [(c, f"{c:,}: s", lambda p: best(p, lambda r: r["seconds"]), True),
                    (c, "µs a thread", lambda p: best(p, lambda r: r["us_per_thread"]), False),
                    (c, "ended", lambda p: whole(max(r["ended"] for r in p["rounds"])) if p["rounds"] else "", False)]
    columns += [(counts[0], "µs, if it unlocks", lambda p: cell(p, lambda r: r["us_per_thread_that_unlocks"]), False),
                (counts[0], "ns a pair, then", lambda p: cell(p, lambda r: r["pair_ns_after"]), True),
                (counts[0], "ns at first", lambda p: cell(p, lambda r: r["pair_ns_before"]), False)]
    tables.append(("Held: by threads that end",
                   "Threads one after another, on one CPU, each of which locks a mutex of its own and ends. Then, in a new "
                   "thread, what a pair costs that nobody contends for. µs, if it unlocks: the same with threads that unlock "
                   f"before they end. `>`: broken off after {LIMIT} s.", *joined(*places("ended", counts), columns)))
    return tables


# ---- deadlines -------------------------------------------------------------------------------------------------------

def deadlines(runner):
    o = runner.options
    waiters, seconds = (50, 0.2) if o.quick else (500, 3)
    points = measure(runner, {"what": "held", "waiters": waiters}, rounds_of(o, 1), "deadlines",
                     ["--waiters", waiters, "--seconds", seconds], LIMIT, 4)
    points += measure(runner, {"what": "traffic", "waiters": 50}, rounds_of(o, 2), "deadlines",
                      ["--waiters", 50, "--seconds", 1, "--users", 2, "--hold-us", 10, "--pause-us", 10], LIMIT)
    return points


def deadlines_tables(points, before):
    def get(*path, scale=1.0):
        def value(r):
            for name in path:
                r = r[name]
            return r * scale
        return lambda p: cell(p, value)

    here, then = (at(some, what="held") for some in (points, before))
    many = here[0]["waiters"] if here else 0
    deadline = next((r["deadline_s"] for p in here for r in p["rounds"]), 0)
    tables = [("Deadlines: a mutex that is held",
               f"{many} threads in `pthread_mutex_timedlock` until their deadline, {deadline:g} s away. Switches: of these "
               "threads, in the call, voluntary and not. Late: after the deadline, ms; all begin at once, and end so. "
               "Up to four processes at once: CPU time is counted a process, lateness suffers where there is much of it.",
               *rows(here, then, [Column("switches a waiter", get("switches_per_waiter"), True),
                                  Column("of the process", lambda p: cell(p, lambda r: r["process_switches"], whole)),
                                  Column("CPU s", get("cpu_seconds"), True),
                                  Column("late, mean", get("late_us", "mean", scale=1e-3), True),
                                  Column("late, 99 %", get("late_us", "p99", scale=1e-3))]))]
    here, then = (at(some, what="traffic") for some in (points, before))
    tables.append(("Deadlines: a mutex that is used",
                   "50 threads wait with a deadline 1 s away for a mutex that is held for the first 50 ms; then two threads "
                   "use it, 10 µs at a time and 10 µs apart. Got: how many had the mutex before the deadline. Waited: those, "
                   "from the call on, ms. CPU: of the process.",
                   *rows(here, then, [Column("got", get("got"), True),
                                      Column("switches a waiter", get("switches_per_waiter"), True),
                                      Column("CPU ms", get("cpu_seconds", scale=1e3), True),
                                      Column("waited, median", get("waited_us", "median", scale=1e-3)),
                                      Column("waited, longest", get("waited_us", "max", scale=1e-3), True)])))
    return tables


# ---- broadcast -------------------------------------------------------------------------------------------------------

# hold in µs, how, broadcasts that are timed, and looked at, candidates at once
BROADCAST = [(10, "spin", 5, 2, 1), (1000, "sleep", 4, 2, 5), (1000, "spin", 2, 1, 1)]


def broadcast(runner):
    o = runner.options
    points = []
    for hold, how, timed, looks, jobs in BROADCAST:
        points += measure(runner, traffic(o, hold, how), rounds_of(o, 1), "broadcast",
                          ["--hold-us", hold, "--hold", how, "--outside-us", o.outside_us, "--rounds", 1 if o.quick else timed,
                           "--looks", 1 if o.quick else looks, "--patience", 1], LIMIT, jobs)
    return points


def broadcast_tables(points, before):
    def until_through(p):
        """The median; the first broadcast that took longer than the patience is the last."""
        missing = sum(r["missing"] for r in p["rounds"])
        if missing:
            longest = max(r["us_until_through"]["max"] for r in p["rounds"])
            return f"> {three_digits(longest / 1000)} ({missing} missing)"
        return cell(p, lambda r: r["us_until_through"]["median"] / 1000)

    def of(name, part, show=three_digits):
        return lambda p: cell(p, lambda r: r[name][part] if r[name]["n"] else None, show)

    tables = []
    for hold, how, outside in kinds_of_traffic(points):
        here, then = (with_traffic(some, hold, how, outside) for some in (points, before))
        title, use = how_they_use_it(hold, how, outside)
        tables.append((f"Broadcast: holds of {title}",
                       f"50 threads wait for a condition, three others {use}. From the broadcast until the last waiter has "
                       "returned and unlocked, ms: the median of the broadcasts of a process, and the longest. Switches: "
                       "voluntary, a waiter, from the wait until it has unlocked. Runnable: the most that were seen at once, in "
                       "broadcasts of their own; a lower bound. Uses: by the three others meanwhile. `>`: not all were through "
                       "after that time; then the others paused, and it was the last broadcast.",
                       *rows(here, then, [Column("ms until all are through", until_through, True),
                                          Column("longest", lambda p: cell(
                                              p, lambda r: r["us_until_through"]["max"] / 1000
                                              if r["us_until_through"]["n"] else None)),
                                          Column("switches", of("voluntary_per_waiter", "median"), True),
                                          Column("runnable", of("most_runnable", "max", whole), True),
                                          Column("uses meanwhile", of("operations_meanwhile", "median", whole))])))
    return tables


MEASURE = {"signalled": signalled, "held": held, "deadlines": deadlines, "broadcast": broadcast}
TABLES = {"signalled": signalled_tables, "held": held_tables, "deadlines": deadlines_tables, "broadcast": broadcast_tables}
PROGRAMS = {"signalled": "signalled", "held": "held_locks", "deadlines": "deadlines", "broadcast": "broadcast"}


def page(groups, before, markdown, provenance_line):
    """The page: each group beside the earlier measurement, then the earlier measurement alone."""
    text = [f"# {TITLE}\n"]

    def add(group, tables, level):
        for title, explanation, heading, table in tables:
            text.append(f"{level} {title}\n\n{explanation}\n\n{markdown(table, heading)}\n")
        text.extend(f"**{remark}**\n" for remark in group["remarks"])
        text.append(provenance_line(group) + "\n")

    for name in GROUPS:
        if name in groups:
            then = before.get(name, {}).get("points", [])
            add(groups[name], TABLES[name](groups[name]["points"], then), "##")
    if before:
        text.append("## Before\n\nThe same, measured before these faults were repaired.\n")
        for name in GROUPS:
            if name in before:
                add(before[name], TABLES[name](before[name]["points"], []), "###")
    return "\n".join(text)
