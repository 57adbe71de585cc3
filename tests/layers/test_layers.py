#!/usr/bin/env python3
"""Checks, by the text of the tree, which files may include which; each violation is printed as one line, file -> file
-> file. Also checks that each header has a file name of its own, that nothing outside lab/ uses the laboratory, that
`make help` fits a terminal, and that the commands of all make targets exist.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from collections import defaultdict, deque
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(usher/[^>]+)>)', re.MULTILINE)
HEADER = re.compile(r"[\w/]+\.hpp")  # a header's name in CMake's files
SOURCES = {".h", ".hpp", ".c", ".cpp", ".in"}


def below(*folders, but=()):
    return lambda file: file.startswith(folders) and not file.startswith(but)


# The parts of the tree. Files of a part include only files of the same part and of parts that stand before it.
PARTS = ("include", "library", "support", "watch", "check", "tool", "lab")


def parts(*names):
    return tuple(f"{name}/" for name in names)


def behind(part):
    return parts(*PARTS[PARTS.index(part) + 1:])


# Each rule: a test of the files to which it applies, a test of the files that they must not include directly or
# indirectly, and the rule in words.
RULES = [
    (below("lab/sim/", "check/engine/", "check/scenarios/"), below("include/usher/platform/"),
     "the simulator and the checker do without the hardware's platform"),
    (below("include/usher/core/", "include/usher/locks/"), below("include/usher/platform/"),
     "locks and their parts know no platform"),
    *((below(f"{part}/"), below(*behind(part)), f"{part} includes nothing of {', '.join(PARTS[PARTS.index(part) + 1:])}")
      for part in PARTS[:-1]),
    (below("support/measure/"), below(*parts(*PARTS), but="support/measure/"), "measures include nothing of the tree"),
    (below("watch/contract/"), below("support/", "watch/", "library/", but="watch/contract/"),
     "the contract includes neither the recorder nor its readers"),
    (below("watch/recorder/"), below("support/", "watch/", but=("watch/contract/", "watch/recorder/")),
     "what runs in the program includes no reader"),
    (below("tool/", "check/"), below("watch/", but=("watch/contract/", "watch/access/")),
     "the command includes neither the recorder nor usher stat"),
    (below("lab/sim/", "lab/bench/"), below("support/", "lab/", but=("support/measure/", "lab/sim/", "lab/bench/")),
     "simulator and benchmarks include no other part of the laboratory"),
    (below("lab/calibrate/"), below("support/", "lab/", but=("support/measure/", "lab/calibrate/", "lab/sim/", "lab/bench/")),
     "the calibration includes nothing of the command line"),
    (below("lab/recordings/"), below("lab/", but="lab/recordings/"), "recordings include nothing else of the laboratory"),
    (below("lab/predict/"), below("lab/", but=("lab/predict/", "lab/recordings/", "lab/sim/", "lab/bench/")),
     "replays include the simulator, the programs and the recordings only"),
    (below("lab/"), below("watch/", "tool/", "check/", but=("watch/contract/", "watch/access/")),
     "the laboratory includes no other program"),
]
NO_CYCLES = below("include/")


class Includes:
    """A dictionary {file: [files that it includes]}, sorted, with names relative to the tree. An include that is not
    found is a system header or a generated file."""

    def __init__(self, tree):
        self.tree = Path(tree)
        self.files = sorted(str(p.relative_to(self.tree)) for top in PARTS
                            for p in (self.tree / top).rglob("*") if p.is_file() and p.suffix in SOURCES)
        self.known = set(self.files)
        self.edges = {file: sorted(self.included_by(file)) for file in self.files}

    def included_by(self, file):
        text = re.sub(r"/\*.*?\*/", "", (self.tree / file).read_text(), flags=re.DOTALL)
        found = set()
        for quoted, angled in INCLUDE.findall(text):
            found.update(self.resolve(file, quoted or angled))
        return found

    def resolve(self, file, name):
        if "@" in name:
            return self.substituted(file, name)
        folder = str(Path(file).parent)
        for path in (f"{folder}/{name}", f"include/{name}", name):
            if path in self.known:
                return [path]
        return []

    def substituted(self, template, name):
        """Returns the headers that CMake may insert in place of a variable: any header of the folder that is named
        before the variable; if the name is only the variable, any header that the template's CMake files name."""
        before = name.split("@")[0]
        if before:
            return [f for f in self.files if f.startswith((f"include/{before}", before))]
        folder = (self.tree / template).parent
        words = {word for listing in [folder / "CMakeLists.txt", *folder.glob("*.cmake")] if listing.exists()
                 for word in HEADER.findall(listing.read_text())}
        paths = (f"{root}{word}" for word in words for root in ("include/", "include/usher/", ""))
        return [path for path in paths if path in self.known]

    def way(self, start, forbidden):
        """Returns the shortest chain of includes to a forbidden file, as a list of files, or None."""
        came_from, todo = {start: None}, deque([start])
        while todo:
            file = todo.popleft()
            if forbidden(file):
                way = []
                while file is not None:
                    way.append(file)
                    file = came_from[file]
                return way[::-1]
            for other in self.edges[file]:
                if other not in came_from:
                    came_from[other] = file
                    todo.append(other)
        return None

    def cycles(self, concerned):
        """Returns the circles of includes, one for each file that closes a circle."""
        done, found = set(), []

        def visit(file, way):
            if file in way:
                found.append(way[way.index(file):] + [file])
            elif file not in done:
                for other in self.edges[file]:
                    if concerned(other):
                        visit(other, way + [file])
                done.add(file)

        for file in filter(concerned, self.files):
            visit(file, [])
        return found


