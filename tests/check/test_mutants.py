#!/usr/bin/env python3
"""The checker's mutants: every patch in the tree applies, its result is valid C++, and tools/mutants.py reports in one
line why a patch does not apply. The test takes seconds and builds nothing. CXX is the compiler.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent
TOOL = TREE / "tools" / "mutants.py"
# a folder below the build folder; sources of the checker include mutants by the rest of this path
MADE = "check/engine/mutants"
sys.path.insert(0, str(TOOL.parent))
sys.dont_write_bytecode = True
import mutants  # noqa: E402

PART = """\
#pragma once

namespace usher::inline v2 {

template <class P>
void hand_over(P& p) {
  p.store(1, release);
}

template <class P>
void give_up(P& p) {
  p.store(2, release);
  p.wake();
}

}  // namespace usher::inline v2
"""
QUEUE = """\
#pragma once

#include "usher/core/part.hpp"

namespace usher::inline v2 {

template <class P, class W>
class queue_lock {
 public:
  void unlock() {
    first();
    second();
    hand_over(word_);
  }

  void other() {
    first();
    second();
    third();
  }
};

}  // namespace usher::inline v2
"""
UNRELATED = "#pragma once\n\nclass stranger {\n  int x = 7;\n};\n"

HEADING = "hands over by a \"relaxed\" store\n\nKind: lock\nType: queue_lock\nExpect: caught\n\n"
DIFF = """\
--- a/include/usher/core/part.hpp
+++ b/include/usher/core/part.hpp
@@ -4,7 +4,7 @@

 template <class P>
 void hand_over(P& p) {
-  p.store(1, release);
+  p.store(1, relaxed);
 }

 template <class P>
"""
IN_LOCK = """\
--- a/include/usher/locks/queue_lock.hpp
+++ b/include/usher/locks/queue_lock.hpp
@@ -10,5 +10,4 @@
   void unlock() {
     first();
-    second();
     hand_over(word_);
   }
"""

failures = []


def say(ok, text, seen=""):
    print(f"{'ok  ' if ok else 'FAIL'}  {text}", flush=True)
    if not ok:
        print(f"      {seen}")
        failures.append(text)


def tool(*arguments, tree):
    """Runs tools/mutants.py in this process, because a start of Python takes longer than the tested function."""
    out, err, status = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            mutants.main(["--tree", str(tree), *map(str, arguments)])
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


class Small:
    """A small tree with two headers and the given patches."""

    def __init__(self, folder, patches, part=PART, queue=QUEUE, further=None):
        self.folder = Path(folder)
        files = {"include/usher/core/part.hpp": part, "include/usher/locks/queue_lock.hpp": queue,
                 "include/usher/locks/stranger.hpp": UNRELATED} | (further or {})
        files |= {f"check/engine/{name}": (TREE / "check" / "engine" / name).read_text() for name in ("lock.cpp.in", "target.cpp.in")}
        files |= {f"tests/mutants/{name}.patch": text for name, text in patches.items()}
        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)

    def patch(self, name):
        return (self.folder / f"tests/mutants/{name}.patch").read_text()


def refused(what, patch, *words, name="a-mutant", **headers):
    """Asserts that `mutants.py check` fails, with one line that contains these words and the mutant's name."""
    with tempfile.TemporaryDirectory() as folder:
        Small(folder, {name: patch}, **headers)
        done = tool("check", tree=folder)
        lines = done.stderr.splitlines()
        ok = (done.returncode == 1 and len(lines) == 2 and f"mutant {name}: " in lines[0] and all(w in lines[0] for w in words)
              and lines[1] == "1 of 1 mutants do not apply" and done.stdout == "")
        say(ok, f"refused: {what}", f"exit status {done.returncode}, {done.stdout!r}, {done.stderr!r}")


