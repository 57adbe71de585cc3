"""Counts the paths and decisions in lock() and unlock(): N-Path (Nejmeh 1988) and cyclomatic complexity (McCabe 1976), the
figures of TWA (extended version), Table 1, for the locks of the catalogue.

The code is that of the templates as clang instantiates them for one way of waiting, without branches that `if constexpr`
removes. Helpers count where they are called. The rules:

  N-Path      the product over the statements of a sequence. if: condition + then + else (1 if there is none).
              while, do: condition + body + 1. for: the same + its init, which is a statement, + its step.
              switch: the sum of its cases. A condition counts its && and ||, and 2 for each ?:. Other statements:
              the same, but at least 1. This is Nejmeh's table as oclint reads it, which the paper used.
  cyclomatic  1 + the number of if, loop conditions, case, ?:, && and ||. A loop without a condition decides nothing.
  a helper    a single `return` counts as its expression; another stands, as it is, before the statement that calls it, or
              first in the body of the loop whose condition calls it.
  a leaf      counts nothing: functions of the standard library and the compiler's; and those of the platform, as the
              paper's atomic operations and Pause. But a wait of the platform's is `while (…) Pause()`.
              With --platform nothing of the platform's is a leaf.

`folded`: a spinning form's poll() returns only with the awaited value, so `if (poll(…))` is no decision there.
`pmccabe` (Debian) counts the decisions of the same code again, written out as one C function without expressions; it
takes `for (;;)` for a decision, which is taken off here."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import catalog
import harness
from harness import TREE, die

CLANG = "clang++-16"
KINDS = {way.short: way.kind for way in catalog.ways() if way.usual}
WAITS = {"await"}
LOOPS = {"WhileStmt", "DoStmt", "ForStmt", "CXXForRangeStmt"}


# ---- clang's syntax tree --------------------------------------------------------------------------------------------

class Tree:
    """The functions of a translation unit by clang's ids: their bodies and their classes."""

    def __init__(self, source, name, flags=()):
        with tempfile.TemporaryDirectory(prefix="usher-complexity-") as folder:
            file = Path(folder) / "source.cpp"
            file.write_text(source)
            done = subprocess.run(
                [CLANG, "-std=c++20", "-fsyntax-only", "-DNDEBUG", *flags, "-Xclang", "-ast-dump=json", "-Xclang",
                 f"-ast-dump-filter={name}", str(file)], capture_output=True, text=True, timeout=300)
        if done.returncode:
            die(f"{CLANG}: {done.stderr.strip()[:2000]}", 1)
        self.bodies, self.names, self.classes = {}, {}, {}
        self.by_name = {}
        decoder, text, at = json.JSONDecoder(), done.stdout, 0
        while (at := text.find("{", at)) != -1:
            node, at = decoder.raw_decode(text, at)
            self.collect(node, "")

    def collect(self, node, inside):
        if not isinstance(node, dict):
            return
        kind = node.get("kind", "")
        if kind == "NamespaceDecl" and node.get("name") == "native_detail":
            inside = "native"  # its parts, by any name
        elif inside != "native" and kind in ("CXXRecordDecl", "ClassTemplateSpecializationDecl",
                                             "ClassTemplatePartialSpecializationDecl"):
            inside = node.get("name", "")
        if kind in ("FunctionDecl", "CXXMethodDecl", "CXXConversionDecl"):
            for child in node.get("inner", []):
                if child.get("kind") == "CompoundStmt":
                    self.bodies[node["id"]] = child
                    self.names[node["id"]] = node.get("name", "")
                    self.classes[node["id"]] = inside
                    self.by_name[node.get("name", "")] = node["id"]
        for child in node.get("inner", []):
            self.collect(child, inside)


def callee(call):
    """Returns the id of the called function."""
    todo = call.get("inner", [])[:1]
    while todo:
        node = todo.pop(0)
        if "referencedMemberDecl" in node:
            return node["referencedMemberDecl"]
        if "referencedDecl" in node:
            return node["referencedDecl"]["id"]
        if node.get("kind") in ("ImplicitCastExpr", "ParenExpr", "UnaryOperator"):
            todo = list(node.get("inner", []))
    return None