def violations(tree):
    includes = Includes(tree)
    lines = []
    for concerned, forbidden, reason in RULES:
        for file in filter(concerned, includes.files):
            if way := includes.way(file, forbidden):
                lines.append(f"{' -> '.join(way)}: {reason}")
    lines += [f"{' -> '.join(way)}: headers include each other" for way in includes.cycles(NO_CYCLES)]
    return lines


# Names of headers that occur twice in include/. They stay, because the paths of installed headers are an interface.
TWICE_IN_INCLUDE = {"futex.hpp", "shared_memory.hpp"}


def shared_names(tree):
    """Returns {file name: paths} of the headers whose file name occurs more than once in the parts."""
    paths = defaultdict(list)
    for top in PARTS:
        for path in sorted((Path(tree) / top).rglob("*.h*")):
            paths[path.name].append(str(path.relative_to(tree)))
    return {name: found for name, found in paths.items()
            if len(found) > 1 and not (name in TWICE_IN_INCLUDE and all(p.startswith("include/") for p in found))}


# The product and its tests must not use the laboratory: they neither import or include files of lab/ nor read its
# results. The exceptions are the build and the Makefile, which build and run it; README, which shows a picture of it;
# and the demo, which runs two of its programs.
USES_LAB = re.compile(r"""^\s*(from|import)\s+lab\b | ^\s*\#\s*include.*\blab/ | ["']lab["'/] | \blab/results/""", re.MULTILINE | re.VERBOSE)
MAY_USE_LAB = {"CMakeLists.txt", "Makefile", "README.md", "tools/demo.sh",
               # names programs in the build folder, and tells changed results from changed code
               "tools/harness.py",
               "tests/unit/data/recorded_runs.txt",   # names its origin
               "tools/bench_sim.py",                  # measures the simulator
               # use a lock in all of its uses, also in the simulator
               "tests/contract/test_contract.py", "tests/add_a_lock/list_locks.cpp",
               "tests/layers/test_layers.py", "tests/install/test_install.py"}


def users_of_lab(tree, files):
    for file in files:
        if file.startswith(("lab/", "docs/", "tests/fuzz/")) or file in MAY_USE_LAB or not (Path(tree) / file).is_file():
            continue
        try:
            if USES_LAB.search((Path(tree) / file).read_text()):
                yield file
        except UnicodeDecodeError:
            continue


