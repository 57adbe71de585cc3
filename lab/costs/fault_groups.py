"""The groups of measure_waits.py that measure the size of known faults: signalled, held, deadlines, broadcast. Each group has a function
that measures, and a function that makes tables."""

from lab.costs import summaries
from lab.costs.summaries import Column, at, by_name, code, figure, listed, names_in, of, three_digits, whole

GROUPS = ["signalled", "held", "deadlines", "broadcast"]
FILE = "faults"
TITLE = "Waits that were too long"
# The locks that are measured at points with long runs, unless the command line names other locks.
NOTABLE = ["loiter", "mcs", "mcscr", "ticket", "twa", "fairlock", "clh"]
LIMIT = 60  # seconds, for runs that may not end


def rounds_of(options, otherwise):
    if options.quick:
        return 1
    return options.given_rounds or otherwise


def document_of(runner):
    """Returns a function that reads a program's JSON, and drops its provenance."""
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


# ---- signalled -------------------------------------------------------------------------------------------------------

# Each entry: the hold in µs, whether the holder spins or sleeps, the seconds of a run, the time limit of one measured wait in seconds, the
# number of rounds, and the number of candidates that run at once.
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
    return {"points": points}


def traffic(options, hold, how):
    return {"hold_us": hold, "hold": how, **({"outside_us": options.outside_us} if options.outside_us else {})}


def length_of(hold):
    return f"{hold} µs" if hold < 1000 else f"{hold // 1000} ms"


def kinds_of_traffic(points):
    """Returns [(hold in µs, kind of hold, µs between two uses)]."""
    return list(dict.fromkeys((p["hold_us"], p["hold"], p.get("outside_us", 0)) for p in points))


def with_traffic(points, hold, how, outside):
    return by_name(p for p in at(points, hold_us=hold, hold=how) if p.get("outside_us", 0) == outside)


def pause(outside):
    return f"with {outside} µs between two holds" if outside else "without a pause between two holds"


def mean_wait(point, who):
    """Returns, over all rounds, (mean wait in ms, whether it is a lower bound, because waits were ended by force)."""
    total = sum(r[who + "_us"]["mean"] * r[who + "_us"]["n"] for r in point["rounds"])
    n = sum(r[who + "_us"]["n"] for r in point["rounds"])
    return (total / n / 1000 if n else None), any(r[who + "_relieved"] for r in point["rounds"])


def wait_figure(points, who):
    def get(name):
        if name not in points:
            return None
        value, bound = mean_wait(points[name], who)
        return value, summaries.why_empty(points[name]) if value is None else ("> " if bound else "") + three_digits(value)
    return get


def excess(point):
    """Returns the milliseconds by which the signalled thread waits longer than the newcomer, and the comparison as text: either wait may
    be a lower bound."""
    (signal, bound), (coming, other) = mean_wait(point, "signalled"), mean_wait(point, "newcomer")
    if signal is None or coming is None:
        return None, ""
    return signal - coming, "more than " if bound and not other else "at most " if other and not bound else "perhaps " if bound else ""


def over_the_limit(points, hold_us):
    """Returns, as text, the candidates whose signalled threads wait too long."""
    found = []
    for name, point in points.items():
        value, sign = excess(point)
        if value is not None and value > max(1, hold_us / 1000):
            found.append(f"{code(name)} by {sign}{three_digits(value)} ms")
    return f"{len(found)} of {len(points)} locks" + (": " if found else "") + "; ".join(found)


def signalled_tables(group):
    points = group["points"]
    names, tables = names_in(points), []
    for way, title in (("spin", "the owner awake"), ("sleep", "the owner asleep")):
        kinds = [kind for kind in kinds_of_traffic(points) if kind[1] == way]
        if not kinds:
            continue
        columns, over = [], []
        for hold, how, outside in kinds:
            here = with_traffic(points, hold, how, outside)
            columns += [Column(f"{length_of(hold)}: signalled", wait_figure(here, "signalled")),
                        Column("newcomer", wait_figure(here, "newcomer"), brief=True)]
            over.append(f"- With holds of {length_of(hold)} the signalled thread waits too long under {over_the_limit(here, hold)}.")
        text = (f"Two threads lock the mutex again and again and hold it for the time of the column, {pause(kinds[0][2])}. "
                "\"Signalled\" is the time from a third thread's `pthread_cond_signal` to the return of `pthread_cond_wait`; "
                "\"newcomer\" is "
                "the time of a `pthread_mutex_lock` that begins after the signalling thread has unlocked and one of the two threads "
                "has the mutex. A cell has the mean in ms. A signalled thread should wait longer than a newcomer by at most 1 ms or one "
                "hold, whichever is longer. The sign `>` marks a lower bound: after a time limit the two threads paused, so that the "
                "wait could end.")
        if tables:
            text = "In this measurement the two threads sleep while they hold the mutex. Everything else is as in the section above."
        tables.append((f"Signals, {title}", "\n".join([text + "\n", *over]), *summaries.table(names, columns)))
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
    return {"points": points}


