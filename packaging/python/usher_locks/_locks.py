"""Usher's mutexes, condition variables and semaphores in Python: the functions of usher/usher.h, by ctypes."""

import ctypes
import difflib
import errno
import os
import time
from types import TracebackType
from typing import Any, Callable, ClassVar, List, NoReturn, Optional, Type, TypeVar

from usher_locks import library_path

_T = TypeVar("_T")
_LONGEST = 1e9  # seconds; a longer timeout counts as this one, since the deadline must fit into a timespec


class _Timespec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]


class _MutexHead(ctypes.Structure):
    """The beginning of usher_mutex_t. The owner tag is 0 while the mutex is free, and only then."""

    _fields_ = [("usher_table", ctypes.c_void_p), ("usher_tag", ctypes.c_uint32)]


# ctypes.CDLL lets other Python threads run during a call: a thread that waits for a lock must not keep the interpreter
# from the thread that holds the lock.
_library = ctypes.CDLL(str(library_path()))


def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    function = getattr(_library, name)
    function.restype, function.argtypes = result, arguments  # without types ctypes would cut pointers to 32 bits
    return function  # type: ignore[no-any-return]


_int, _pointer, _text = ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
_until = ctypes.POINTER(_Timespec)
_lock_name = _function("usher_lock_name", _text, ctypes.c_uint)
_mutex_new = _function("usher_mutex_new", _pointer, _text)
_mutex_free = _function("usher_mutex_free", _int, _pointer)
_mutex_trylock = _function("usher_mutex_trylock", _int, _pointer)
_mutex_unlock = _function("usher_mutex_unlock", _int, _pointer)
_mutex_lock = _function("usher_mutex_lock", _int, _pointer)
_mutex_timedlock = _function("usher_mutex_timedlock", _int, _pointer, _until)
_cond_new = _function("usher_cond_new", _pointer, ctypes.c_double)
_cond_free = _function("usher_cond_free", _int, _pointer)
_cond_signal = _function("usher_cond_signal", _int, _pointer)
_cond_broadcast = _function("usher_cond_broadcast", _int, _pointer)
_cond_wait = _function("usher_cond_wait", _int, _pointer, _pointer)
_cond_timedwait = _function("usher_cond_timedwait", _int, _pointer, _pointer, _until)
_sem_new = _function("usher_sem_new", _pointer, ctypes.c_uint, ctypes.c_double)
_sem_free = _function("usher_sem_free", None, _pointer)
_sem_trywait = _function("usher_sem_trywait", _int, _pointer)
_sem_post = _function("usher_sem_post", _int, _pointer)
_sem_wait = _function("usher_sem_wait", _int, _pointer)
_sem_timedwait = _function("usher_sem_timedwait", _int, _pointer, _until)


def lock_names() -> List[str]:
    """Returns the names of all locks; `usher list` describes them."""
    names: List[str] = []
    while True:
        name = _lock_name(len(names))
        if name is None:
            return names
        names.append(name.decode())


def _raise(call: str, error: int) -> NoReturn:
    raise RuntimeError(f"{call}: {os.strerror(error)}")


def _check_append(append: float) -> float:
    if not 0 < append <= 1:
        raise ValueError(f"append is {append}, not a probability above 0 and up to 1")
    return append


def _end(timeout: float) -> Any:
    """Returns a reference to a timespec: the time of CLOCK_MONOTONIC `timeout` seconds from now."""
    nanoseconds = time.monotonic_ns() + int(min(timeout, _LONGEST) * 1e9)
    return ctypes.byref(_Timespec(*divmod(nanoseconds, 10**9)))


class _Object:
    """An object of the C interface, on the heap at a fixed address."""

    _address: Optional[int] = None
    _process = 0
    _free: ClassVar[Callable[..., Any]]

    def _created(self, address: Optional[int]) -> None:
        if address is None:
            raise MemoryError
        self._address, self._process = address, os.getpid()

    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        # No Python thread is in a call, because such a thread has a reference to this object. C code that has the
        # address may hold the object or wait for it; then the library refuses to free the object (EBUSY), and it stays.
        # It also stays in the child of a fork, in whose copy threads may be registered that the child does not have.
        if self._address is not None and self._process == getpid():
            type(self)._free(self._address)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: threads use it at its address")

    @property
    def address(self) -> int:
        """The address of the object, for C code. It is valid as long as this Python object exists."""
        assert self._address is not None
        return self._address


class _Acquired(_Object):
    """The base of mutexes and semaphores, which threads acquire and release."""

    _try_once: ClassVar[Callable[..., Any]]
    _wait: ClassVar[Callable[..., Any]]
    _wait_until: ClassVar[Callable[..., Any]]
    _give_back: ClassVar[Callable[..., Any]]

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """Acquires the object. If `blocking`, waits until this succeeds, at most `timeout` seconds. Returns whether the
        object was acquired.

        Python's signal handlers run when the call ends: Ctrl-C does not end a wait without a timeout. If a handler
        raises an exception, an object that was acquired in a wait is released again.
        """
        kind = type(self)
        if timeout is not None:
            if not blocking:
                raise ValueError("acquire: a timeout needs blocking=True")
            if not timeout >= 0:
                raise ValueError(f"acquire: the timeout is {timeout}, not a number of seconds from 0 on")
        if kind._try_once(self._address) == 0:
            return True
        if not blocking:
            return False
        # Python runs signal handlers between bytecodes, so a handler may raise an exception right after a call that
        # waited. By then extend() has stored the call's result.
        result: List[int] = []
        try:
            if timeout is None:
                result.extend(map(kind._wait, (self._address,)))
            else:
                result.extend(map(kind._wait_until, (self._address,), (_end(timeout),)))
        except BaseException:
            if result == [0]:
                kind._give_back(self._address)
            raise
        if result[0] == 0:
            return True
        if result[0] == errno.ETIMEDOUT:
            return False
        _raise("acquire", result[0])

    def __enter__(self) -> bool:
        return self.acquire()