# ---- counting -------------------------------------------------------------------------------------------------------

class Value:
    """The counts of an expression: its operators, and the N-Path, decisions and text of the helpers that it calls."""

    def __init__(self):
        self.operators = 0  # as N-Path counts them
        self.decisions = 0
        self.before = 1
        self.helpers = 0    # their decisions
        self.text = []
        self.tokens = []    # for pmccabe

    def add(self, other):
        self.operators += other.operators
        self.decisions += other.decisions
        self.before *= other.before
        self.helpers += other.helpers
        self.text += other.text
        self.tokens += other.tokens

    def condition(self):
        """Returns C with as many decisions."""
        return "".join(["c"] + self.tokens)


class Counted:
    """The counts of a statement. `ends`: control does not go on behind it."""

    def __init__(self, paths=1, decisions=0, text=(), ends=False):
        self.paths, self.decisions, self.text, self.ends = paths, decisions, list(text), ends


class Counter:
    def __init__(self, tree, platform=None, whole_platform=False, folded=False):
        self.tree, self.platform = tree, platform
        self.whole_platform, self.folded = whole_platform, folded
        self.within = []

    # -- expressions

    def value(self, node):
        v = Value()
        if not isinstance(node, dict) or not node:
            return v
        kind = node.get("kind", "")
        inner = node.get("inner", [])
        if kind == "LambdaExpr" or kind.endswith("Attr"):
            return v  # the function counts where it is called
        if kind == "ConstantExpr":
            return v
        for child in inner:
            v.add(self.value(child))
        if kind == "ConditionalOperator":
            v.operators += 2
            v.decisions += 1
            v.tokens.append("?c:c")
        elif kind == "BinaryOperator" and node.get("opcode") in ("&&", "||"):
            v.operators += 1
            v.decisions += 1
            v.tokens.append("&&c")
        elif kind in ("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr"):
            v.add(self.helper(callee(node)))
        return v

    def helper(self, function):
        v = Value()
        body = self.tree.bodies.get(function)
        if body is None or function in self.within:
            return v
        name = self.tree.names[function]
        if self.tree.classes[function] == self.platform and not self.whole_platform:
            if name in WAITS:
                v.before, v.helpers, v.text = 2, 1, ["while (c) c;"]
            return v
        self.within.append(function)
        statements = [s for s in body.get("inner", []) if not self.says_nothing(s)]
        if len(statements) == 1 and statements[0].get("kind") == "ReturnStmt":
            for child in statements[0].get("inner", []):
                v.add(self.value(child))
        else:
            whole = self.statement(body)
            v.before, v.helpers, v.text = whole.paths, whole.decisions, whole.text
        self.within.pop()
        return v

    def says_nothing(self, node):
        """Whether the node is a declaration without code, or an `if constexpr` whose branch is empty."""
        kind = node.get("kind")
        if kind == "NullStmt":
            return True
        if kind == "DeclStmt":
            return all(d.get("kind") in ("StaticAssertDecl", "TypeAliasDecl", "UsingDecl", "TypedefDecl") or
                       (d.get("kind") == "VarDecl" and d.get("constexpr")) for d in node.get("inner", []))
        if kind == "IfStmt" and node.get("isConstexpr"):
            taken = self.taken(node)
            return taken is None or self.says_nothing(taken) or (
                taken.get("kind") == "CompoundStmt" and all(self.says_nothing(s) for s in taken.get("inner", [])))
        return False

    @staticmethod
    def taken(node):
        """Returns the branch that an `if constexpr` leaves."""
        inner = [c for c in node.get("inner", [])]
        condition = next(i for i, c in enumerate(inner) if c.get("kind") == "ConstantExpr")
        truth = inner[condition].get("value") == "true"
        branches = inner[condition + 1:]
        if truth:
            return branches[0]
        return branches[1] if len(branches) > 1 else None

    def polls(self, node):
        """True for a condition that holds after the wait of a spinning form; False for its contrary; None for another
        condition."""
        kind, inner = node.get("kind", ""), node.get("inner", [])
        if kind == "UnaryOperator" and node.get("opcode") == "!":
            known = self.polls(inner[0])
            return None if known is None else not known
        if kind in ("CallExpr", "CXXMemberCallExpr"):
            function = callee(node)
            if self.tree.names.get(function) == "poll" and self.tree.classes.get(function) == "waiting":
                return True
            # optional's conversion to bool
            member = inner[0] if inner else {}
            if member.get("name", "").startswith("operator bool"):
                return self.polls(member)
            return None
        if kind in ("ExprWithCleanups", "ImplicitCastExpr", "MemberExpr", "ParenExpr", "MaterializeTemporaryExpr",
                    "CXXBindTemporaryExpr") and inner:
            return self.polls(inner[0])
        return None

    # -- statements

    def statement(self, node):
        if not isinstance(node, dict) or not node:
            return Counted()
        kind = node.get("kind", "")
        inner = node.get("inner", [])
        if kind == "CompoundStmt":
            return self.sequence(inner)
        if kind == "AttributedStmt":
            return self.statement(inner[-1])
        if kind == "IfStmt":
            return self.branch(node)
        if kind in LOOPS:
            return self.loop(node)
        if kind == "SwitchStmt":
            return self.switch(node)
        if kind in ("BreakStmt", "ContinueStmt", "GotoStmt"):
            return Counted(ends=True, text=["c;"])
        value = Value()
        for child in inner if kind in ("ReturnStmt", "DeclStmt") else [node]:
            if kind == "DeclStmt":
                for initial in child.get("inner", []):
                    value.add(self.value(initial))
            else:
                value.add(self.value(child))
        return Counted(value.before * max(1, value.operators), value.helpers + value.decisions,
                       value.text + [value.condition() + ";"], ends=kind == "ReturnStmt")

    def sequence(self, nodes):
        all_of_it = Counted()
        for node in nodes:
            one = self.statement(node)
            all_of_it.paths *= one.paths
            all_of_it.decisions += one.decisions
            all_of_it.text += one.text
            if one.ends:
                all_of_it.ends = True
                break
        return all_of_it

    def branch(self, node):
        inner = list(node.get("inner", []))
        if node.get("isConstexpr"):
            taken = self.taken(node)
            return self.statement(taken) if taken is not None else Counted()
        first = []
        if node.get("hasInit"):
            first.append(inner.pop(0))
        variable = inner.pop(0) if node.get("hasVar") else None
        condition, then = inner[0], inner[1]
        otherwise = inner[2] if node.get("hasElse") else None
        value = Value()
        known = None
        if variable is not None:
            for declared in variable.get("inner", []):
                for initial in declared.get("inner", []):
                    value.add(self.value(initial))
                    known = self.polls(initial) if known is None else known
        else:
            value.add(self.value(condition))
            known = self.polls(condition)
        before = self.sequence(first)
        if self.folded and known is not None:
            rest = self.statement(then) if known else self.statement(otherwise) if otherwise else Counted()
            return Counted(before.paths * value.before * rest.paths, before.decisions + value.helpers + rest.decisions,
                           before.text + value.text + rest.text, rest.ends)
        yes = self.statement(then)
        no = self.statement(otherwise) if otherwise else Counted()
        text = before.text + value.text + [f"if ({value.condition()}) {{", *yes.text, "}"]
        if otherwise:
            text += ["else {", *no.text, "}"]
        return Counted(before.paths * value.before * (value.operators + yes.paths + no.paths),
                       before.decisions + value.helpers + value.decisions + 1 + yes.decisions + no.decisions, text,
                       bool(otherwise) and yes.ends and no.ends)

    def loop(self, node):
        kind, inner = node["kind"], list(node.get("inner", []))
        if kind == "CXXForRangeStmt":
            die("a range-based for: there is no rule for it here", 1)
        if kind == "ForStmt":
            start, _, condition, step, body = inner
            first = self.statement(start)
            tested, stepped, repeated = self.value(condition), self.value(step), self.statement(body)
            endless = not condition
            paths = first.paths + tested.operators + stepped.operators + 1
            before = 1
            if start and first.paths > 1:  # helpers of the init stand before the loop
                before, paths = first.paths, paths - first.paths + 1
            paths += tested.before * stepped.before * repeated.paths
            text = (first.text if start else []) + [f"for (;{'' if endless else tested.condition()};) {{", *tested.text,
                                                    *repeated.text, *stepped.text,
                                                    stepped.condition() + ";", "}"]
            return Counted(before * paths, first.decisions + tested.decisions + tested.helpers + stepped.decisions +
                           stepped.helpers + repeated.decisions + (0 if endless else 1), text)
        if kind == "WhileStmt":
            condition, body = inner[-2], inner[-1]
        else:
            body, condition = inner[0], inner[1]
        tested, repeated = self.value(condition), self.statement(body)
        opening, closing = ("while", "}") if kind == "WhileStmt" else ("do", None)
        if closing:
            text = [f"while ({tested.condition()}) {{", *tested.text, *repeated.text, "}"]
        else:
            text = [f"{opening} {{", *repeated.text, *tested.text, f"}} while ({tested.condition()});"]
        return Counted(tested.operators + tested.before * repeated.paths + 1,
                       tested.decisions + tested.helpers + repeated.decisions + 1, text)

    def switch(self, node):
        condition, body = node["inner"][-2], node["inner"][-1]
        tested = self.value(condition)
        total, run, decisions = 0, 0, tested.decisions + tested.helpers
        text = [*tested.text, f"switch ({tested.condition()}) {{"]
        for statement in body.get("inner", []):
            while statement.get("kind") in ("CaseStmt", "DefaultStmt"):
                is_case = statement["kind"] == "CaseStmt"
                total, run = total + run, 1
                decisions += is_case
                text.append("case 1:" if is_case else "default:")
                statement = statement["inner"][-1]
            one = self.statement(statement)
            run, decisions = run * one.paths, decisions + one.decisions
            text += one.text
        return Counted(tested.before * max(1, tested.operators + total + run), decisions, text + ["}"])