def slowest_order(r):
    return max(r[order]["ms"] for order in ORDERS if order in r)


def best(points, get):
    """Returns the minimum over the rounds, since noise only adds time if there is no contention. `>`: the time did not suffice for all."""
    def of_name(name):
        if name not in points:
            return None
        point = points[name]
        if not point["rounds"]:
            return None, summaries.why_empty(point)
        least = min(point["rounds"], key=lambda r: (not r["complete"], get(r)))
        return get(least), ("" if least["complete"] else "> ") + three_digits(get(least))
    return of_name


def not_complete(points):
    return list(dict.fromkeys(p["candidate"] for p in points if not p["rounds"] or not all(r["complete"] for r in p["rounds"])))


def held_tables(group):
    points = group["points"]
    def places(what):
        counts = sorted({p["count"] for p in points if p["what"] == what})
        return {c: by_name(at(points, what=what, count=c)) for c in counts}

    everything, ring, ended = places("all"), places("ring"), places("ended")
    most, others, few, many = max(everything), max(ring), min(ended), max(ended)
    names = names_in(points)
    after = ended[few]
    columns = [Column(f"{most:,} at once: ms", best(everything[most], slowest_order)),
               Column(f"{others:,} held: ns a step", best(ring[others], of("ns_per_step"))),
               Column(f"{few:,} ended: µs a thread", best(after, of("us_per_thread"))),
               Column("if they unlock", lambda n: figure(after.get(n), of("us_per_thread_that_unlocks")), brief=True),
               Column("ns a pair then", lambda n: figure(after.get(n), of("pair_ns_after")))]
    text = ("\"At once\": one thread locks the given number of mutexes and unlocks them in the same, the reverse or a random order; the "
            "cell has the slowest order. \"A step\": a thread that holds the given number of other mutexes locks hand over hand through a "
            "ring of 64 mutexes. "
            "\"Ended\": threads run one after another on one CPU, and each locks its own mutex and ends without an unlock. The next "
            "column has the same for threads that unlock before they end; the last column has the cost of an uncontended pair after all "
            "threads have ended. Cells are minima of the rounds, in the last two columns medians. ")
    if many > few:
        here = ended[many]
        range_of = summaries.extremes(Column("", best(here, of("us_per_thread"))), list(here), "µs a thread")
        text += f"With {many:,} threads, {len(here)} candidates: {range_of}. "
    late = not_complete(points)
    text += f"Not completed within {LIMIT} s: {listed(late)}." if late else f"Every run was complete within {LIMIT} s."
    return [("Many mutexes held", text, *summaries.table(names, columns))]


# ---- deadlines -------------------------------------------------------------------------------------------------------

def deadlines(runner):
    o = runner.options
    waiters, seconds = (50, 0.2) if o.quick else (500, 3)
    points = measure(runner, {"what": "held", "waiters": waiters}, rounds_of(o, 1), "deadlines",
                     ["--waiters", waiters, "--seconds", seconds], LIMIT, 4)
    points += measure(runner, {"what": "traffic", "waiters": 50}, rounds_of(o, 2), "deadlines",
                      ["--waiters", 50, "--seconds", 1, "--users", 2, "--hold-us", 10, "--pause-us", 10], LIMIT)
    return {"points": points}


def column(heading, points, get, show=three_digits, **more):
    return Column(heading, lambda name: figure(points.get(name), get, show), **more)