class Layers(unittest.TestCase):
    def found(self, files):
        with tempfile.TemporaryDirectory(prefix="usher-layers-") as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return violations(folder)

    def check(self, files, *expected):
        self.assertEqual(self.found(files), list(expected))

    def test_a_violation_is_one_line_with_its_way(self):
        native = "include/usher/platform/native.hpp"
        no_hardware = RULES[0][2]
        for folder in ("lab/sim", "check/engine"):
            self.check({f"{folder}/machine.cpp": f'#include "{folder}/machine.hpp"\n',
                        f"{folder}/machine.hpp": '#pragma once\n  #  include "usher/mutex.hpp"\n',
                        "include/usher/mutex.hpp": '#include "usher/platform/native.hpp"\n',
                        native: "#include <atomic>\n"},
                       f"{folder}/machine.cpp -> {folder}/machine.hpp -> include/usher/mutex.hpp -> {native}: "
                       f"{no_hardware}",
                       f"{folder}/machine.hpp -> include/usher/mutex.hpp -> {native}: {no_hardware}")
        self.check({"include/usher/locks/tas.hpp": '#include "usher/core/part.hpp"\n',
                    "include/usher/core/part.hpp": '#include <usher/platform/native/state.hpp>\n',
                    "include/usher/platform/native/state.hpp": ""},
                   f"include/usher/core/part.hpp -> include/usher/platform/native/state.hpp: {RULES[1][2]}",
                   f"include/usher/locks/tas.hpp -> include/usher/core/part.hpp -> "
                   f"include/usher/platform/native/state.hpp: {RULES[1][2]}")

    def test_arrows_between_parts_go_one_way(self):
        for first, other in ((a, b) for a in PARTS for b in behind(a)):
            found = self.found({f"{first}/one.cpp": f'#include "{other}two.hpp"\n', f"{other}two.hpp": ""})
            self.assertTrue(found and all(line.startswith(f"{first}/one.cpp -> {other}two.hpp: ") for line in found), found)

    def test_arrows_between_rooms(self):
        for first, other, of in (("watch/recorder", "watch/reader", "no reader"), ("watch/recorder", "support", "no reader"),
                                 ("watch/contract", "watch/access", "contract"), ("tool", "watch/reader", "command"),
                                 ("lab/recordings", "lab/sim", "recordings"), ("lab/sim", "lab/calibrate", "simulator"),
                                 ("lab/bench", "support/text", "simulator"), ("lab/predict", "lab/draw", "replays"),
                                 ("lab/calibrate", "support/text", "calibration"), ("lab/draw", "watch/reader", "laboratory")):
            found = self.found({f"{first}/one.cpp": f'#include "{other}/two.hpp"\n', f"{other}/two.hpp": ""})
            self.assertEqual(len(found), 1, found)
            self.assertIn(of, found[0].split(": ")[1])

    def test_headers_that_include_each_other(self):
        self.check({"include/usher/a.hpp": '#include "usher/b.hpp"\n', "include/usher/b.hpp": '#include "usher/c.hpp"\n',
                    "include/usher/c.hpp": '#include "usher/b.hpp"\n'},
                   "include/usher/b.hpp -> include/usher/c.hpp -> include/usher/b.hpp: headers include each other")

    def test_templates_of_the_build_count(self):
        platform = {"include/usher/platform/native.hpp": "",
                    "include/usher/semaphore.hpp": '#include "usher/platform/native.hpp"\n'}
        way = f"include/usher/semaphore.hpp -> include/usher/platform/native.hpp: {RULES[0][2]}"
        self.check({**platform, "check/engine/target.cpp.in": '#include "@header@"\n',
                    "check/engine/CMakeLists.txt": "subject(semaphore usher/semaphore.hpp)\n"},
                   f"check/engine/target.cpp.in -> {way}")
        self.check({**platform, "check/engine/target.cpp.in": '#include "@header@"\n',
                    "check/engine/mutants.cmake": "mutant(semaphore semaphore.hpp)\n"},
                   f"check/engine/target.cpp.in -> {way}")
        self.check({**platform, "lab/sim/lock.cpp.in": '#include "usher/locks/@header@"\n',
                    "include/usher/locks/tas.hpp": '#include "usher/semaphore.hpp"\n'},
                   f"lab/sim/lock.cpp.in -> include/usher/locks/tas.hpp -> {way}",
                   "include/usher/locks/tas.hpp -> include/usher/semaphore.hpp -> include/usher/platform/native.hpp: "
                   f"{RULES[1][2]}")

    def test_what_is_allowed_is_no_violation(self):
        self.check({"include/usher/mutex.hpp": '#include "usher/platform/native.hpp"\n#include "usher/core/part.hpp"\n',
                    "include/usher/platform/native.hpp": '#include "usher/core/part.hpp"\n',
                    "include/usher/core/part.hpp": '// #include "usher/platform/native.hpp"\n'
                                                   '/*\n#include "usher/platform/native.hpp"\n*/\n',
                    "library/preload/mutex.cpp": '#include "usher/platform/native.hpp"\n',
                    "lab/sim/engine.cpp": '#include "usher/core/part.hpp"\n#include "lab/sim/generated.inc"\n'})

    def test_a_header_has_a_name_of_its_own(self):
        with tempfile.TemporaryDirectory(prefix="usher-layers-") as folder:
            for name in ("include/usher/locks/futex.hpp", "include/usher/platform/futex.hpp", "support/a/json.hpp", "lab/json.hpp",
                         "support/a/point.hpp", "support/a/point.cpp"):
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).touch()
            self.assertEqual(shared_names(folder), {"json.hpp": ["support/a/json.hpp", "lab/json.hpp"]})
        self.assertEqual(shared_names(TREE), {})

    def test_users_of_the_laboratory_are_seen(self):
        texts = {"tests/a.py": "from lab.arena import judge\n", "tools/b.py": 'OUT = TREE / "lab" / "results"\n',
                 "tool/c.cpp": '#include "lab/programs/team.hpp"\n', "tool/d.cpp": "// collaborate with lab/pages\n",
                 "tests/e.sh": "cat lab/results/waits.json\n", "lab/f.py": "import lab\n"}
        with tempfile.TemporaryDirectory(prefix="usher-layers-") as folder:
            for name, text in texts.items():
                (Path(folder) / name).parent.mkdir(exist_ok=True)
                (Path(folder) / name).write_text(text)
            self.assertEqual(list(users_of_lab(folder, texts)), ["tests/a.py", "tools/b.py", "tool/c.cpp", "tests/e.sh"])

    def test_nothing_else_uses_the_laboratory(self):
        files = subprocess.run(["git", "-C", str(TREE), "ls-files"], text=True, capture_output=True, timeout=100).stdout.splitlines()
        self.assertEqual(list(users_of_lab(TREE, files)), [])

    def test_the_tree(self):
        found = violations(TREE)
        if found:
            self.fail("\n" + "\n".join(found))
        includes = Includes(TREE)
        # Checks the test itself: the first rule must apply to many files, and known includes must be found.
        self.assertGreater(len([f for f in includes.files if RULES[0][0](f)]), 30)
        self.assertIsNotNone(includes.way("include/usher/mutex.hpp", below("include/usher/platform/native/state.hpp")))
        self.assertIn("include/usher/core/semaphore_core.hpp", includes.edges["check/engine/target.cpp.in"])
        self.assertIn("include/usher/locks/mcs.hpp", includes.edges["lab/sim/lock.cpp.in"])


