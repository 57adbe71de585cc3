"""Stores the provenance that results have in common. Each folder of results has a file manifest.json. It contains each stamp (machine,
compiler, commit) once and, by file, the date, the command and the share of CPU time that other programs took. packed.document() and
rounds.put() read and write it. A result outside lab/results contains its provenance itself.

Not covered: results of several sessions or groups (arena/*.jsonl, and the groups of waits, condition-variables and faults), which
contain each session's or group's own stamp; and the runs of a calibration.
"""

import json

NAME = "manifest.json"
SHARED = ("machine", "compiler", "commit")
OWN = ("date", "command", "others_cpu_share")


def of_folder(folder):
    file = folder / NAME
    return json.loads(file.read_text()) if file.is_file() else []


def stamp_of(file):
    """Returns the stamp of a result, {} if there is none. `file`: the plain name."""
    for stamp in of_folder(file.parent):
        if file.name in stamp["files"]:
            return {**{key: value for key, value in stamp.items() if key != "files"}, **stamp["files"][file.name]}
    return {}


def split(document):
    """Splits a document into the document without its stamp, the part of the stamp that results share, and the part of this file alone."""
    rest = {key: value for key, value in document.items() if key not in SHARED + OWN}
    return (rest, *({key: document[key] for key in keys if key in document} for keys in (SHARED, OWN)))


def text_with(stamps, name, shared, own):
    """Returns the manifest's text with the stamp of one more result."""
    stamps = [{**stamp, "files": {n: o for n, o in stamp["files"].items() if n != name}} for stamp in stamps]
    if shared or own:
        same = next((s for s in stamps if {k: v for k, v in s.items() if k != "files"} == shared), None)
        if same is None:
            stamps.append(same := {**shared, "files": {}})
        same["files"][name] = own
        same["files"] = dict(sorted(same["files"].items()))
    lines = []
    for stamp in (s for s in stamps if s["files"]):
        head = json.dumps({k: v for k, v in stamp.items() if k != "files"}, ensure_ascii=False)[:-1]
        files = ",\n".join(f"  {json.dumps(n)}: {json.dumps(o, ensure_ascii=False)}" for n, o in stamp["files"].items())
        lines.append(f'{head}{", " if len(head) > 1 else ""}"files": {{\n{files}}}}}')
    return "[" + ",\n".join(lines) + "]\n"
