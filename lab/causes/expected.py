"""The sentences that a report of `usher stat` may and must not contain for each cause of waiting: the table by which lab.causes judges. The
table was changed after the first results of the fixed programs. When the rules of `usher stat` were rewritten, the table got the new rules'
names. docs/stat.md lists the rules.

A cause has two entries: GAIN if its removal has gained throughput, NONE if it has not. `rules`: the acceptable rules of the program's
verdict; empty: any. `rows`: the acceptable rules of the row whose name matches `named`; empty: any, or no row. `named` and `words`:
patterns that the verdict must contain; empty: any. `forbidden` and `unfit`: patterns that must occur neither in the verdict, nor in the
command after it, nor in the verdict of the named row. `forbidden` is dangerous advice, which breaks the program or claims the opposite
of the measured truth; advice that breaks the program is forbidden in the verdicts of all rows. `unfit` is advice that gains nothing
here.
"""

import re
from dataclasses import dataclass

GAIN, NONE = "gain", "none"

# Rules of `usher stat` whose verdict promises no gain from another lock.
QUIET = frozenset({"cold", "scattered", "cpus-full", "cpus-taken", "no-calls"})


@dataclass(frozen=True)
class Expected:
    rules: frozenset
    rows: frozenset = frozenset()
    named: str = ""
    words: str = ""
    forbidden: tuple = ()
    unfit: tuple = ()


# ---- forbidden words ---------------------------------------------------------------------------------------------------

NOTHING_HELPS = r"\bno (other )?lock can make|expect nothing|(nobody|no thread) waited for it$"
# Finds advice to try another lock. The sentences "a lock gains little" and "no lock helps" do not match.
TRY_A_LOCK = r"try (a|another|other) locks?"
TRIAL = r"\busher try\b"
SHORTEN = r"shorten (or split )?the critical section|spread what it guards"
# Appended to a pattern of advice: a warning such as "more credits would break the exclusion" then does not match.
BREAKS = r"(?! (would |can )?break)"
MORE_CREDITS = rf"(more|enough|further|additional) credits{BREAKS}|(?<!not )have more|too few|second token{BREAKS}"
DEADLOCK = r"for ever|\bdeadlock"
BREAKING = (MORE_CREDITS, DEADLOCK)  # forbidden in the verdict of any row
WAKES_FEWER = r"wakes fewer|wake-ups cost"
TOO_FEW = r"^(?!.*for work).*too few"  # does not match if the sentence also names the other possibility ("for work")


def gain(rules, rows="", named="", words="", forbidden=(), unfit=()):
    return Expected(frozenset(rules.split()), frozenset(rows.split()), named, words, (NOTHING_HELPS, *forbidden), unfit)


def none(more="", forbidden=()):
    return Expected(QUIET | frozenset(more.split()), forbidden=(TRY_A_LOCK, DEADLOCK, *forbidden), unfit=(TRIAL, SHORTEN))


# ---- cause -> truth -> what may be said ---------------------------------------------------------------------------------

