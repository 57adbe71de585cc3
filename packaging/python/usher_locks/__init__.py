"""Usher's programs, libraries and locks, as a Python package.

    usher run -- python3 server.py                  # the console script of this package; python3 -m usher_locks, too
    usher_locks.command_path()                      # the command, as a file
    usher_locks.preload_path()                      # libusher.so, for LD_PRELOAD
    usher_locks.include_dir()                       # for cc -I and c++ -I
    usher_locks.library_path()                      # libusher-locks.so.0, the C interface

    with usher_locks.Mutex("twa"): ...              # one of usher_locks.lock_names()

`Mutex`, `Condition` and `Semaphore` are the objects of the C interface (usher/usher.h). They are for locks that Python
shares with C code of the same process, and for experiments. In pure Python, threading.Lock is the right lock: it is
faster, and while the interpreter has a global lock, that one decides which thread runs. To give the interpreter itself
and its threading.Lock other locks, start it by `usher run`; that needs nothing of this module.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # for type checkers; `typing` would make each start of the command slower, as would `pathlib`
if TYPE_CHECKING:
    from pathlib import Path

    from usher_locks._locks import Condition, Mutex, Semaphore, lock_names

__all__ = ["Condition", "Mutex", "Semaphore", "command_path", "include_dir", "library_path", "lock_names",
           "preload_path", "version"]

#: The release of everything in this package.
version = "@VERSION@"
__version__ = version

_TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_tree")


def _path(*parts: str) -> Path:
    from pathlib import Path

    return Path(_TREE, *parts)


def command_path() -> Path:
    """Returns the path of the command `usher`, an ELF executable. It finds its libraries and helpers relative to it."""
    return _path("bin", "usher")


def preload_path() -> Path:
    """Returns the path of libusher.so. In LD_PRELOAD, and with USHER_LOCK=steady, it gives a program Usher's locks.

    It has the locks that `usher list` recommends. libusher-all.so beside it, in its place, has all.
    """
    return _path("lib", "libusher.so")


def library_path() -> Path:
    """Returns the path of libusher-locks.so.0, which has the functions of usher/usher.h and which `Mutex` uses.

    An extension module links with this file. It needs no run path, because the loader takes a library that is loaded:
    import `usher_locks.Mutex` before the extension module.
    """
    return _path("lib", "libusher-locks.so.0")


def include_dir() -> Path:
    """Returns the folder of Usher's headers: usher/usher.h for C, usher/mutex.hpp and others for C++20."""
    return _path("include")


def __getattr__(name: str) -> object:
    """Loads the library at the first use of its objects, so that the command starts without it."""
    if name in ("Condition", "Mutex", "Semaphore", "lock_names"):
        from usher_locks import _locks

        return getattr(_locks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
