#!/usr/bin/env python3
"""Usher's locks in Python: the shared library of the C interface, by ctypes. ctypes lets other Python threads run while a call waits, so
a thread that waits for a lock does not block other threads. (Python's own threading.Lock needs no such module: `usher run -- python3 …`.)

usage: ctypes_locks.py [LIBRARY]"""

import ctypes
import errno
import os
import sys
import threading
import time


class Timespec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]

    @classmethod
    def after(cls, seconds):
        """Returns the time of CLOCK_MONOTONIC `seconds` seconds from now."""
        return cls(*divmod(time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(seconds * 1e9), 10**9))


def load(path="libusher-locks.so.0"):
    """Returns the library, with the types of its functions declared: without them ctypes would cut pointers to 32 bits.
    """
    library = ctypes.CDLL(path)
    pointer, number, text, until = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(Timespec)
    types = {
        "usher_version": (text,), "usher_lock_name": (text, ctypes.c_uint),
        "usher_mutex_new": (pointer, text), "usher_mutex_free": (number, pointer), "usher_mutex_lock": (number, pointer),
        "usher_mutex_trylock": (number, pointer), "usher_mutex_timedlock": (number, pointer, until),
        "usher_mutex_unlock": (number, pointer),
        "usher_cond_new": (pointer, ctypes.c_double), "usher_cond_free": (number, pointer),
        "usher_cond_wait": (number, pointer, pointer), "usher_cond_signal": (number, pointer),
        "usher_cond_broadcast": (number, pointer),
    }
    for name, (result, *arguments) in types.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Mutex:
    """A lock that can be used as `with mutex: …`."""

    def __init__(self, library, name=None):
        self.library, self.address = library, library.usher_mutex_new(name and name.encode())
        if self.address is None:
            raise ValueError(f"there is no lock {name!r}")

    def __del__(self):
        if self.address is not None:
            self.library.usher_mutex_free(self.address)

    def acquire(self, timeout=None):
        """Locks the mutex. Returns False if it could not be locked within `timeout` seconds."""
        if timeout is None:
            error = self.library.usher_mutex_lock(self.address)
        else:
            error = self.library.usher_mutex_timedlock(self.address, Timespec.after(timeout))
        if error not in (0, errno.ETIMEDOUT):
            raise OSError(error, os.strerror(error))
        return error == 0

    def release(self):
        self.library.usher_mutex_unlock(self.address)

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, *_):
        self.release()


class Condition:
    """A condition variable for threads that hold the mutex. `append` is the probability that a waiter is put at the tail
    of the list."""

    def __init__(self, library, mutex, append=1.0):
        self.library, self.mutex, self.address = library, mutex, library.usher_cond_new(append)
        if self.address is None:
            raise ValueError(f"{append} is not a probability")

    def __del__(self):
        if self.address is not None:
            self.library.usher_cond_free(self.address)

    def wait_for(self, predicate):
        while not predicate():
            self.library.usher_cond_wait(self.address, self.mutex.address)

    def notify_all(self):
        self.library.usher_cond_broadcast(self.address)


def main():
    library = load(*sys.argv[1:])
    mutex = Mutex(library)  # the default lock
    turned = Condition(library, mutex)
    turn, turns, threads = 0, 400, 4

    def take_turns(me):
        nonlocal turn
        while True:
            with mutex:
                turned.wait_for(lambda: turn % threads == me or turn >= turns)
                if turn >= turns:
                    return
                turn += 1
                turned.notify_all()

    team = [threading.Thread(target=take_turns, args=(i,)) for i in range(threads)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    with mutex:
        in_time = mutex.acquire(timeout=0.01)
    print(f"Usher {library.usher_version().decode()}, first lock {library.usher_lock_name(0).decode()}: "
          f"{turn} turns by {threads} threads; a second attempt {'had the mutex' if in_time else 'timed out'}")
    return 0 if turn == turns and not in_time else 1


if __name__ == "__main__":
    sys.exit(main())