class Mutex(_Acquired):
    """One of Usher's locks, for `with mutex: …`. `lock` is its name (lock_names()); None means the default lock.

    A Mutex serves to share a lock with C code of the same process, which gets its `address`, a `usher_mutex_t*` of
    usher/usher.h; or to try out a lock. In pure Python, threading.Lock is the right lock.

    A Mutex is not recursive: a thread that holds it and acquires it again waits for ever. Any thread may release it.
    After a fork, the child has a copy in the state that the mutex had. A held mutex stays locked, as a threading.Lock
    does; a mutex for which other threads waited cannot be used in the child.
    """

    _free, _try_once, _wait, _wait_until, _give_back = (
        _mutex_free, _mutex_trylock, _mutex_lock, _mutex_timedlock, _mutex_unlock)

    def __init__(self, lock: Optional[str] = "steady") -> None:
        address = _mutex_new(None if lock is None else lock.encode())
        if address is None and lock is not None:
            names = lock_names()
            if lock not in names:
                near = difflib.get_close_matches(lock, names, 1)
                raise ValueError(f"unknown lock {lock!r}: " + (
                    f"did you mean {near[0]!r}?" if near else "usher_locks.lock_names() returns the names"))
        self._created(address)
        self._head = _MutexHead.from_address(self.address)
        #: The name of the lock; None: the default lock.
        self.lock = lock

    def __repr__(self) -> str:
        return f"<usher_locks.Mutex {self.lock or 'of the default lock'}, {'locked' if self.locked() else 'free'}>"

    def locked(self) -> bool:
        """Returns whether a thread holds the mutex at the moment."""
        return bool(self._head.usher_tag)

    def release(self) -> None:
        """Unlocks the mutex. Raises RuntimeError if the mutex is not locked."""
        if not self._head.usher_tag:
            raise RuntimeError("release: the mutex is not locked")
        error = _mutex_unlock(self._address)
        if error:
            _raise("release", error)

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.release()


class Condition(_Object):
    """A condition variable of Usher, for threads that hold its mutex. If `mutex` is None, it has a mutex of its own.

    `append` is the probability, above 0 and up to 1, with which a thread that begins to wait is put at the tail of the
    list of waiters; otherwise it is put at the head. 1 is first in, first out, 0.001 mostly last in, first out. `with
    condition:` acquires the mutex. Python's signal handlers run when a wait ends, with the mutex acquired.
    """

    _free = _cond_free

    def __init__(self, mutex: Optional[Mutex] = None, append: float = 1.0) -> None:
        self._created(_cond_new(_check_append(append)))
        #: The mutex of the waiting threads.
        self.mutex = Mutex() if mutex is None else mutex

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """Acquires the mutex, as Mutex.acquire()."""
        return self.mutex.acquire(blocking, timeout)

    def release(self) -> None:
        """Releases the mutex."""
        self.mutex.release()

    def __enter__(self) -> bool:
        return self.mutex.acquire()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.mutex.release()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Releases the mutex, waits for a notification, and acquires the mutex again. Returns False if the timeout, in
        seconds, passed before a notification came. Waits may end without a notification: see wait_for()."""
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"wait: the timeout is {timeout}, not a number of seconds from 0 on")
        if not self.mutex.locked():
            raise RuntimeError("wait: the mutex is not locked")
        error: int
        if timeout is None:
            error = _cond_wait(self._address, self.mutex.address)
        else:
            error = _cond_timedwait(self._address, self.mutex.address, _end(timeout))
        if error not in (0, errno.ETIMEDOUT):
            _raise("wait", error)
        return error == 0

    def wait_for(self, predicate: Callable[[], _T], timeout: Optional[float] = None) -> _T:
        """Waits until the predicate's result is true, and returns the result. After the timeout, in seconds, returns
        the result whatever it is."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            result = predicate()
            if result:
                return result
            if end is None:
                self.wait()
            else:
                left = end - time.monotonic()
                if left <= 0:
                    return result
                self.wait(left)

    def notify(self, n: int = 1) -> None:
        """Ends the waits of up to n threads. The mutex need not be held."""
        for _ in range(n):
            error = _cond_signal(self._address)
            if error:
                _raise("notify", error)

    def notify_all(self) -> None:
        """Ends the waits of all threads. The mutex need not be held."""
        error = _cond_broadcast(self._address)
        if error:
            _raise("notify_all", error)


class Semaphore(_Acquired):
    """A semaphore of Usher with `value` credits. `append` has the meaning that it has for Condition, for threads that
    wait for a credit.

    `with semaphore:` takes a credit and gives it back. After a fork, the child's copy has the same number of credits.
    """

    _free, _try_once, _wait, _wait_until, _give_back = (
        _sem_free, _sem_trywait, _sem_wait, _sem_timedwait, _sem_post)

    def __init__(self, value: int = 1, append: float = 1.0) -> None:
        if not 0 <= value <= 0x7fffffff:
            raise ValueError(f"the value is {value}, not a number from 0 to 0x7fffffff")
        self._created(_sem_new(value, _check_append(append)))

    def release(self, n: int = 1) -> None:
        """Adds n credits, one by one. Raises RuntimeError if there are 0x7fffffff credits."""
        for _ in range(n):
            error = _sem_post(self._address)
            if error:
                _raise("release", error)

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.release()
