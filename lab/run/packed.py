"""Results in the tree, lab/results. FILE may be there as FILE.xz, which `xz -dc` shows; write() packs what is long. The functions
take either name.

  python3 -m lab.run.packed FILE...             pack files that were written otherwise
  python3 -m lab.run.packed --unpack FILE..."""

import argparse
import json
import lzma
import os
from pathlib import Path

from harness import TREE
from lab.run import manifest

RESULTS = TREE / "lab" / "results"
LONG, LARGE = 400, 100_000  # lines, characters; chosen


def plain(file):
    return file.with_suffix("") if file.suffix == ".xz" else file


def packed(file):
    return file.with_name(plain(file).name + ".xz")


def stored(file):
    """Returns the stored form of a result: FILE or FILE.xz."""
    return packed(file) if packed(file).is_file() else plain(file)


def is_there(file):
    return plain(file).is_file() or packed(file).is_file()


def text_of(file):
    file = plain(file)
    if file.is_file() or not packed(file).is_file():
        return file.read_text()
    return lzma.decompress(packed(file).read_bytes()).decode()


def in_tree(file):
    return file.resolve().is_relative_to(RESULTS)


def document(file):
    """Returns a result together with its stamp."""
    found = json.loads(text_of(file))
    return {**manifest.stamp_of(plain(file)), **found} if in_tree(file) else found


def without_stamp(file, document):
    """Returns the document. In the tree its stamp is removed, and written to the folder's manifest."""
    if not in_tree(file):
        return document
    rest, shared, own = manifest.split(document)
    file = plain(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file.with_name(manifest.NAME), manifest.text_with(manifest.of_folder(file.parent), file.name, shared, own).encode())
    return rest


def files(folder, pattern):
    """Returns the results in the folder whose names match, packed or not."""
    return sorted({plain(file) for name in (pattern, pattern + ".xz") for file in folder.glob(name)} - {*folder.glob(f"**/{manifest.NAME}")})


def replace(file, content):
    """Replaces the file's content in one step: an interruption leaves the old content."""
    part = file.with_name(file.name + ".part")
    part.write_bytes(content)
    os.replace(part, file)


def write(file, text):
    """Writes a result; in the tree it is packed if it is long. The other form of the file is removed."""
    file = plain(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    if (text.count("\n") > LONG or len(text) > LARGE) and in_tree(file):
        replace(packed(file), lzma.compress(text.encode(), preset=9))
        file.unlink(missing_ok=True)
    else:
        replace(file, text.encode())
        packed(file).unlink(missing_ok=True)


def unpack(file):
    """Converts a packed result to the plain form, to which lines can be appended."""
    file = plain(file)
    if not file.is_file() and packed(file).is_file():
        replace(file, text_of(file).encode())
        packed(file).unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unpack", action="store_true", help="instead")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args()
    for file in options.files:
        unpack(file) if options.unpack else write(file, text_of(file))


if __name__ == "__main__":
    main()
