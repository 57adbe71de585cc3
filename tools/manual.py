#!/usr/bin/env python3
"""Makes the manual page and the completions of a build's options: `usher --describe-options` and those of its other executables print them.
The files are kept in the tree, so that a build needs neither Python nor a command that runs here; --check compares them.

  tools/manual.py --build build/release            writes docs/usher.1, tool/completion/usher.bash and tool/completion/_usher
  tools/manual.py --build build/release --check    says which of them differ; the exit status is 1 then"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
EXECUTABLES = ("usher_stat", "usher_bench")
MADE = "made by `make man` of the options' help texts"
# What completes a value, by its name in the help text. Names in lower case are words themselves.
KINDS = {"LOCK": "lock", "A,B,...": "locks", "a,b,...": "locks", "FILE": "file", "F": "file", "M": "machine", "PID": "process",
         "WORKLOAD": "workload", "RWLOCK": "pthread phase-fair bravo"}
LIST = re.compile(r": ((?:[a-z][a-z0-9-]*, ){2,}[a-z][a-z0-9-]*)(?= \(|;|, or |$)")


def described(build, executable):
    done = subprocess.run([build / "bin" / executable, "--describe-options"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def subcommands(build):
    """Returns the subcommands in the order of `usher --help`, each followed by its parts ("sim calibrate"), and the command's examples."""
    usher = described(build, "usher")
    elsewhere = {s["name"]: s for executable in EXECUTABLES for s in described(build, executable)["parts"]}
    found = []
    for s in usher["parts"]:
        s = elsewhere.get(s["name"], s)
        s["notes"] = "" if s["notes"] == usher["notes"] else s["notes"]  # those of the whole command, for want of own ones
        found += [s, *({**part, "name": f"{s['name']} {part['name']}"} for part in s["parts"])]
    return found, usher["notes"]


def positionals(s):
    return [o for o in s["options"] if not o["names"]]


def named(s):
    return [o for o in s["options"] if o["names"]]


def parts_of(s, all_of_them):
    return [p["name"].split()[1] for p in all_of_them if p["name"].startswith(s["name"] + " ")]


def outer(all_of_them):
    return [s["name"] for s in all_of_them if " " not in s["name"]]


def takes_command(s):
    return "-- CMD" in s["usage"]


# ---- the manual page -------------------------------------------------------------------------------------------------

def roff(text):
    """Returns text without markup as roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    text = re.sub(r"[^\x00-\x7f]", lambda c: f"\\[u{ord(c[0]):04X}]", text)
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def inline(text):
    """Returns roff of text in which `x` is bold, *x* italic, and options bold."""
    parts = re.split(r"(`[^`]+`|(?<![\w*])\*[^*\s][^*\n]*\*(?![\w*])|(?<![\w-])--?[a-z][a-z-]*(?![\w]))", text)
    for i, part in enumerate(parts):
        if i % 2:
            bare = part if part.startswith("-") else part[1:-1]
            parts[i] = rf"\f{'I' if part[0] == '*' else 'B'}{roff(bare)}\fR"
        else:
            parts[i] = roff(part)
    return re.sub(r"(?m)^([.'])", r"\\&\1", "".join(parts))


def paragraphs(text):
    return [p for p in text.strip("\n").split("\n\n") if p.strip()]


def item(o):
    """Returns the list's item on an option or an argument."""
    value = rf"\fI{roff(o['value'])}\fR" if o["value"] else ""
    names = ", ".join(rf"\fB{roff(name)}\fR" for name in o["names"])
    others = f" (not with {o['excludes'][0]})" if len(o["excludes"]) == 1 else ""
    return f".TP\n{' '.join(filter(None, (names, value)))}\n{inline(o['text'] + others)}"


def example_lines(text):
    return [".PP", ".nf", *(roff(line[2:]) for line in text.splitlines()[1:]), ".fi"]


def section(s, said):
    """Returns the page's section on a subcommand: its help text, with what the page says in addition before the options."""
    prose, examples = [], []
    for p in paragraphs(s["notes"]):
        if p.startswith("Examples:"):
            examples = example_lines(p)
        elif not p.startswith(("Exit status:", "Environment:")):
            prose.append(inline(p))
    if not prose and not said:
        prose = [inline(s["summary"] + ".")]
    return "\n".join([f".SS usher {roff(s['name'])}", "\n.PP\n".join(prose + ([said] if said else [])),
                      *(item(o) for o in positionals(s) + named(s) if o["text"] and "--help" not in o["names"]), *examples])


def usages(all_of_them):
    """Returns the lines of the synopsis: words in lower case are bold, those in upper case italic."""
    lines = [line.strip() for s in all_of_them if s["name"] != "help" for line in s["usage"].removeprefix("Usage:").strip().splitlines()]
    return "\n.br\n".join(re.sub(r"[a-z]+|--?[a-z]*|[A-Z]+", lambda word: rf"\f{'I' if word[0].isupper() else 'B'}{roff(word[0])}\fR", line)
                          for line in lines)


def manual(all_of_them, examples):
    """Fills in docs/usher.1.in."""
    out, said, name = [], [], None
    by_name = {s["name"]: s for s in all_of_them}
    source = [line for line in (TREE / "docs/usher.1.in").read_text().splitlines() if not line.startswith('.\\"')]
    if missing := by_name.keys() - {line[1:] for line in source if line.startswith("@")}:
        sys.exit(f"usher: manual: docs/usher.1.in has no line @{min(missing)}")
    for line in [*source, ".SH"]:
        if line.startswith((".SH", "@")):
            if name in by_name:
                out.append(section(by_name[name], "\n".join(said)))
            said, name = [], line[1:] if line.startswith("@") else None
            out += {"@synopsis": [usages(all_of_them)], "@examples": example_lines(examples.split("\n\n")[0])}.get(line, [])
        if line.startswith("= "):
            line = f".TP\n\\fB{roff(line[2:])}\\fR"
        elif not line.startswith((".", "@")):
            line = inline(line)
        if name is None:
            out.append(line)
        elif not line.startswith("@"):
            said.append(line)
    return "\n".join([out[0], f'.\\" {MADE.capitalize()}, and of usher.1.in.', *out[1:-1]]) + "\n"