def commands_of(target):
    """Returns the words of each command that `make TARGET` would run."""
    said = subprocess.run(["make", "-n", "-C", str(TREE), "--no-print-directory", target], check=True, text=True,
                          capture_output=True, timeout=100).stdout
    lines = said.replace("\\\n", " ").splitlines()
    for command in (part for line in lines for part in re.split(r";|&&|\|\||\||[{}]", line)):
        try:
            yield shlex.split(command, comments=True)
        except ValueError:  # a quoted text with one of these separators
            continue


class Targets(unittest.TestCase):
    """Few of the Makefile's targets are run by tests. Here the scripts and options in the commands of all other targets
    must exist."""
    usher = None  # the command; None if it is not built

    def options_are_known(self, words, command):
        """Checks that the help of a script, or of a subcommand of usher, lists all options of the command."""
        names = {w.split("=")[0] for w in words if w.startswith("--")}
        subcommand = [w for w in words[:1] if not w.startswith("-")]
        said = [subprocess.run([*command, *more, "--help"], text=True, capture_output=True, timeout=100, cwd=TREE).stdout
                for more in ([], subcommand)]
        known = set(re.findall(r"--[a-z][\w-]*", " ".join(said)))
        self.assertLessEqual(names, known, f"{shlex.join(map(str, command))} {shlex.join(words)}")

    def test_commands_of_all_targets(self):
        targets = re.search(r"^\.PHONY: (.*)$", (TREE / "Makefile").read_text(), re.M)[1].split()
        seen = set()
        for words in (words for target in targets for words in commands_of(target)):
            for at, word in enumerate(words):
                if tuple(words[at:]) in seen:
                    continue
                seen.add(tuple(words[at:]))
                if words[at - 1] == "-m" and word.startswith("lab."):
                    self.options_are_known(words[at + 1:], [sys.executable, "-m", word])
                elif re.match(r"(tools|tests)/.*\.(py|sh)$", word):
                    self.assertTrue((TREE / word).is_file(), f"{shlex.join(words)}: there is no {word}")
                    if word.endswith(".py"):
                        self.options_are_known(words[at + 1:], [sys.executable, TREE / word])
                elif word.endswith("bin/usher") and self.usher:
                    self.options_are_known(words[at + 1:], [self.usher])
        self.assertGreater(len(seen), 20)

    def test_what_all_leaves_out_is_built_by_a_target(self):
        """`make rest`, which continuous integration runs, names each executable that `make build` leaves out."""
        built = {word for words in commands_of("rest") for word in words}
        files = subprocess.run(["git", "-C", str(TREE), "ls-files", "*CMakeLists.txt"], text=True, capture_output=True, timeout=100)
        left_out = {name for file in files.stdout.split()
                    for name in re.findall(r"add_executable\((\w+) EXCLUDE_FROM_ALL", (TREE / file).read_text())}
        self.assertLessEqual(left_out, built)


class Help(unittest.TestCase):
    def test_make_help_fits_a_terminal(self):
        """The output fits 24 lines of 80 columns, one of them for the prompt."""
        said = subprocess.run(["make", "--silent", "-C", str(TREE), "--no-print-directory", "help"], check=True, text=True,
                              capture_output=True, timeout=100).stdout.splitlines()
        self.assertLessEqual(len(said), 23)
        self.assertLessEqual(max(map(len, said)), 80)
        self.assertTrue(any(line.split()[:2] == ["use", "build"] for line in said), said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=TREE)
    parser.add_argument("--usher", type=Path, help="the command, for the options that the Makefile gives it")
    options, rest = parser.parse_known_args()
    TREE = options.tree
    Targets.usher = options.usher
    unittest.main(argv=[sys.argv[0], *rest])
