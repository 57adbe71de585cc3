#!/usr/bin/env python3
"""The checker's mutants: headers with one mistake each, as patches in tests/mutants/ (README.md there describes a patch).

  tools/mutants.py check [NAME...]       checks that every patch applies: its text occurs exactly once, at any line
  tools/mutants.py refresh [NAME...]     rewrites patches, after the code that they change has moved or was laid out differently
  tools/mutants.py apply --to FOLDER     writes one header and one source file a mutant, which the build compiles

`git apply` and `patch` are no replacement: they silently take the first of several places."""

import argparse
import difflib
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

PATCHES = Path("tests/mutants")
TEMPLATES = {"lock": "lock.cpp.in", "queue": "target.cpp.in", "condition": "target.cpp.in", "semaphore": "target.cpp.in",
             "read_write": "read_write.cpp.in"}
# A patch may change headers in these folders; the value is the beginning of their paths in an #include.
ROOTS = {"include/usher/": "usher/", "check/engine/": "check/engine/"}
MADE = "// Made by tools/mutants.py"
FACTS = ("Kind", "Type", "Expect", "Category", "Quick", "Unseen")
CATEGORIES = ("order-of-memory", "order-of-statements", "wrong-bit", "wake-or-grant", "list-links", "fairness", "wrap-around", "fork",
              "numa", "condition-variables", "semaphores", "timed-waiting")
CONTEXT = 3  # lines, as `git diff` has them
MOST_CONTEXT = 12
LEAST = 16  # the least number of characters of context by which a place is recognised (chosen, not measured)


class Problem(Exception):
    """An error in one line: the mutant, the file, and what to do about it."""


@dataclass
class Hunk:
    file: str  # the header that the hunk changes
    at: int    # the hunk's line number in the patch
    lines: list = field(default_factory=list)  # (' ', '-' or '+', text)

    def old(self):
        return [text for sign, text in self.lines if sign != "+"]

    def new(self):
        return [text for sign, text in self.lines if sign != "-"]

    def removed(self):
        return [text for sign, text in self.lines if sign == "-"]

    def changes(self):
        """Returns the hunk's runs of changed lines, each as four lists: context before, removed, added, context after.
        """
        found, before, i = [], [], 0
        while i < len(self.lines):
            if self.lines[i][0] == " ":
                before.append(self.lines[i][1])
                i += 1
                continue
            end = i
            while end < len(self.lines) and self.lines[end][0] != " ":
                end += 1
            run = self.lines[i:end]
            removed = [text for sign, text in run if sign == "-"]
            added = [text for sign, text in run if sign == "+"]
            after = []
            for sign, text in self.lines[end:]:
                if sign != " ":
                    break
                after.append(text)
            found.append((before, removed, added, after))
            before, i = [], end
        return found


class Tree:
    """All headers that mutants may change, found by their paths."""

    def __init__(self, folder):
        self.folder = Path(folder)
        files = [*self.folder.glob("include/usher/**/*.hpp"), *self.folder.glob("check/engine/*.hpp")]
        self.text = {f.relative_to(self.folder).as_posix(): f.read_text() for f in sorted(files)}
        self.lines = {path: text.split("\n") for path, text in self.text.items()}
        self.includes = {path: self._included(text) for path, text in self.text.items()}

    def _included(self, text):
        spelled = re.findall(r'^#include "([^"]+)"', text, re.M)
        paths = [root + name[len(prefix):] for name in spelled for root, prefix in ROOTS.items() if name.startswith(prefix)]
        return [path for path in paths if path in self.text]

    def declares(self, type_name):
        """Returns the headers that define the class or alias."""
        name = re.escape(type_name.split("::")[-1])
        pattern = re.compile(rf"^(?:template\s*<.*>\s*)?(?:(?:class|struct)\s+(?:alignas\([^)]*\)\s+)?{name}\b(?!\s*[;<])"
                             rf"|using\s+{name}\s*=)", re.M)
        return [path for path, text in self.text.items() if pattern.search(text)]

    def between(self, top, changed):
        """Returns `top`, the `changed` headers, and all headers on the include paths between them, each after those
        that it includes. All of these may use changed code."""
        order, leads = [], {}

        def visit(path):
            if path in leads:
                return leads[path]
            leads[path] = path in changed
            below = [visit(other) for other in self.includes[path]]
            leads[path] = leads[path] or any(below)
            if leads[path]:
                order.append(path)
            return leads[path]

        visit(top)
        return order


