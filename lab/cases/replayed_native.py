"""Checks `usher predict` on real pthread programs: each is recorded by `usher record` with two threads under the C library's mutex,
predicted with 2, 4 and 8 threads under six locks, and measured under `usher run --lock`, all on this machine.

  python3 -m lab.cases.replayed_native --build DIR    everything: 13 minutes of measurements that need the machine for themselves,
                                                      then ten of predictions that do not
  … --measure, … --predict                            one of the two; the recordings stay in DIR/replayed-native
  … --description FILE                                predictions with another description of the machine; not judged
  … --trial                                           other parameters, short; not judged, stores nothing
  … --picture                                         draws the picture of the page; runs nothing
  python3 -m lab.pages replayed-native                makes the page

The programs, the parameters, the metrics and the bars below were committed before the first judged run.

The machine's description is made by `usher sim calibrate` at the beginning of the measurements. The recording is of RECORDED_S seconds
with the options' defaults. A point is a program, a lock and a number of threads. Its value is the number of lock operations a second, the
median of ROUNDS rounds in which the locks take turns; the prediction is the median that `usher predict` gives by its defaults.

Bars: the prediction of each point is within 5 % of the measured value; of two locks of one program and number of threads whose values
differ by 10 % or more, the faster is predicted to be the faster. Also given, without a bar: points within 15 % and 40 %, and the error of
the ratio of each lock to futex.

The cost of recording: each program of COSTS runs in rounds, alone and recorded with windows of three lengths. Given are the CPU time
of the program for an operation, recorded and alone; the share of time in windows; and the rate inside the windows and that of the
recording's replay against the program's own rate. Bar: windows of the default length cost 2 % of CPU time at most, in the median of each
program."""

import json
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import TREE, Build, between_markers, die
from lab.cases import predicted_picture
from lab.cases.replayed import BAR, ORDER_FROM, error_of, judged, orders, percent
from lab.run import packed, rounds, script
from lab.run.runner import Failed

RESULT = TREE / "lab/results/replayed-native.json"
PICTURE = TREE / "lab/results/replayed-native.svg"
LOCKS = ["futex", "steady", "mcs", "twa", "mcscr", "loiter-park"]
FIRST = LOCKS[0]
THREADS = [2, 4, 8]
RECORDED = 2
RECORDED_S, MEASURED_S, ROUNDS = 5, 0.4, 3
WIDER = 0.15, 0.40
RUN_LIMIT, PREDICT_LIMIT = 30, 900  # seconds
LENGTHS, DEFAULT_LENGTH = [10, 50, 200], 50  # ms
COST_S, COST_ROUNDS, COST_BAR = 2, 5, 0.02
WARM_UP_S = 0.1  # seconds that known_program runs before its measured time


