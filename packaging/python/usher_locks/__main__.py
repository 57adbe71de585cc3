"""The command `usher`: python3 -m usher_locks, and the console script of the package."""

from __future__ import annotations

import os
import signal
import sys

import usher_locks

CANNOT_START = 125  # the command's exit status if a part of Usher is missing


def _environment() -> dict[bytes, bytes]:
    """Returns the environment with which this process was started.

    In the C locale, Python sets LC_CTYPE for itself and its children (PEP 538). Without Python the program that Usher
    starts would not have it.
    """
    environment = dict(os.environb)
    try:
        with open("/proc/self/environ", "rb") as file:
            begun_with = file.read().split(b"\0")
    except OSError:
        return environment
    if not any(entry.startswith(b"LC_CTYPE=") for entry in begun_with):
        environment.pop(b"LC_CTYPE", None)
    return environment


def main() -> int:
    """Executes the command `usher` in place of Python, with the arguments of this command line. Returns only if `usher`
    cannot be started."""
    words = sys.argv[1:]
    command = os.path.join(usher_locks._TREE, "bin", "usher")
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python; the program would inherit this
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execve(command, ["usher", *words], _environment())
    except OSError as error:
        print(f"usher: cannot start {command}: {error.strerror}: install the package usher-locks again, on a file "
              "system that allows programs", file=sys.stderr)
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
