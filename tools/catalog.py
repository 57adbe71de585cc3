"""The locks of library/catalog/catalog.list and the ways of waiting of include/usher/core/ways_of_waiting.hpp, for
Python scripts, which read these files only through this module. (CMake files read the list by cmake/catalog.cmake.)
"""

import re
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
LIST = Path("library", "catalog", "catalog.list")
READ_WRITE = Path("library", "catalog", "read_write_names.hpp")
WAYS = Path("include", "usher", "core", "ways_of_waiting.hpp")
FULL_SUFFIX = "-stp"  # the suffix that a name without a suffix stands for: library/catalog/names.hpp


@dataclass(frozen=True)
class Lock:
    name: str
    header: str
    type: str
    heading: str = ""  # above its line in the list
    is_usual: bool = False  # in libusher.so, and not only in libusher-all.so

    @property
    def is_the_c_librarys(self):
        return self.header == "c_library.hpp"

    @property
    def excludes(self):
        """Returns whether the entry is a lock. One entry is none; measurements compare locks with it, and libusher.so
        refuses it."""
        return self.header != "null.hpp"


def locks(tree=TREE):
    found, heading = [], ""
    for line in Path(tree, LIST).read_text().splitlines():
        fields = line.split()
        if line.startswith("="):
            heading = line[1:].strip()
        if not fields or line.startswith(("#", "=")):
            continue
        if len(fields) != 3 and (len(fields) != 4 or fields[3] != "usual"):
            raise ValueError(f"{LIST}: a line is 'name header type', or 'name header type usual', not '{line}'")
        found.append(Lock(*fields[:3], heading, len(fields) == 4))
    return found


def library_with(lock, library, tree=TREE):
    """Returns the library to preload for a form of a lock or a read-write lock: `library`, which is libusher.so, if it has the lock, else
    libusher-all.so beside it. A library of another name is taken to have all locks."""
    path = Path(library)
    others = {known.name for known in locks(tree) if not known.is_usual}
    is_other = lock in read_write_names(tree)[2:] or family(lock, tree) in others
    return str(path.with_name("libusher-all.so")) if path.name == "libusher.so" and is_other else str(library)


def read_write_names(tree=TREE):
    """Returns the names of the read-write locks, those of libusher.so first: names of USHER_RWLOCK, not of USHER_LOCK."""
    writers = re.findall(r'writers\(\w+, "([^"]+)"\)', Path(tree, READ_WRITE).read_text())
    return [plain + ending for ending in ["", *(f"-{w}" for w in writers)] for plain in ("phase-fair", "bravo")]


@dataclass(frozen=True)
class Way:
    kind: str  # "spin_then_park"
    suffix: str
    pace: str
    limit: str
    parks: bool
    usual: bool
    wants_cpu: bool
    in_words: str

    @property
    def name(self):
        """Returns the name as `usher list` shows it, such as "spin-then-park"."""
        return self.kind.replace("_", "-")

    @property
    def short(self):
        """Returns the suffix in full, without its hyphen, such as "stp" or "park"."""
        return (self.suffix or FULL_SUFFIX)[1:]


def ways(tree=TREE):
    """Returns the ways of waiting in the table's order."""
    field, text, yes = r"\s*(\w+)\s*,", r'\s*"([^"]*)"', r"\s*(true|false)\s*,"
    row = re.compile(r"^\s*way\(" + field + text + r"\s*," + field * 2 + yes * 3 + text + r"\s*\)\s*\\$", re.M)
    found = [Way(*fields[:4], *(f == "true" for f in fields[4:7]), fields[7])
             for fields in row.findall(Path(tree, WAYS).read_text())]
    if len(found) != len(re.findall(r"^\s*way\(", Path(tree, WAYS).read_text(), re.M)) or not found:
        raise ValueError(f"{WAYS}: a line of the table is not as the others")
    return found


def way_of(name, tree=TREE):
    """Returns the way of waiting of a form of a lock. A form without a suffix is spin_then_park."""
    all_ways = ways(tree)
    named = [way for way in all_ways if way.suffix and name.endswith(way.suffix) and name != way.suffix]
    return named[0] if named else next(way for way in all_ways if not way.suffix)


def family(name, tree=TREE):
    """Returns the plain name of a form of a lock: "twa" of the form "twa-park"."""
    for suffix in [FULL_SUFFIX] + [way.suffix for way in ways(tree) if way.suffix]:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name