def pmccabe(functions):
    """Returns {name: cyclomatic complexity} from pmccabe, for {name: lines of C}; None without pmccabe."""
    if not shutil.which("pmccabe"):
        return None
    with tempfile.TemporaryDirectory(prefix="usher-complexity-") as folder:
        file = Path(folder) / "all.c"
        file.write_text("".join(f"void {name}(int c)\n{{\n" + "\n".join(lines) + "\n}\n" for name, lines in
                                functions.items()))
        listing = subprocess.run(["pmccabe", str(file)], capture_output=True, text=True, timeout=60, check=True).stdout
    found = {}
    for line in listing.splitlines():
        words = line.split("\t")
        name = words[-1].split(":")[-1].strip()
        found[name] = int(words[1]) - sum(text.startswith("for (;;)") for text in functions[name])
    return found


def count(tree, function, **how):
    """Returns N-Path, cyclomatic complexity and the code of a function, written out."""
    whole = Counter(tree, **how).statement(tree.bodies[function])
    return whole.paths, 1 + whole.decisions, whole.text


# ---- the locks ------------------------------------------------------------------------------------------------------

def catalogue():
    return {lock.name: (lock.header, lock.type) for lock in catalog.locks()}


def driver(locks, kind):
    """Returns a translation unit with a function for each lock's lock() and unlock()."""
    text = ['#include "usher/platform/native.hpp"', '#include "usher/core/waiting.hpp"']
    known = catalogue()
    text += sorted({f'#include "usher/locks/{known[name][0]}"' for name in locks})
    text.append("namespace usher::measured {")
    for i, name in enumerate(locks):
        type_ = f"usher::{known[name][1]}<usher::native, usher::waiting<usher::native, usher::waiting_kind::{kind}>>"
        for operation in ("lock", "unlock"):
            text.append(f"void {operation}_{i}({type_}& l) {{ l.{operation}(); }}")
    return "\n".join(text + ["}"])