# ---- the completions -------------------------------------------------------------------------------------------------

def completing(o):
    """Returns the kinds and the words that complete an option's value."""
    parts = (o["value"] if o["value"] in KINDS else o["value"].removesuffix(",...")).split("|")
    words = [part for part in parts if part not in KINDS and re.fullmatch("[a-z-]+", part)]
    listed = LIST.search(o["text"])
    kinds = [] if listed else [word for part in parts for word in KINDS.get(part, "").split()]
    return kinds + (listed[1].split(", ") if listed else words)


def bash(all_of_them):
    values, options, words = {}, [], []
    for s in all_of_them:
        for o in named(s):
            if o["value"]:
                values.setdefault(" ".join(completing(o)), []).extend(f"'{s['name']} {name}'" for name in o["names"])
        options.append(f"    {s['name'].replace(' ', chr(92) + ' ')}) echo {' '.join(next(n for n in o['names'] if n[:2] == '--') for o in named(s))}"
                       f"{' --' if takes_command(s) else ''} ;;")
        first = [word for o in positionals(s) for word in completing(o)] + parts_of(s, all_of_them)
        if s["name"] == "help":
            first = outer(all_of_them)
        if first:
            words.append(f"    {s['name'].replace(' ', chr(92) + ' ')}) echo {' '.join(first)} ;;")
    cases = [f"    {' | '.join(where)}) echo {kind or 'nothing'} ;;" for kind, where in values.items()]
    text = (TREE / "tool/completion/usher.bash.in").read_text()
    for word, lines in (("values", cases), ("options", options), ("words", words)):
        text = text.replace(f"@{word}@", "\n".join(lines))
    parts = " ".join(f"'{s['name']}'" for s in all_of_them if " " in s["name"])
    return text.replace("@made@", MADE).replace("@parts@", parts).replace("@names@", " ".join(outer(all_of_them)))


ZSH = {"lock": "($locks)", "locks": "_values -s , lock $locks", "file": "_files", "machine": '_files -g "*.toml"', "process": "_pids",
       "workload": "($workloads)"}


def zsh_value(o):
    kinds = completing(o)
    several, label = o["value"].endswith(",..."), re.sub(r"[^a-z=.]+", " ", o["value"].lower().removesuffix(",...")).strip() or "value"
    known = [ZSH[k] for k in kinds if k in ZSH]
    words = [k for k in kinds if k not in ZSH]
    if known and words and known[0].startswith("("):
        known = [f"{known[0][:-1]} {' '.join(words)})"]
    if several and words and not known:
        known = [f"_values -s , {label.split()[0]} {' '.join(words)}"]
    return f":{label}:{known[0] if known else '(' + ' '.join(words) + ')' if words else ''}"


def zsh_spec(o):
    text = re.split(r" \(|\. ", o["text"])[0]
    text = re.split("; |: ", text)[0] if len(re.split("; |: ", text)[0].split()) > 3 else text
    text = re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")
    value = zsh_value(o).replace("'", "'\\''") if o["value"] else ""
    others = [name for name in o["excludes"] if name.startswith("-")] if len(o["excludes"]) < 3 else []
    others += o["names"] if len(o["names"]) > 1 else []
    before = "'*'" if o["repeats"] else f"'({' '.join(others)})'" if others else ""
    names = f"{{{','.join(o['names'])}}}" if len(o["names"]) > 1 else o["names"][0]
    if len(o["names"]) == 1:
        return f"'{before.strip(chr(39))}{names}[{text}]{value}'"
    return f"{before}{names}'[{text}]{value}'"


def zsh(all_of_them):
    cases = []
    for s in sorted(all_of_them, key=lambda s: " " not in s["name"]):  # inner ones first
        inner = parts_of(s, all_of_them)
        specs = [zsh_spec(o) for o in named(s)]
        if takes_command(s):
            specs.append("'*::command:_normal'")
        elif s["name"] == "help":
            specs.append(f"'1:subcommand:({' '.join(outer(all_of_them))})'")
        else:
            for o in positionals(s):
                rest = zsh_value(o)
                specs.append(f"'{'*' if o['repeats'] else 1}{rest[:-1] + ' ' + ' '.join(inner) + ')' if inner and rest.endswith(')') else rest}'")
        if " " in s["name"]:
            specs.append(f"'1:part:({s['name'].split()[1]})'")
        cases.append(f"  '{s['name']}{chr(39) if ' ' in s['name'] else ' ' + chr(39) + '*'})\n    _arguments {'-S ' if takes_command(s) else ''}"
                     + " \\\n      ".join(specs or ["''"]) + " ;;")
    text = (TREE / "tool/completion/_usher.in").read_text()
    return text.replace("@made@", MADE).replace("@names@", " ".join(outer(all_of_them))).replace("@cases@", "\n".join(cases))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=TREE / "build/release")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found, examples = subcommands(options.build)
    made = {"docs/usher.1": manual(found, examples), "tool/completion/usher.bash": bash(found), "tool/completion/_usher": zsh(found)}
    differ = []
    for name, text in made.items():
        file = TREE / name
        if not file.is_file() or file.read_text() != text:
            differ.append(name)
            if not options.check:
                file.write_text(text)
    if options.check and differ:
        print(f"usher: {', '.join(differ)}: not as the options say: make man", file=sys.stderr)
    return 1 if options.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
