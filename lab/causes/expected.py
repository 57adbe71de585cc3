"""What a report may say of each cause: the table by which lab.causes judges. It was changed after the first results of the fixed
programs, and got the names of today's rules after the results of before. docs/stat.md lists the rules.

A cause that was removed and gained (GAIN) has other expectations than one whose removal gained nothing (NONE). `rules` are the
acceptable rules of the program's verdict, `rows` those of the row whose name matches `named` (empty: any, also no row), `named` and
`words` are patterns that the verdict must have (empty: any). `forbidden` and `unfit` are patterns that neither the verdict nor the
command after it nor the verdict of the named row may have. `forbidden`: dangerous advice, which breaks the program or claims the
opposite of the measured truth; what breaks a program is forbidden in all rows' verdicts. `unfit`: advice that gains nothing here. Empty
`rules`: any."""

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
# This pattern forbids advice to try another lock. The sentences "a lock gains little" and "no lock helps" remain allowed.
TRY_A_LOCK = r"try (a|another|other) locks?"
TRIAL = r"\busher try\b"
SHORTEN = r"shorten (or split )?the critical section|spread what it guards"
# Put behind a word of advice, this pattern lets a warning pass, such as "more credits would break the exclusion".
BREAKS = r"(?! (would |can )?break)"
MORE_CREDITS = rf"(more|enough|further|additional) credits{BREAKS}|(?<!not )have more|too few|second token{BREAKS}"
DEADLOCK = r"for ever|\bdeadlock"
BREAKING = (MORE_CREDITS, DEADLOCK)  # forbidden in the verdict of any row
WAKES_FEWER = r"wakes fewer|wake-ups cost"
TOO_FEW = r"^(?!.*for work).*too few"  # without the other possibility


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
    why: str        # what is not as expected; empty if nothing
    dangerous: list  # the forbidden words that were said
    row: dict       # the row that `named` matches, or None


def row_of(report, named):
    """Returns the first row (the most waited one) whose name matches."""
    return next((row for row in report["rows"] if named and re.search(named, row["name"])), None)


def said(report, row=None):
    """Returns the texts on which an operator acts."""
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
    """Judges a report. A cause whose gain was not decided (None) may be reported in either way, and only words that both
    ways forbid are dangerous."""
    table = EXPECTED[cause]
    ways = [table[way] for way in ([truth] if truth else [GAIN, NONE]) if way in table]
    ways = ways or list(table.values())  # a gain where none is possible is noise
    judged = [judge_one(expected, report) for expected in ways]
    best = next((j for j in judged if j.right), judged[0])
    best.dangerous = [words for words in best.dangerous if all(words in j.dangerous for j in judged)]
    return best