class Mutant:
    def __init__(self, file, strict=True):
        self.name = file.name[:-len(".patch")]
        self.shown = (PATCHES / file.name).as_posix()
        self.id = re.sub(r"^(?=\d)", "_", re.sub(r"\W", "_", self.name, flags=re.A))  # as CMake's MAKE_C_IDENTIFIER does
        self.hunks = []
        lines = file.read_text().split("\n")
        start = next((i for i, line in enumerate(lines) if line.startswith(("--- ", "diff --git "))), len(lines))
        self.heading = lines[:start]
        self._read_heading()
        self._read_diff(lines, start, strict)

    def problem(self, text):
        return Problem(f"mutant {self.name}: {text}")

    def _read_heading(self):
        self.summary = self.heading[0].strip() if self.heading else ""
        last = "\n".join(self.heading).rstrip().split("\n\n")[-1].split("\n")  # the paragraph before the diff
        self.facts = dict(m.groups() for line in last if (m := re.fullmatch(r"([A-Z]\w*):\s+(.*?)\s*", line)))
        if not self.summary or re.match(r"[A-Z]\w*:\s", self.summary):
            raise self.problem(f"{self.shown}:1: its first line must say what the mistake is")
        for key, values in (("Kind", TEMPLATES), ("Type", None), ("Expect", ("caught", "correct", "escapes"))):
            if key not in self.facts:
                raise self.problem(f"{self.shown}: its heading needs a line `{key}:`")
            if values and self.facts[key] not in values:
                raise self.problem(f"{self.shown}: `{key}: {self.facts[key]}` is none of {', '.join(values)}")
        for key, values in (("Category", CATEGORIES), ("Quick", ("yes",)), ("Unseen", ("yes", "second", "third"))):
            if key in self.facts and self.facts[key] not in values:
                raise self.problem(f"{self.shown}: `{key}: {self.facts[key]}` is none of {', '.join(values)}")
        if unknown := [key for key in self.facts if key not in FACTS]:
            raise self.problem(f"{self.shown}: its heading has an unknown line `{unknown[0]}:`")

    def _read_diff(self, lines, i, strict):
        file = None
        while i < len(lines):
            line = lines[i]
            if line.startswith("--- "):
                target = lines[i + 1] if i + 1 < len(lines) else ""
                if not line.startswith("--- a/") or target != "+++ b/" + line[len("--- a/"):]:
                    raise self.problem(f"{self.shown}:{i + 1}: a file is named by two lines, --- a/PATH and +++ b/PATH, "
                                       f"with one path")
                file = line[len("--- a/"):]
                if not file.startswith(tuple(ROOTS)):
                    raise self.problem(f"{self.shown}:{i + 1}: {file} is not below {' or '.join(ROOTS)}")
                i += 2
            elif match := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
                if file is None:
                    raise self.problem(f"{self.shown}:{i + 1}: a hunk without a file")
                hunk = Hunk(file, i + 1)
                i += 1
                while i < len(lines) and (lines[i][:1] in ("", " ", "-", "+") and not lines[i].startswith("--- a/")):
                    hunk.lines.append((lines[i][:1] or " ", lines[i][1:]))
                    i += 1
                # The counts in the @@ line show whether empty lines after a hunk are a part of its context, or of the
                # text that follows.
                counts = tuple(1 if n is None else int(n) for n in match.groups())
                while hunk.lines and hunk.lines[-1] == (" ", "") and (len(hunk.old()), len(hunk.new())) != counts:
                    hunk.lines.pop()
                if strict and (len(hunk.old()), len(hunk.new())) != counts:
                    raise self.problem(f"{self.shown}:{hunk.at}: its @@ line counts other lines than there are; "
                                       f"mend: tools/mutants.py refresh {self.name}")
                if not any(sign != " " for sign, _ in hunk.lines):
                    raise self.problem(f"{self.shown}:{hunk.at}: a hunk that changes nothing")
                self.hunks.append(hunk)
            elif not line or line.startswith(("diff --git ", "index ")):
                i += 1
            else:
                raise self.problem(f"{self.shown}:{i + 1}: not a line of a unified diff: {line}")
        if not self.hunks:
            raise self.problem(f"{self.shown} has no diff")

    def mistake(self):
        """Returns the kind, the type, and the changed lines without their places. Two mutants for which these are equal
        contain the same mistake."""
        changes = tuple((hunk.file, sign, squeezed([text])) for hunk in self.hunks for sign, text in hunk.lines if sign != " ")
        return self.facts["Kind"], self.facts["Type"], changes

    def told(self):
        """Returns the text of the mistake that `usher check` shows. check/command/check_results.hpp searches for the
        text's end."""
        return self.summary + (" (known to escape)" if self.facts["Expect"] == "escapes" else "")

    def files(self):
        return list(dict.fromkeys(hunk.file for hunk in self.hunks))

    def apply(self, tree):
        """Returns the changed texts of the headers, by file name."""
        changed = {}
        for file in self.files():
            if file not in tree.lines:
                raise self.problem(f"{self.shown}: there is no {file}; {self.what_mends(tree)}")
            lines, spans = tree.lines[file], []
            for hunk in (h for h in self.hunks if h.file == file):
                old = hunk.old()
                places = occurrences(lines, old) if old else []
                if len(places) != 1:
                    raise self.misfit(tree, hunk, places)
                spans.append((places[0], places[0] + len(old), hunk.new()))
            spans.sort(key=lambda span: span[:2])
            if any(a[1] > b[0] for a, b in zip(spans, spans[1:])):
                raise self.problem(f"{self.shown}: two hunks of {file} meet in one line; "
                                   f"mend: tools/mutants.py refresh {self.name}")
            changed[file] = "\n".join(replaced(lines, spans))
        return changed

    def misfit(self, tree, hunk, places):
        where = f"{hunk.file} ({self.shown}:{hunk.at})"
        lines, removed = tree.lines[hunk.file], hunk.removed()
        if places:
            return self.problem(f"the changed text occurs {len(places)} times in {where}, at lines "
                                f"{', '.join(str(p + 1) for p in places)}; mend: give the hunk more lines of context")
        mend = self.what_mends(tree)
        if not removed:
            return self.problem(f"the lines between which it adds some are not in {where}; {mend}")
        if at := occurrences(lines, removed):
            return self.problem(f"the lines around the change differ in {where}, at line {at[0] + 1}; {mend}")
        longest = max(removed, key=lambda text: len(text.strip()))
        nearest = difflib.get_close_matches(longest, lines, 1, 0.6)
        hint = f"; most like it: line {lines.index(nearest[0]) + 1}: {nearest[0].strip()}" if nearest else ""
        return self.problem(f"`{longest.strip()}` is no longer in {where}; {mend}{hint}")

    def what_mends(self, tree):
        try:
            self.retarget(tree)
        except Problem:
            return "mend: change the patch to what the code is now"
        return f"mend: tools/mutants.py refresh {self.name}"

    def headers(self, tree):
        """Returns, in order, the headers whose text goes into the mutant's own namespace."""
        declares = tree.declares(self.facts["Type"])
        if len(declares) != 1:
            raise self.problem(f"{self.shown}: `Type: {self.facts['Type']}` is defined by "
                               f"{' and '.join(declares) or 'no header'}; one must define it")
        order = tree.between(declares[0], self.files())
        if strange := [file for file in self.files() if file not in order]:
            raise self.problem(f"{self.shown} changes {strange[0]}, which {declares[0]} with its `Type:` does not include")
        return order

    def header(self, tree, headers=None):
        changed = self.apply(tree)
        headers = self.headers(tree) if headers is None else headers
        text = "".join(changed.get(path, tree.text[path]) for path in headers)
        for path in headers:
            text = text.replace(f'#include "{spelling(path)}"', "")
        text = text.replace("namespace usher", f"namespace usher::mutant_{self.id}").replace("#pragma once", "")
        # A qualified name of a function that these headers define.
        for name in set(re.findall(r"(?<![\w:])usher::(\w+)<", text)):
            if re.search(rf"^[\w:]+ {name}\(", text, re.M):
                text = text.replace(f"usher::{name}<", f"usher::mutant_{self.id}::{name}<")
        return f'{MADE}: {self.shown}\n#pragma once\n#include "usher/core/waiting.hpp"\n{text}'

    def source(self, tree):
        kind = self.facts["Kind"]
        values = {
            "id": self.id, "name": self.name, "kind": kind, "arguments": "", "header": f"check/engine/mutants/{self.id}.hpp",
            "type": f"usher::mutant_{self.id}::{self.facts['Type']}",
            "mutation": "" if self.facts["Expect"] == "correct" else self.told().replace("\\", "\\\\").replace('"', '\\"'),
        }
        template = (tree.folder / "check/engine" / TEMPLATES[kind]).read_text()
        return f"{MADE}: {self.shown}\n" + re.sub(r"@(\w+)@", lambda m: values[m.group(1)], template)

    def retarget(self, tree):
        """Returns the changes of each file as (begin, end, new lines), and notes on changes that were found with less
        than their whole context."""
        changes, notes = {}, []
        for hunk in self.hunks:
            for before, removed, added, after in hunk.changes():
                file, span, how = self.find(tree, hunk, before, removed, added, after)
                changes.setdefault(file, []).append(span)
                if how:
                    notes.append(how)
        for file, spans in changes.items():
            spans.sort(key=lambda span: span[:2])
            if any(a[1] > b[0] for a, b in zip(spans, spans[1:])):
                raise self.problem(f"{self.shown}: two of its changes of {file} meet in one line")
        return changes, notes

    def find(self, tree, hunk, before, removed, added, after):
        """Returns the present place of a run of changed lines. The search uses as many lines of context as possible,
        and ignores white space if necessary. It looks in the file that the patch names, and in other files if enough of
        the context has moved with the lines."""
        others = [path for path in tree.lines if path != hunk.file]
        most = len(before) + len(after)
        for total in range(most, -1 if removed else 0, -1):
            for files in ([hunk.file] if hunk.file in tree.lines else [], others):
                for search in (exact_spans, squeezed_spans):
                    found = {}
                    for b in range(max(0, total - len(after)), min(len(before), total) + 1):
                        above, below = before[len(before) - b:], after[:total - b]
                        telling = sum(re.search(r"\w{3}", line) is not None for line in above + below)
                        characters = len(squeezed(above + removed + below))
                        if telling < 2 if files is others else total < most and characters < LEAST:
                            continue
                        for file in files:
                            for span in search(tree.lines[file], above, removed, added, below):
                                found[file, span[0], span[1]] = span
                    if len(found) > 1:
                        places = ", ".join(f"{file}:{begin + 1}" for file, begin, _ in list(found)[:4])
                        raise self.problem(f"the changed text ({self.shown}:{hunk.at}) may be at any of {places}")
                    if found:
                        (file, begin, _), span = found.popitem()
                        how = [] if file == hunk.file else ["moved"]
                        if total < most:
                            how.append(f"{total} of {most} lines of context")
                        if search is squeezed_spans:
                            how.append("other white space")
                        return file, span, f"{file}:{begin + 1} ({', '.join(how)})" if how else ""
        raise self.problem(f"the changed text of {hunk.file} ({self.shown}:{hunk.at}) was not found")

    def refreshed(self, tree):
        changes, notes = self.retarget(tree)
        heading = "\n".join(self.heading).rstrip("\n")
        return heading + "\n\n" + "".join(diff(file, tree.lines[file], changes[file]) for file in sorted(changes)), notes


