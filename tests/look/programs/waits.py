"""A wait for a lock of CPython, with the output of ready.h. The functions are those of the interpreter."""

import json
import os
import signal
import threading
import time

lock = threading.Lock()
tids = {}


def holds_lock(held):
    tids["holder"] = threading.get_native_id()
    with lock:
        held.set()
        while True:
            signal.pause()


def locks_lock():
    tids["waiter"] = threading.get_native_id()
    with lock:
        pass


def start(*run):
    threading.Thread(target=run[0], args=run[1:], daemon=True).start()


def is_asleep(tid):
    try:
        with open(f"/proc/self/task/{tid}/syscall", encoding="ascii") as file:
            return not file.read().startswith("running")
    except OSError:
        return True


signal.alarm(600)
is_held = threading.Event()
start(holds_lock, is_held)
is_held.wait()
start(locks_lock)
while "waiter" not in tids:
    time.sleep(0.001)
for _ in range(2):  # a thread may also sleep for the interpreter's lock
    time.sleep(0.02)
    while not is_asleep(tids["waiter"]):
        time.sleep(0.001)
print(json.dumps({"case": "python-lock", "pid": os.getpid(), "object": "0x0", "threads": [
    {"role": role, "tid": tid, "pid": os.getpid(), "function": ""} for role, tid in sorted(tids.items())]}), flush=True)
while True:
    signal.pause()
