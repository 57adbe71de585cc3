"""Archives that have the same bytes in each run: entries sorted by name, owner 0:0, fixed modes and time stamps.

A tree is a dictionary from each file's name in the archive to its content: a path, bytes, or a Link. tar() adds the
folders.
"""

import collections
import gzip
import io
import os
import pathlib
import tarfile

Link = collections.namedtuple("Link", "to")


def tree_of(folder, keep=lambda name: True):
    """Returns the files and links below a folder as a tree, with names relative to the folder."""
    folder = pathlib.Path(folder)
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {name: Link(os.readlink(folder / name)) if (folder / name).is_symlink() else folder / name
            for name in sorted(names) if keep(name)}


def is_executable(content):
    return isinstance(content, pathlib.Path) and os.access(content, os.X_OK) or (
        isinstance(content, bytes) and content.startswith(b"#!"))


def folders_of(names):
    return {parent.as_posix() for name in names for parent in pathlib.PurePosixPath(name).parents} - {"."}


def tar(tree, epoch):
    """Returns the bytes of a tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(folders_of(tree) | tree.keys()):
            entry = tarfile.TarInfo(name)
            entry.mtime = epoch
            content = tree.get(name)
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            elif isinstance(content, Link):
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, content.to, 0o777
                archive.addfile(entry)
            else:
                data = content if isinstance(content, bytes) else content.read_bytes()
                entry.size, entry.mode = len(data), 0o755 if is_executable(content) else 0o644
                archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def gzipped(data):
    """Returns the data, compressed by gzip without a time stamp and a file name in the header."""
    return gzip.compress(data, compresslevel=9, mtime=0)