def spelling(path):
    return next(prefix + path[len(root):] for root, prefix in ROOTS.items() if path.startswith(root))


def occurrences(lines, block):
    return [i for i in range(len(lines) - len(block) + 1) if lines[i:i + len(block)] == block]


def replaced(lines, spans):
    """Returns the lines with each span replaced; the spans are in order."""
    result, done = [], 0
    for begin, end, instead in spans:
        result += lines[done:begin] + list(instead)
        done = end
    return result + lines[done:]


def squeezed(lines):
    return re.sub(r"\s", "", "".join(lines))


def exact_spans(lines, before, removed, added, after):
    for i in occurrences(lines, before + removed + after):
        yield i + len(before), i + len(before) + len(removed), added


def squeezed_spans(lines, before, removed, added, after):
    """Like exact_spans(), but ignores white space. A span has whole lines, with the rest of their text."""
    text, at = "", []  # `at` has the line and the column of each character of `text`
    for number, line in enumerate(lines):
        for column, c in enumerate(line):
            if not c.isspace():
                text += c
                at.append((number, column))
    block, skip, length = squeezed(before + removed + after), len(squeezed(before)), len(squeezed(removed))
    start = text.find(block) if block else -1
    while start != -1:
        first, last = start + skip, start + skip + length - 1
        if length == 0:  # the hunk only adds lines, so the place must be the end of a line
            line = at[first - 1][0] + 1 if first > 0 else 0
            if first >= len(at) or at[first][0] >= line:
                yield line, line, added
        else:
            (begin, left), (end, right) = at[first], at[last]
            rest = [lines[begin][:left].rstrip()], [lines[end][right + 1:].rstrip()]
            yield begin, end + 1, [*filter(None, rest[0]), *added, *filter(None, rest[1])]
        start = text.find(block, start + 1)