BUSY_HOLD = "long-hold sleeping-hold hot hot-short convoy"
EXPECTED = {
    # Mutexes.
    "sleeping hold": {GAIN: gain("hot-mutex", "long-hold sleeping-hold hot", "hot_mutex", unfit=(TRY_A_LOCK, TRIAL)), NONE: none()},
    "working hold": {GAIN: gain("hot-mutex one-at-a-time", BUSY_HOLD, "hot_mutex"), NONE: none()},
    "yielding hold": {GAIN: gain("hot-mutex", "uneven-hold", "hot_mutex", forbidden=(WAKES_FEWER,), unfit=(r"a hold takes \d",)),
                      NONE: none("hot-mutex", (WAKES_FEWER,))},
    "allocator": {GAIN: gain("hot-mutex", "allocator", "hot_mutex"), NONE: none()},
    "one of many": {GAIN: gain("hot-mutex", "one-of-many", "mutex_table"), NONE: none()},
    "interpreter": {GAIN: gain("one-at-a-time", forbidden=(WAKES_FEWER, TRY_A_LOCK), unfit=(TRIAL,)), NONE: none("one-at-a-time")},
    "polled": {GAIN: gain("polled hot-mutex", "polled", "hot_polled"), NONE: none("polled")},
    "retreats": {GAIN: gain("hot-mutex", "", "account", forbidden=(DEADLOCK,)), NONE: none("hot-mutex")},
    "cool mutex": {NONE: none(), GAIN: gain("hot-mutex one-at-a-time", BUSY_HOLD, "hot_mutex")},
    "full CPUs": {NONE: none("", (WAKES_FEWER,)), GAIN: gain("hot-mutex cpus-full", "", "", forbidden=(WAKES_FEWER,))},
    "even table": {NONE: none(), GAIN: gain("hot-mutex scattered", "spread", "mutex_table")},
    "other work": {NONE: none(), GAIN: gain("polled hot-mutex", "", "hot_mutex")},
    # Read-write locks, spin locks.
    "read-write lock": {GAIN: gain("hot-rwlock", "", "hot_rwlock"), NONE: none()},
    "waiting writer": {GAIN: gain("hot-rwlock", "writers-hold readers-writers", "read_mostly"), NONE: none("hot-rwlock")},
    "spin lock": {GAIN: gain("hot-spin", "", "hot_spin"), NONE: none("hot-spin")},
    # Semaphores.
    "semaphore as mutex": {GAIN: gain("credits hot-mutex one-at-a-time", "semaphore-lock no-credits", "hot_binary",
                                        forbidden=(MORE_CREDITS,), unfit=(MORE_CREDITS,)),
                           NONE: none("", (MORE_CREDITS,))},
    "token": {GAIN: gain("credits one-at-a-time", "no-credits", "ring_turns", forbidden=(MORE_CREDITS, TRY_A_LOCK),
                           unfit=(MORE_CREDITS, TRIAL)),
              NONE: none("credits one-at-a-time", (MORE_CREDITS,))},
    "few credits": {GAIN: gain("credits", "no-credits semaphore-lock", "pool_credits"), NONE: none("credits")},
    "waits for work": {NONE: none("credits wake-ups", (TOO_FEW,))},
    # Condition variables and barriers.
    "herd": {GAIN: gain("wake-ups hot-mutex", "", "work_(came|mutex)", "broadcast"), NONE: none("wake-ups")},
    "turns": {GAIN: gain("wake-ups one-at-a-time", "", "turn_"), NONE: none("wake-ups one-at-a-time")},
    "barrier": {GAIN: gain("barrier", "last-one", "hot_barrier", forbidden=(TRY_A_LOCK,), unfit=(TRIAL,)), NONE: none("barrier")},
    # Locks that call futex directly, without a lock of the C library.
    "own futex": {GAIN: gain("unseen-futexes", "", "", "futex"), NONE: none()},
    "atomic wait": {GAIN: gain("unseen-futexes", "", "", "futex"), NONE: none()},
    "circle": {GAIN: gain("deadlock", "", "of_circle"), NONE: none()},
    # No lock at all.
    "only computes": {NONE: none()},
    "only waits for devices": {NONE: none()},
}


# ---- the judgement ------------------------------------------------------------------------------------------------------

@dataclass
class Judgement:
    right: bool
    why: str        # the differences from the expectation; empty if there are none
    dangerous: list  # the forbidden words that the report contains
    row: dict       # the row that `named` matches, or None


def row_of(report, named):
    """Returns the first row, in descending order of waiting, whose name matches."""
    return next((row for row in report["rows"] if named and re.search(named, row["name"])), None)


def said(report, row=None):
    """Returns the texts of a report that an operator would follow."""
    return "\n".join(filter(None, [report["verdict"], report["next"], row and row["verdict"]]))


def judge_one(expected, report):
    row = row_of(report, expected.named)
    wrong = []
    if expected.rules and report["rule"] not in expected.rules:
        wrong.append(f"rule {report['rule']}")
    if expected.named and not re.search(expected.named, report["verdict"]):
        wrong.append(f"does not name {expected.named}")
    if expected.rows and (row is None or row["rule"] not in expected.rows):
        wrong.append(f"row {row['rule'] if row else 'missing'}")
    if expected.words and not re.search(expected.words, said(report, row)):
        wrong.append(f"does not say '{expected.words}'")
    text = said(report, row)
    wrong += [f"says '{found.group()}'" for pattern in expected.unfit for found in [re.search(pattern, text, re.M)] if found]
    everywhere = "\n".join([text, *(row["verdict"] for row in report["rows"])])
    dangerous = [found.group() for pattern in expected.forbidden
                 for found in [re.search(pattern, everywhere if pattern in BREAKING else text, re.M)] if found]
    return Judgement(not wrong, ", ".join(wrong), dangerous, row)


def judge(cause, truth, report):
    """Judges a report. If the measurement did not decide whether the cause's removal gains (`truth` is None), either entry of the cause
    is acceptable, and only words that both entries forbid are dangerous."""
    table = EXPECTED[cause]
    ways = [table[way] for way in ([truth] if truth else [GAIN, NONE]) if way in table]
    ways = ways or list(table.values())  # a measured truth that the cause cannot have is noise
    judged = [judge_one(expected, report) for expected in ways]
    best = next((j for j in judged if j.right), judged[0])
    best.dangerous = [words for words in best.dangerous if all(words in j.dangerous for j in judged)]
    return best