def mended(what, patch, *words, **headers):
    """Asserts that `mutants.py check` fails and recommends `refresh`, and that `refresh` repairs the patch: its result
    contains the mistake once."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Small(folder, {"a-mutant": patch}, **headers)
        before = tool("check", tree=folder)
        done = tool("refresh", tree=folder)
        after = tool("apply", "--to", Path(folder, "to"), tree=folder)
        header = Path(folder, "to", "a_mutant.hpp")
        text = header.read_text() if header.is_file() else ""
        ok = (before.returncode == 1 and "mend: tools/mutants.py refresh a-mutant" in before.stderr and done.returncode == 0
              and after.returncode == 0 and all(word in text for word in words) and tree.patch("a-mutant").startswith(HEADING))
        say(ok, f"mended: {what}", f"{before.stderr!r}, {done.stdout!r}, {done.stderr!r}, {after.stderr!r}\n{text}")


def not_mended(what, patch, **headers):
    with tempfile.TemporaryDirectory() as folder:
        tree = Small(folder, {"a-mutant": patch}, **headers)
        done = tool("refresh", tree=folder)
        say(done.returncode == 1 and tree.patch("a-mutant") == patch and "mutant a-mutant: " in done.stderr,
            f"not guessed: {what}", f"{done.stdout!r}, {done.stderr!r}, {tree.patch('a-mutant')}")


def the_trees_own():
    number = len(list((TREE / "tests" / "mutants").glob("*.patch")))
    done = subprocess.run([sys.executable, TOOL, "check"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    say(number > 0 and done.returncode == 0 and done.stdout == f"{number} mutants apply, each once\n",
        f"all {number} mutants of the tree apply", done.stderr)


def not_parsed(folder):
    """Returns the errors that the compiler finds in the headers below check/engine/mutants of the folder if it
    instantiates no template. It then looks up only names that do not depend on a template parameter, in less than a
    hundredth of the time of `make mutants`."""
    made = sorted((Path(folder) / MADE).glob("*.hpp"))
    need_relacy = [header for header in made if '#include "check/' in header.read_text()]
    lines = [f'#include "check/engine/mutants/{header.name}"' for header in made if header not in need_relacy]
    lines += ["#if __has_include(<relacy/relacy.hpp>)", *(f'#include "check/engine/mutants/{h.name}"' for h in need_relacy), "#endif", ""]
    includes = [f"-I{path}" for path in (TREE / "include", TREE, Path(folder))]
    done = subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-w", "-x", "c++", *includes, "-"],
                          input="\n".join(lines), capture_output=True, text=True, timeout=500, env=os.environ | {"LC_ALL": "C"})
    errors = [line for line in done.stderr.splitlines() if ": error: " in line]
    return errors or ([] if done.returncode == 0 else [done.stderr])


def they_parse():
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder, MADE)
        done = tool("apply", "--to", to, tree=TREE)
        made = list(to.glob("*.hpp"))
        errors = not_parsed(folder)
        say(done.returncode == 0 and made and not errors, f"all {len(made)} mutants of the tree are C++", "\n      ".join(errors))
        # One mutant calls a function that does not exist, as if its header had renamed the function.
        for header in made:
            if header.name != "twa_staged_as_printed.hpp":
                header.unlink()
            else:
                header.write_text(header.read_text().replace("= base::distance_of(", "= base_distance("))
        errors = not_parsed(folder)
        say(len(errors) == 1 and "twa_staged_as_printed.hpp" in errors[0] and "base_distance" in errors[0],
            "a mutant that calls what is not there is found", errors)


def what_is_made():
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder, "to")
        second = HEADING.replace("Expect: caught", "Expect: correct") + IN_LOCK
        tree = Small(folder, {"a-mutant": HEADING + DIFF, "b+": second})
        done = tool("apply", "--to", to, tree=folder)
        say(done.returncode == 0 and sorted(os.listdir(to)) == ["a_mutant.cpp", "a_mutant.hpp", "b_.cpp", "b_.hpp"],
            "two files a mutant", f"{done.stderr!r}")
        text = (to / "a_mutant.hpp").read_text()
        say(text.count("namespace usher::mutant_a_mutant::inline v2 {") == 2 and "p.store(1, relaxed);" in text
            and "p.store(1, release);" not in text and text.index("relaxed") < text.index("class queue_lock")
            and '#include "usher/core/part.hpp"' not in text,
            "the changed header and the lock's, in the mutant's namespace", text)
        text = (to / "b_.hpp").read_text()
        say(text.count("second();") == 1 and '#include "usher/core/part.hpp"' in text,
            "a header that is not changed and names nothing changed is included", text)
        text = (to / "a_mutant.cpp").read_text()
        say('("a-mutant", "hands over by a \\"relaxed\\" store")' in text
            and "usher::mutant_a_mutant::queue_lock<P, W>" in text and '#include "check/engine/mutants/a_mutant.hpp"' in text,
            "its source registers it", text)
        text = (to / "b_.cpp").read_text()
        say('("b+", "")' in text, "one that is correct is registered as no mistake", text)

        for file in to.iterdir():
            os.utime(file, (1, 1))
        (to / "of_somebody_else.hpp").write_text("// kept\n")
        (tree.folder / "include/usher/locks/queue_lock.hpp").write_text(QUEUE + "// more\n")
        (tree.folder / "tests/mutants/b+.patch").unlink()
        done = tool("apply", "--to", to, tree=folder)
        say(done.returncode == 0 and (to / "a_mutant.hpp").stat().st_mtime > 1 and (to / "a_mutant.cpp").stat().st_mtime == 1
            and sorted(os.listdir(to)) == ["a_mutant.cpp", "a_mutant.hpp", "of_somebody_else.hpp"],
            "made again is what differs, and what is left of others goes", f"{done.stderr!r} {os.listdir(to)}")

        wrong = DIFF.replace("p.store(1, release)", "p.store(3, release)")
        (tree.folder / "tests/mutants/c.patch").write_text(HEADING + wrong)
        done = tool("apply", "--to", to, tree=folder)
        say(done.returncode == 1 and len(done.stderr.splitlines()) == 2 and "mutant c: " in done.stderr,
            "the build fails with its line", f"{done.stderr!r}")


def what_is_refused():
    part, queue = "include/usher/core/part.hpp", "include/usher/locks/queue_lock.hpp"
    # If the unchanged patch did not apply, the following tests would prove nothing.
    with tempfile.TemporaryDirectory() as folder:
        Small(folder, {"a-mutant": HEADING + DIFF})
        say(tool("check", tree=folder).returncode == 0, "a patch that applies")
        Small(folder, {"a-mutant": HEADING + DIFF}, part="// one\n// two\n" + PART)
        say(tool("check", tree=folder).returncode == 0, "a patch whose line numbers are off")
        names = "diff --git a/include/usher/core/part.hpp b/include/usher/core/part.hpp\nindex 1234567..89abcde 100644\n"
        tree = Small(folder, {"a-mutant": HEADING + names + DIFF.replace("\n\n", "\n \n")})
        checked, done = tool("check", tree=folder), tool("refresh", tree=folder)
        say(checked.returncode == done.returncode == 0 and tree.patch("a-mutant") == HEADING + DIFF, "a patch as git writes it",
            f"{checked.stderr!r}, {tree.patch('a-mutant')}")

    twice = IN_LOCK[:IN_LOCK.index("@@")] + "@@ -11,2 +11,1 @@\n     first();\n-    second();\n"
    refused("its text occurs twice", HEADING + twice, queue, "occurs 2 times", "at lines 11, 17", "more lines of context")
    refused("its text is gone", HEADING + DIFF, part, "`p.store(1, release);` is no longer in", "mend: change the patch",
            part=PART.replace("p.store(1, release)", "p.exchange(1, acq_rel)"))
    refused("its text has changed a little", HEADING + DIFF, part, "most like it: line 7: p.store(17, release);",
            part=PART.replace("p.store(1, release)", "p.store(17, release)"))
    refused("its context is wrong", HEADING + DIFF.replace("hand_over", "pass_on"), part, "the lines around", "at line 7",
            "tools/mutants.py refresh a-mutant")
    adds = DIFF.replace("-  p.store(1, release);\n", "").replace(",7 +", ",6 +")
    refused("only adds, and its context is wrong", HEADING + adds, part, "the lines between which it adds some are not in")
    refused("its file is gone", HEADING + DIFF.replace("part.hpp", "parts.hpp"), "there is no include/usher/core/parts.hpp",
            "tools/mutants.py refresh a-mutant")
    refused("its counts are wrong", HEADING + DIFF.replace("-4,7", "-4,8"), "its @@ line counts other lines",
            "tools/mutants.py refresh a-mutant")
    refused("its hunks meet", HEADING + DIFF + DIFF[DIFF.index("@@"):], part, "two hunks of", "meet in one line")
    nothing = DIFF.replace("-  p", "   p").replace("+  p.store(1, relaxed);\n", "")
    refused("it changes nothing", HEADING + nothing, "a hunk that changes nothing")
    refused("it has no diff", HEADING, "has no diff")
    refused("a file of another part of the tree", HEADING + DIFF.replace("include/usher/core", "library/preload"),
            "library/preload/part.hpp is not below")
    refused("two names of one file", HEADING + DIFF.replace("+++ b/include/usher/core/part.hpp", "+++ b/else.hpp"),
            "with one path")
    refused("text in between", HEADING + DIFF + "\nand so on\n", "not a line of a unified diff: and so on")
    refused("no description", HEADING[HEADING.index("Kind"):] + DIFF, "its first line must say what the mistake is")
    refused("no type", HEADING.replace("Type: queue_lock\n", "") + DIFF, "needs a line `Type:`")
    refused("no kind that there is", HEADING.replace("Kind: lock", "Kind: luck") + DIFF, "`Kind: luck` is none of lock")
    refused("a misspelt fact", HEADING.replace("Expect: caught", "Expect: caught\nExcept: x") + DIFF, "unknown line `Except:`")
    refused("a type that no header defines", HEADING.replace("queue_lock", "quiet_lock") + DIFF,
            "`Type: quiet_lock` is defined by no header")
    refused("a type that two define", HEADING + DIFF, f"defined by {queue} and include/usher/other.hpp",
            further={"include/usher/other.hpp": "class queue_lock {\n};\n"})
    refused("a file that the type's header does not include", HEADING.replace("queue_lock", "stranger") + DIFF,
            f"changes {part}, which include/usher/locks/stranger.hpp", "does not include")

    with tempfile.TemporaryDirectory() as folder:
        Small(folder, {"a-b": HEADING + DIFF, "a+b": HEADING + DIFF})
        done = tool("check", tree=folder)
        say(done.returncode == 1 and "mutant a-b: its name is too much like a+b" in done.stderr,
            "refused: two names that are one to C++", f"{done.stderr!r}")
    with tempfile.TemporaryDirectory() as folder:
        Small(folder, {"a": HEADING + DIFF, "b": HEADING + DIFF.replace("  p.store", "   p.store")})
        done = tool("check", tree=folder)
        say(done.returncode == 1 and "mutant b: it is the mistake that a is" in done.stderr, "refused: the same mistake twice",
            f"{done.stderr!r}")


def what_is_mended():
    new = "p.store(1, relaxed);"
    mended("other lines around it", HEADING + DIFF, new, part=PART.replace("hand_over(P& p) {", "hand_over(P& p) noexcept {"))
    mended("its counts", HEADING + DIFF.replace("-4,7", "-4,8"), new)
    mended("laid out anew", HEADING + DIFF, new, part=PART.replace("p.store(1, release);", "p.store(1,\n          release);"))
    first, second = PART.index("template"), PART.rindex("template")
    moved = {"include/usher/core/hand_over.hpp": PART[:second] + "}  // namespace usher::inline v2\n"}
    rest = PART[:first] + PART[second:]
    mended("moved to another header", HEADING + DIFF, new, part=rest, further=moved,
           queue=QUEUE.replace("core/part.hpp", "core/hand_over.hpp"))
    adds = IN_LOCK.replace("-    second();\n", "+    extra();\n").replace("-10,5 +10,4", "-10,4 +10,5")
    mended("only adds, and half of its context is there", HEADING + adds, "extra();",
           queue=QUEUE.replace("    first();\n    second();\n    hand_over", "    zeroth();\n    hand_over"))

    not_mended("its text is gone", HEADING + DIFF, part=PART.replace("p.store(1, release)", "p.exchange(1, acq_rel)"))
    not_mended("two places as good as each other", HEADING + DIFF,
               part=PART.replace("hand_over", "first_half") + PART.replace("hand_over", "second_half"))
    # By chance, another header may also have the line that the patch removes. So one such line does not identify the
    # place: more lines of the hunk must be there, too.
    not_mended("the same line elsewhere", HEADING + DIFF, part=PART.replace("  p.store(1, release);\n", ""),
               queue=QUEUE.replace("    third();", "  p.store(1, release);"))
    # If the context is gone, a short line alone does not identify the place.
    short = DIFF.replace("  p.store(1, release);", "  p.go();").replace("  p.store(1, relaxed);", "  p.stay();")
    not_mended("a short line in another function", HEADING + short, part=PART.replace("  p.wake();", "  p.go();"))
    # The function has moved, and at its old place is still a line that equals the one that the patch changes.
    moved = {path: text.replace("release);", "release);  // (1)") for path, text in moved.items()}
    with_note = DIFF.replace("release);", "release);  // (1)").replace("relaxed);", "relaxed);  // (1)")
    mended("moved, and a line like it has remained", HEADING + with_note, "p.store(1, relaxed);  // (1)\n",
           part=rest.replace("p.store(2, release);", "p.store(1, release);  // (1)"), further=moved,
           queue=QUEUE.replace("core/part.hpp", "core/hand_over.hpp"))


def the_page():
    """docs/verification.md must have the table of unseen mutants, the numbers of mutants and orders, and the names of
    the mutants that escape, as they follow from tests/check/verification.json and the patches. `verification.py
    --tables` prints a row for each target."""
    page = (TREE / "docs" / "verification.md").read_text()
    results = json.loads((TREE / "tests" / "check" / "verification.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        made, tables = Path(folder, "verification.md"), Path(folder, "tables.md")
        made.write_text(page)
        done = subprocess.run([sys.executable, TREE / "tests" / "check" / "verification.py", "--tables", tables, "--doc", made],
                              capture_output=True, text=True, timeout=300)
        say(done.returncode == 0 and made.read_text() == page, "docs/verification.md is as tests/check/verification.py --tables makes it",
            done.stderr or "run it")
        shown = tables.read_text() if tables.is_file() else ""
    rows = set(re.findall(r"^\| ([^ |]+) \|", shown, re.M))
    wanted = {verdict["family"] for verdict in results["verdicts"].values()}
    escaped = {name for name, mutant in results["mutants"].items() if not mutant["caught"]}
    say(wanted | escaped <= rows, "the tables have each target and each mutant that escapes", sorted((wanted | escaped) - rows))
    say(all(f"`{name}`" in page for name in escaped), "docs/verification.md names each mutant that escapes", sorted(escaped))
    flat = " ".join(page.split())
    caught = re.search(r"\d+ of \d+ mutants are caught", shown)
    say(caught and caught[0] in flat, "docs/verification.md has the number of mutants that are caught", caught)
    orders = re.search(r"(\d+) weakened orders: (\d+) are caught in some lock, (\d+) in none", shown)
    say(orders and "Of {} weakened orders {} are caught in some lock, {} in none".format(*orders.groups()) in flat,
        "docs/verification.md has the number of orders that are caught", orders)


if __name__ == "__main__":
    the_trees_own()
    they_parse()
    the_page()
    what_is_made()
    what_is_refused()
    what_is_mended()
    print(f"{len(failures)} failed" if failures else "all as it should be")
    sys.exit(1 if failures else 0)