def diff(file, lines, spans):
    """Returns a unified diff. Each hunk has so much context that its text occurs only once in the file."""
    for context in range(CONTEXT, MOST_CONTEXT + 1):
        groups = []
        for span in spans:
            if groups and span[0] - groups[-1][-1][1] <= 2 * context:
                groups[-1].append(span)
            else:
                groups.append([span])
        text, shift, once = f"--- a/{file}\n+++ b/{file}\n", 0, True
        for group in groups:
            last = len(lines) - (1 if lines[-1] == "" else 0)
            begin, end = max(0, group[0][0] - context), min(last, group[-1][1] + context)
            body, done = [], begin
            for first, behind, instead in group:
                body += [" " + line for line in lines[done:first]]
                body += ["-" + line for line in lines[first:behind]] + ["+" + line for line in instead]
                done = behind
            body += [" " + line for line in lines[done:end]]
            new = sum(line[0] != "-" for line in body)
            text += f"@@ -{begin + 1},{end - begin} +{begin + 1 + shift},{new} @@\n"
            text += "".join(line.rstrip(" ") + "\n" if line == " " else line + "\n" for line in body)
            shift += new - (end - begin)
            once = once and len(occurrences(lines, lines[begin:end])) == 1
        if once:
            return text
    raise Problem(f"{file}: not even {MOST_CONTEXT} lines of context tell where the change is")