@dataclass
class Program:
    name: str
    title: str
    options: dict = field(default_factory=dict)
    kind: str = "known"  # known: known_program; bench: MutexBench of usher bench; messages: producer_consumer

    def words(self, build, threads, seconds):
        options = [w for name, value in self.options.items() for w in (f"--{name}", str(value))]
        if self.kind == "bench":
            sets = [w for name, value in self.options.items() for w in ("--set", f"{name}={value}")]
            return [build.usher, "bench", "mutexbench", "--locks", "pthread", "--rounds", 1, "--quiet", "--json", "/dev/stderr",
                    "--threads", threads, "--seconds", seconds, *sets]
        if self.kind == "messages":
            return [build.program("producer_consumer"), "--producers", threads // 2, "--consumers", threads // 2, "--seconds", seconds, *options]
        return [build.program("known_program"), "--threads", threads, "--seconds", seconds, *options]

    def rate(self, outcome):
        """Returns the lock operations a second as `usher predict` counts them: a mutex acquired by the return from a wait does not
        count."""
        if self.kind == "bench":
            text = outcome.stderr  # may also contain text of usher record
            point = json.JSONDecoder().raw_decode(text[text.index("{"):])[0]["points"][0]
            return sum(point["operations"]) / point["seconds"]
        said = json.loads(outcome.stdout)
        if self.kind == "messages":
            return (said["acquisitions"] - said["waits_not_full"] - said["waits_not_empty"]) / said["seconds"]
        return said["operations"] / said["seconds"]


# On the measured machine, a step of known_program takes about 1.6 ns.
PROGRAMS = [
    Program("short", "sections of 20 steps, 200 outside", {"inside": 20, "outside": 200}),
    Program("medium", "sections of 200 steps, 2000 outside", {"inside": 200, "outside": 2000}),
    Program("long", "sections of 3000 steps, 9000 outside", {"inside": 3000, "outside": 9000}),
    Program("only", "sections of 100 steps, nothing outside", {"inside": 100, "outside": 0}),
    Program("bench", "MutexBench of usher bench with a shared generator", {"shared": 1, "cs": 20, "ncs": 400}, "bench"),
    Program("stripes", "one of 8 locks, half of all sections under one of them", {"locks": 8, "hot": 500, "inside": 300, "outside": 3000}),
    Program("nested", "two of 8 locks at once in three sections of ten, in their order",
            {"locks": 8, "nested": 300, "inside": 300, "outside": 3000}),
    Program("two-lengths", "one section in twenty is twenty times as long", {"long": 50, "inside": 200, "outside": 4000}),
    Program("sleeping", "sleeps of about 100 µs between sections", {"inside": 4000, "outside": 4000, "sleep-us": 100}),
    Program("queue", "bounded queue with work on both sides", {"program": "queue", "places": 16, "inside": 200, "produces": 4000,
                                                               "consumes": 4000}),
    Program("messages", "producer_consumer: a queue without work, 1000 places", {"bound": 1000}, "messages"),
    Program("connections", "a semaphore of one, and a counted lock",
            {"program": "connections", "credits": 1, "uses": 4000, "inside": 200, "outside": 6000}),
    Program("readers", "a read-write lock, one write in twenty, and a lock",
            {"program": "readers", "writes": 50, "inside": 300, "outside": 3000}),
]

# Programs for --trial, which tests the scripts and commands.
TRIALS = [
    Program("short", "sections of 40 steps, 300 outside", {"inside": 40, "outside": 300}),
    Program("bench", "MutexBench", {"cs": 10, "ncs": 200}, "bench"),
    Program("nested", "two of 6 locks", {"locks": 6, "nested": 400, "inside": 200, "outside": 2500}),
    Program("queue", "bounded queue", {"program": "queue", "places": 8, "inside": 300, "produces": 6000, "consumes": 5000}),
    Program("messages", "producer_consumer", {"bound": 500}, "messages"),
    Program("connections", "a semaphore", {"program": "connections", "credits": 2, "uses": 3000}),
    Program("readers", "a read-write lock", {"program": "readers", "writes": 100, "inside": 200, "outside": 4000}),
]

COSTS = [
    Program("seldom", "one of 64 locks: sections of 20 steps, 40 outside", {"locks": 64, "inside": 20, "outside": 40}),
    Program("shared", "one lock: sections of 200 steps, 2000 outside", {"inside": 200, "outside": 2000}),
    Program("queue", "bounded queue of 1000 places with work of 50 steps on both sides",
            {"program": "queue", "places": 1000, "inside": 20, "produces": 50, "consumes": 50}),
]


def done(words, limit):
    outcome = harness.run(words, limit, backtrace=False)
    if not outcome.ok:
        raise Failed(outcome.trouble())
    return outcome


def said_of_windows(outcome):
    """Returns (number of windows, their time in seconds), as the command's report gives them."""
    found = re.search(r"usher record: (\d+) windows, (\d+) ms in all", outcome.stderr)
    if not found:
        raise Failed("usher record has not said what it recorded")
    return int(found[1]), int(found[2]) / 1000


# ---- the part that needs a quiet machine -------------------------------------------------------------------------------

def measure_points(build, programs, folder, quick):
    measured = {}
    for p in programs:
        file = folder / f"{p.name}.recording"
        recorded = done([build.usher, "record", "-o", file, "--", *p.words(build, RECORDED, 1 if quick else RECORDED_S)], RUN_LIMIT)
        found = {"title": p.title, "recorded": p.rate(recorded), "windows": said_of_windows(recorded)[0], "points": {}}
        for threads in THREADS:
            def one(lock):
                return p.rate(done([build.usher, "run", "--lock", lock, "--", *p.words(build, threads, MEASURED_S)], RUN_LIMIT))
            for number in range(1 if quick else ROUNDS):
                for lock in rounds.turned(LOCKS, number):
                    key = f"{lock} {threads}"
                    if isinstance(found["points"].get(key), str):
                        continue  # one round of this candidate has failed
                    try:
                        found["points"].setdefault(key, []).append(one(lock))
                    except Failed as error:
                        found["points"][key] = str(error)
        measured[p.name] = found
        print(f"measured {p.name}", flush=True)
    return measured


def measure_costs(build, folder, quick):
    found = {}
    for p in COSTS:
        runs = {"alone": [], **{str(length): [] for length in LENGTHS}}
        for number in range(1 if quick else COST_ROUNDS):
            for candidate in rounds.turned(list(runs), number):
                words = p.words(build, RECORDED, COST_S)
                if candidate != "alone":
                    file = folder / f"cost-{p.name}-{candidate}-{number}.recording"
                    words = [build.usher, "record", "--length", candidate, "-o", file, "--", *words]
                outcome = done(words, RUN_LIMIT)
                said = json.loads(outcome.stdout)
                run = {"rate": said["operations"] / said["seconds"], "cpu_ns": said["cpu"] / said["operations"] * 1e9,
                       "cpu_s": said["cpu"]}
                if candidate != "alone":
                    count, length = said_of_windows(outcome)
                    run.update(windows=count, windows_s=length, seconds=outcome.seconds, all_cpu_s=outcome.cpu_seconds)
                runs[candidate].append(run)
        found[p.name] = {"title": p.title, "runs": runs}
        print(f"measured the cost of {p.name}", flush=True)
    return found


# ---- the predictions ---------------------------------------------------------------------------------------------------

def predicted(build, recording, machine, threads, locks, jobs):
    file = recording.with_suffix(".json")
    done([build.usher, "predict", recording, "--machine", machine, "--threads", ",".join(map(str, threads)), "--locks", ",".join(locks),
          "--no-unknowns", "--quiet", "--jobs", jobs, "--json", file], PREDICT_LIMIT)
    return json.loads(file.read_text())


def spread(found):
    s = found["operations_per_second"]
    return [s["median"], s["least"], s["most"]]


def predict_points(build, programs, folder, machine, jobs):
    """Adds the predicted values to each program."""
    for name, program in programs.items():
        try:
            found = predicted(build, folder / f"{name}.recording", machine, THREADS, LOCKS, jobs)
        except Failed as error:
            program["predicted"] = str(error)
        else:
            program["predicted"] = {f"{p['lock']} {p['threads']}": spread(p) for p in found["points"]}
            program["in_windows"] = found["recording"]["operations_per_second"]
            program["replayed_windows"] = found["recording"]["replayed_windows"]
        points = points_of(program)
        print(f"{name}: {judged(points) if points else program['predicted']}", flush=True)


def predict_costs(build, result, folder, jobs):
    for name, program in result["costs"].items():
        for length in LENGTHS:
            for number, run in enumerate(program["runs"][str(length)]):
                found = predicted(build, folder / f"cost-{name}-{length}-{number}.recording", folder / "here.toml", [RECORDED], [FIRST], jobs)
                run["in_windows"] = found["recording"]["operations_per_second"]
                run["replayed"] = found["points"][0]["operations_per_second"]["median"]
        print(f"replayed the recordings of {name}", flush=True)


# ---- the page ----------------------------------------------------------------------------------------------------------

def with_other_description(result):
    """Returns the programs with the predictions that use the other description of the machine."""
    return {name: program | result["other_description"]["programs"][name] for name, program in result["programs"].items()}


def summary(programs):
    """Returns (points, within 5, 15, 40 %, median error, pairs, those in order, median error of the ratios)."""
    everything = [p for program in programs.values() for p in points_of(program)]
    pairs = [orders(points_of(p)) for p in programs.values() if points_of(p)]
    ratios = [e for program in programs.values() for e in ratio_errors(points_of(program))]
    return (len(everything), within(everything, BAR), *(within(everything, limit) for limit in WIDER),
            statistics.median(map(error_of, everything)), sum(p for p, _ in pairs), sum(r for _, r in pairs), ratio_text(ratios))


def points_of(program):
    """Returns the points in the form that lab.cases.replayed uses: median and range, measured and predicted."""
    if not isinstance(program.get("predicted"), dict):
        return []
    points = []
    for key, values in program["points"].items():
        lock, threads = key.split()
        if isinstance(values, list) and key in program["predicted"]:
            points.append({"lock": lock, "threads": int(threads), "actual": [statistics.median(values), min(values), max(values)],
                           "predicted": program["predicted"][key]})
    return points


def ratio_errors(points):
    """Returns the errors of the predicted ratio of each lock to the first lock."""
    at = {(p["lock"], p["threads"]): p for p in points}
    errors = []
    for (lock, threads), p in at.items():
        first = at.get((FIRST, threads))
        if lock == FIRST or not first or not p["actual"][0] or not first["predicted"][0]:
            continue
        actual, said = (p[which][0] / first[which][0] for which in ("actual", "predicted"))
        errors.append(abs(said / actual - 1))
    return errors


def within(points, limit):
    return sum(error_of(p) <= limit for p in points)


def choices(points):
    """For each number of threads, returns the measured rate of the lock that is predicted to be the fastest, relative to the rate of the
    fastest lock. Added after the judged run."""
    shares = []
    for threads in THREADS:
        same = [p for p in points if p["threads"] == threads]
        if same:
            chosen = max(same, key=lambda p: p["predicted"][0])
            shares.append(chosen["actual"][0] / max(p["actual"][0] for p in same))
    return shares


def ratio_text(errors):
    return percent(statistics.median(errors)) if errors else "–"


def page_points(result):
    """The programs with the largest median error first."""
    rows, everything, passed, unmeasured = [], [], 0, 0
    for program in result["programs"].values():
        points = points_of(program)
        unmeasured += len(LOCKS) * len(THREADS) - len(points)
        if not points:
            rows.append((float("inf"), [program["title"], f"not predicted: {program.get('predicted', 'not run')}", *[""] * 6]))
            continue
        j = judged(points)
        passed += j["within"] == j["points"] and j["right"] == j["pairs"]
        everything += points
        worst = max(points, key=error_of)
        rows.append((j["median"], [program["title"], f"{j['within']} of {j['points']}", str(within(points, WIDER[0])),
                                   str(within(points, WIDER[1])), percent(j["median"]),
                                   f"{percent(j['worst'])} ({worst['lock']}, {worst['threads']})", f"{j['right']} of {j['pairs']}",
                                   ratio_text(ratio_errors(points))]))
    rows.sort(key=lambda row: -row[0])
    n, near, nearer, wide, median, pairs, right, ratios = summary(result["programs"])
    repeat = sum(p["actual"][2] <= (1 + BAR) * p["actual"][1] for p in everything)
    low = sum(p["predicted"][0] < p["actual"][0] for p in everything)
    head = (f"Of {len(result['programs'])} programs, {passed} meet both bars. Of {n} points, {near} are within 5 %, "
            f"{nearer} within 15 % and {wide} within 40 % (median error {percent(median)}); {low} predictions are too low.\n"
            f"Of {pairs} pairs of locks that differ by 10 %, {right} are in order. The ratio of a lock "
            f"to futex has a median error of {ratios}. The rounds of a\nmeasurement lie within 5 % of each other at {repeat} of "
            f"{n} points." + (f" {unmeasured} points have no value." if unmeasured else ""))
    shares = [share for program in result["programs"].values() for share in choices(points_of(program))]
    best = sum(share >= 1 / (1 + ORDER_FROM) for share in shares)
    head += (f"\n\nNot a bar, and written after the run: the lock that is predicted to be the fastest is, as measured, within 10 % of the fastest in "
             f"{best} of {len(shares)} cases\n(a program and a number of threads), and at worst makes {100 * min(shares):.0f} % of its rate.")
    if "other_description" in result:
        n, near, nearer, wide, median, pairs, right, ratios = summary(with_other_description(result))
        head += (f"\n\nWith a description that was made later, while other programs took {result['other_description']['others']} of the CPU time (not "
                 f"judged): {near} within 5 %, {nearer} within 15 %,\n{wide} within 40 % (median error {percent(median)}), {right} of {pairs} "
                 f"pairs in order, median error of the ratio {ratios}.")
    heading = ["program", "points within 5 %", "within 15 %", "within 40 %", "median error", "largest (lock, threads)", "pairs in order",
               f"error of the ratio to {FIRST}"]
    return head + "\n\n" + harness.markdown([row for _, row in rows], heading)


def page_groups(result):
    points = [p for program in result["programs"].values() for p in points_of(program)]
    rows = []
    for key, values in (("lock", LOCKS), ("threads", THREADS)):
        for v in values:
            group = [p for p in points if p[key] == v]
            rows.append([f"{v} threads" if key == "threads" else v, f"{within(group, BAR)} of {len(group)}", str(within(group, WIDER[0])),
                         str(within(group, WIDER[1])), percent(statistics.median(map(error_of, group)))])
    return harness.markdown(rows, ["points", "within 5 %", "within 15 %", "within 40 %", "median error"])


def page_windows(result):
    rows = []
    for program in result["programs"].values():
        own = program["recorded"]
        points = {(p["lock"], p["threads"]): p for p in points_of(program)}
        replay = points.get((FIRST, RECORDED))
        rows.append([program["title"], f"{own / 1e6:.3g}", f"{program['in_windows'] / own:.2f}" if "in_windows" in program else "–",
                     f"{replay['predicted'][0] / own:.2f}" if replay else "–",
                     f"{replay['actual'][0] / own:.2f}" if replay else "–"])
    return harness.markdown(rows, ["program", "million operations a second while it was recorded", "in the windows, as a share",
                                   f"replay under {FIRST}", f"measured under {FIRST}"])


def page_costs(result):
    rows, over = [], 0
    for program in result["costs"].values():
        alone = program["runs"]["alone"]
        for length in LENGTHS:
            runs = program["runs"][str(length)]

            def ratios(key, of="rate"):
                return [r[key] / a[of] for r, a in zip(runs, alone) if key in r]
            costs = [r - 1 for r in ratios("cpu_ns", "cpu_ns")]
            over += length == DEFAULT_LENGTH and statistics.median(costs) > COST_BAR
            rows.append([program["title"], f"{length} ms", f"{100 * statistics.median(r['windows_s'] / r['seconds'] for r in runs):.1f} %",
                         harness.median_range([100 * c for c in costs], "{:+.1f}") + " %",
                         harness.median_range([r["all_cpu_s"] - r["cpu_s"] * (1 + WARM_UP_S / COST_S) for r in runs]) + " s",
                         *(harness.median_range(ratios(key)) for key in ("rate", "in_windows", "replayed"))])
    head = (f"The bar for the CPU time, 2 % with the default of {DEFAULT_LENGTH} ms, is "
            f"{'met' if not over else f'missed by {over} of {len(COSTS)} programs'}. Medians and ranges of {COST_ROUNDS} rounds; the last "
            f"three columns are shares of the\nprogram's own rate, unrecorded. `usher record` itself: CPU time in a run of {COST_S} s.")
    return head + "\n\n" + harness.markdown(rows, ["program", "windows", "time in windows", "CPU time of an operation", "usher record itself",
                                                   "rate of the recorded program", "inside windows", "replay"])


def page(text):
    result = packed.document(RESULT)
    for name, content in (("points", page_points(result)), ("groups", page_groups(result)), ("windows", page_windows(result)),
                          ("costs", page_costs(result)), ("origin", harness.provenance_line(result))):
        text = between_markers(text, name, content)
    return text


def draw():
    result = packed.document(RESULT)
    rows = [(program["title"], points_of(program)) for program in result["programs"].values()]
    m = result["machine"]
    PICTURE.write_text(predicted_picture.picture(rows, LOCKS, f"{m['cpu']}, {m['cpus']} CPUs; {result['date'][:10]}, commit {result['commit']}"))
    return 0


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--measure", action="store_true", help="only the measurements")
    parser.add_argument("--predict", action="store_true", help="only the predictions of what was measured")
    parser.add_argument("--description", type=Path, metavar="FILE", help="only predictions, with this description of the machine")
    parser.add_argument("--trial", action="store_true", help="other parameters, one short round; stores nothing")
    parser.add_argument("--only", metavar="NAMES", help="with --trial: these programs, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="of usher predict")
    parser.add_argument("--picture", action="store_true", help="draw the picture of the page; runs nothing")
    options = parser.parse_args()
    if options.picture:
        return draw()
    if options.only and not options.trial:
        die("--only: with --trial, since the programs are judged together")
    build = Build(options.build)
    for name in "known_program", "producer_consumer":
        build.need(build.program(name) or build.programs / name)
    programs = [p for p in (TRIALS if options.trial else PROGRAMS) if not options.only or p.name in options.only.split(",")]
    folder = build.folder / ("replayed-native-trial" if options.trial else "replayed-native")
    folder.mkdir(exist_ok=True)
    target = folder / "result.json" if options.trial else RESULT
    if options.description:
        text = options.description.read_text()
        result = packed.document(target)
        programs = {name: {"points": program["points"]} for name, program in result["programs"].items()}
        predict_points(build, programs, folder, options.description.resolve(), options.jobs)
        found = re.search(r"Others took ([\d.]+ %)", text)
        result["other_description"] = {"machine_file": text, "others": found[1] if found else "an unknown part",
                                       "programs": {name: {"predicted": program["predicted"]} for name, program in programs.items()}}
        rounds.put(target, result)
        return 0
    if options.measure or not options.predict:
        others = harness.OthersShare()
        done([build.usher, "sim", "calibrate", "-o", folder / "here.toml"], 120)
        result = {"programs": {}, "costs": {}, "machine_file": (folder / "here.toml").read_text().replace(f"{folder}/", "")}
        try:
            result["programs"] = measure_points(build, programs, folder, options.trial)
            result["costs"] = measure_costs(build, folder, options.trial)
        finally:
            result.update(harness.provenance(build, others))
            rounds.put(target, result)
    if options.predict or not options.measure:
        result = packed.document(target)
        (folder / "here.toml").write_text(result["machine_file"])
        predict_points(build, result["programs"], folder, folder / "here.toml", options.jobs)
        predict_costs(build, result, folder, options.jobs)
        rounds.put(target, result)
    if options.trial:
        print(page_points(result), page_groups(result), page_windows(result), page_costs(result), sep="\n\n")
    return 0


if __name__ == "__main__":
    script.entry(main)