def deadlines_tables(group):
    points = group["points"]
    tables = []
    for what, title in (("held", "the mutex stays held"), ("traffic", "the mutex is used")):
        here = by_name(at(points, what=what))
        if not here:
            continue
        rounds = [r for p in here.values() for r in p["rounds"]]
        waiters, deadline = next(iter(here.values()))["waiters"], next((r["deadline_s"] for r in rounds), 0)
        late = of("late_us", "mean", scale=1e-3)
        if what == "held":
            columns = [column("switches a waiter", here, of("switches_per_waiter")), column("CPU s", here, of("cpu_seconds")),
                       column("late, mean: ms", here, late),
                       column("late, 99 %: ms", here, of("late_us", "p99", scale=1e-3))]
            text = (f"{waiters} threads wait in `pthread_mutex_timedlock` for a mutex that stays held, until their common deadline "
                    f"{deadline:g} s later. The columns have the voluntary and involuntary context switches of a waiter, the CPU time "
                    f"of the "
                    "process, and the time from the deadline to the return of the call.")
        else:
            columns = [column("had the mutex", here, of("got"), whole, least=True),
                       column("switches a waiter", here, of("switches_per_waiter")),
                       column("CPU: ms", here, of("cpu_seconds", scale=1e3)),
                       column("longest wait: ms", here, of("waited_us", "max", scale=1e-3))]
            short = [name for name, p in here.items() if not p["rounds"] or any(r["got"] < waiters for r in p["rounds"])]
            text = (f"{waiters} threads wait with a deadline {deadline:g} s away for a mutex that is held for the first 50 ms. Then two "
                    f"other "
                    "threads repeatedly hold it for 10 µs, with 10 µs in between. The columns have the number of waiters that got the "
                    "mutex before the deadline, the context switches of a waiter, the CPU time of the process, and the longest wait. " +
                    (f"Not all waiters got the mutex in time with {listed(short)}." if short else
                     f"All {waiters} waiters got the mutex in time in every run."))
        tables.append((f"Deadlines: {title}", text, *summaries.table(list(here), columns)))
    return tables


# ---- broadcast -------------------------------------------------------------------------------------------------------

# Each entry: the hold in µs, whether the holder spins or sleeps, the number of broadcasts that are timed, the number of further broadcasts
# during which the waiters' states are read, and the number of candidates that run at once.
BROADCAST = [(10, "spin", 5, 2, 1), (1000, "sleep", 4, 2, 5), (1000, "spin", 2, 1, 1)]


def broadcast(runner):
    o = runner.options
    points = []
    for hold, how, timed, looks, jobs in BROADCAST:
        points += measure(runner, traffic(o, hold, how), rounds_of(o, 1), "broadcast",
                          ["--hold-us", hold, "--hold", how, "--outside-us", o.outside_us, "--rounds", 1 if o.quick else timed,
                           "--looks", 1 if o.quick else looks, "--patience", 1], LIMIT, jobs)
    return {"points": points}


def missing_of(point):
    return sum(r["missing"] for r in point["rounds"])


def until_through(points):
    """Returns the median time until all waiters have returned. A run ends with the first broadcast that takes longer than the time
    limit."""
    def of_name(name):
        point = points.get(name)
        if point is not None and missing_of(point):
            longest = max(r["us_until_through"]["max"] for r in point["rounds"]) / 1000
            return 1e9 + missing_of(point), "> " + three_digits(longest)  # sorts a result with more missing waiters as worse
        return figure(point, of("us_until_through", "median", scale=1e-3))
    return of_name


def switches(result):
    return result["voluntary_per_waiter"]["median"] if result["voluntary_per_waiter"]["n"] else None


def broadcast_tables(group):
    points = group["points"]
    columns, missing = [], []
    kinds = kinds_of_traffic(points)
    for hold, how, outside in kinds:
        here, title = with_traffic(points, hold, how, outside), f"{length_of(hold)} {'asleep' if how == 'sleep' else 'awake'}"
        columns += [Column(f"{title}: ms", until_through(here)), column("switches", here, switches, brief=True)]
        late = [f"{code(name)} ({missing_of(p)} missing)" for name, p in here.items() if missing_of(p)]
        missing.append(f"- With holds of {title} some waiters had not returned under {len(late)} of {len(here)} locks"
                       + (f": {', '.join(late)}." if late else "."))
    rounds = [r for p in points for r in p["rounds"]]
    waiters, users = (next((r[name] for r in rounds), 0) for name in ("waiters", "users"))
    text = (f"{waiters} threads wait for a condition; {users} other threads lock the mutex again and again and hold it, awake or asleep, "
            f"for the time of the column, {pause(kinds[0][2])}. A cell has the time from the broadcast until the last waiter has "
            "returned and unlocked, the median of the broadcasts of a process, and the voluntary context switches of a waiter in this "
            "time. The sign `>` marks a lower bound: some waiters had not returned after this time.")
    return [("Broadcasts", "\n".join([text + "\n", *missing]), *summaries.table(names_in(points), columns))]


MEASURE = {"signalled": signalled, "held": held, "deadlines": deadlines, "broadcast": broadcast}
TABLES = {"signalled": signalled_tables, "held": held_tables, "deadlines": deadlines_tables, "broadcast": broadcast_tables}
PROGRAMS = {"signalled": "signalled", "held": "held_locks", "deadlines": "deadlines", "broadcast": "broadcast"}