def write_if_other(file, text):
    """Writes a file only if its text changes. Otherwise the file keeps its time stamp, so that nothing that depends on
    it is built again."""
    if not file.is_file() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def patches(options):
    folder = options.tree / PATCHES
    if not options.names:
        return sorted(folder.glob("*.patch"))
    files = [folder / f"{Path(name).name.removesuffix('.patch')}.patch" for name in options.names]
    if missing := [file for file in files if not file.is_file()]:
        sys.exit(f"mutants: there is no {missing[0]}")
    return files


def for_each(options, act, strict=True):
    """Calls `act` for each mutant. Returns the number of mutants, and the problems."""
    tree, problems, ids, mistakes = Tree(options.tree), [], {}, {}
    files = patches(options)
    for file in files:
        try:
            mutant = Mutant(file, strict)
            if ids.setdefault(mutant.id, mutant.name) != mutant.name:
                raise mutant.problem(f"its name is too much like {ids[mutant.id]}: both are {mutant.id} to the compiler")
            if (other := mistakes.setdefault(mutant.mistake(), mutant.name)) != mutant.name:
                raise mutant.problem(f"it is the mistake that {other} is; mend: delete one")
            act(mutant, file, tree)
        except Problem as problem:
            problems.append(str(problem))
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} of {len(files)} mutants do not apply", file=sys.stderr)
    return len(files), problems


def check(options):
    number, problems = for_each(options, lambda mutant, file, tree: mutant.header(tree))
    if number == 0:
        sys.exit(f"mutants: there are none in {options.tree / PATCHES}")
    if not problems:
        print(f"{number} mutants apply, each once")
    return problems


def apply(options):
    made = set()

    def act(mutant, file, tree):
        for suffix, text in ((".hpp", mutant.header(tree)), (".cpp", mutant.source(tree))):
            write_if_other(options.to / (mutant.id + suffix), text)
            made.add(mutant.id + suffix)

    _, problems = for_each(options, act)
    if not problems and not options.names:  # removes the files of mutants that no longer exist
        for file in options.to.glob("*.[hc]pp"):
            if file.name not in made and file.read_text().startswith(MADE):
                file.unlink()
    return problems


def refresh(options):
    written = []

    def act(mutant, file, tree):
        text, notes = mutant.refreshed(tree)
        if text != file.read_text():
            file.write_text(text)
            written.append(mutant.name)
            print(f"{mutant.name}: written anew" + (f"; look at {', '.join(notes)}" if notes else ""))
        Mutant(file).header(tree)  # raises Problem if the patch still does not apply

    number, problems = for_each(options, act, strict=False)
    print(f"{number} mutants: {len(written)} written anew, {len(problems)} to be changed by hand")
    return problems


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parent.parent, help="the source tree")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (check, refresh, apply):
        sub = commands.add_parser(command.__name__)
        sub.set_defaults(run=command)
        sub.add_argument("names", nargs="*", metavar="NAME", help="only these; otherwise all")
        if command is apply:
            sub.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    sys.exit(1 if options.run(options) else 0)


if __name__ == "__main__":
    main()