def measure(locks, kind, with_platform=False):
    """Returns {(lock, operation): {…}}."""
    tree = Tree(driver(locks, KINDS[kind]), "usher::", [f"-I{TREE / 'include'}"])
    results, texts = {}, {}
    for i, name in enumerate(locks):
        for operation in ("lock", "unlock"):
            function = tree.by_name[f"{operation}_{i}"]
            paths, cyclomatic, text = count(tree, function, platform="native")
            found = {"npath": paths, "cyclomatic": cyclomatic}
            if kind == "spin":
                found["folded npath"], found["folded cyclomatic"], _ = count(tree, function, platform="native",
                                                                             folded=True)
            texts[f"{operation}_{i}"] = text
            if with_platform:
                found["with platform npath"], found["with platform cyclomatic"], texts[f"whole_{operation}_{i}"] = count(
                    tree, function, platform="native", whole_platform=True)
            results[name, operation] = found
    by_tool = pmccabe(texts)
    for i, name in enumerate(locks):
        for operation in ("lock", "unlock"):
            if by_tool is not None:
                found = results[name, operation]
                found["pmccabe"] = by_tool[f"{operation}_{i}"]
                if with_platform:
                    found["with platform pmccabe"] = by_tool[f"whole_{operation}_{i}"]
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locks", default="ticket,twa,qspinlock", help="comma-separated names (ticket,twa,qspinlock)")
    parser.add_argument("--forms", default="spin,stp", help="comma-separated: " + ", ".join(KINDS))
    parser.add_argument("--platform", action="store_true", help="also with the platform's code counted in")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    if not shutil.which(CLANG):
        die(f"{CLANG} is not installed")
    locks, forms = options.locks.split(","), options.forms.split(",")
    for name in locks:
        if name not in catalogue():
            die(f"unknown lock '{name}'")
    for form in forms:
        if form not in KINDS:
            die(f"unknown form '{form}': {', '.join(KINDS)}")
    record, rows, wrong, by_tool = [], {name: [f"`{name}`"] for name in locks}, [], 0
    heading = ["lock"]
    for form in forms:
        measured = measure(locks, form, options.platform)
        prefixes = [""] + ["folded "] * (form == "spin") + ["with platform "] * options.platform
        for operation in ("lock", "unlock"):
            heading += [f"{form}: {operation}" + (f", {prefix.strip()}" if prefix else "") for prefix in prefixes]
            for name in locks:
                found = measured[name, operation]
                record.append({"lock": name, "form": form, "operation": operation, **found})
                for prefix in prefixes:
                    paths, cyclomatic = found[prefix + "npath"], found[prefix + "cyclomatic"]
                    rows[name].append(f"{paths} / {cyclomatic}")
                    counted = found.get(prefix + "pmccabe")
                    by_tool += counted is not None
                    if counted not in (None, cyclomatic):
                        wrong.append(f"{name}-{form} {operation}: {prefix}cyclomatic {cyclomatic}, pmccabe {counted}")
    print("N-Path / cyclomatic\n")
    print(harness.markdown(list(rows.values()), heading))
    print(f"\npmccabe has counted {by_tool} of the cyclomatic figures, and differs in {len(wrong)}.")
    version = harness.first_line([CLANG, "--version"])
    print(f"{version}; commit {harness.commit()}; `{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}`")
    if options.json:
        Path(options.json).write_text(json.dumps({"clang": version, "commit": harness.commit(), "figures": record},
                                                 indent=1) + "\n")
    for line in wrong:
        print(f"complexity: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
