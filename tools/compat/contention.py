"""Python threads under contention. A threading.Lock is a semaphore, and the interpreter's own lock is a mutex with a
condition variable, so every switch between threads uses both. Arguments: number of threads, number of operations in
all. Prints "ok".
"""

import concurrent.futures
import hashlib
import queue
import sys
import threading
import time
import zlib

threads, operations = int(sys.argv[1]), int(sys.argv[2])
each = operations // threads
sys.setswitchinterval(1e-5)  # switch as often as possible

lock, recursive, condition = threading.Lock(), threading.RLock(), threading.Condition()
permits, barrier = threading.BoundedSemaphore(2), threading.Barrier(threads)
mail = queue.Queue(maxsize=4)
state = {"counter": 0, "nested": 0, "turn": 0, "inside": 0, "crowded": False, "digests": set()}
failures = []
ring_rounds = 10
block = bytes(range(256)) * 64


def work(me):
    try:
        barrier.wait()
        for i in range(each):
            with lock:
                seen = state["counter"]
                state["counter"] = seen + 1
            with recursive:
                with recursive:
                    state["nested"] += 1
            if i % 10 == 0:
                with permits:
                    with lock:
                        state["inside"] += 1
                        state["crowded"] = state["crowded"] or state["inside"] > 2
                    # zlib and hashlib release the interpreter's lock while they compute.
                    digest = hashlib.sha256(zlib.decompress(zlib.compress(block))).hexdigest()
                    with lock:
                        state["inside"] -= 1
                        state["digests"].add(digest)
                mail.put((me, i))
        for turn in range(ring_rounds):
            with condition:
                condition.wait_for(lambda: state["turn"] == turn * threads + me)
                state["turn"] += 1
                condition.notify_all()
        barrier.wait()
    except Exception as error:  # an exception in a thread must fail the program
        failures.append(repr(error))


def receive(expected, received):
    for _ in range(expected):
        received.append(mail.get())


letters = threads * len(range(0, each, 10))
received = []
postman = threading.Thread(target=receive, args=(letters, received))
team = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
for t in [postman] + team:
    t.start()
for t in team + [postman]:
    t.join()

# Waits with a time limit must end at the limit, and not before.
start = time.monotonic()
lock.acquire()
patience = {
    "lock": not lock.acquire(timeout=0.01),
    "semaphore": not threading.Semaphore(0).acquire(timeout=0.01),
    "event": not threading.Event().wait(0.01),
    "nothing to wait for": not lock.acquire(blocking=False),
}
lock.release()
with condition:
    patience["condition"] = not condition.wait(0.01)
try:
    mail.get(timeout=0.01)
    patience["queue"] = False
except queue.Empty:
    patience["queue"] = True
patience["not too early"] = time.monotonic() - start >= 0.05
try:
    threading.Barrier(2).wait(0.01)
    patience["barrier"] = False
except threading.BrokenBarrierError:
    patience["barrier"] = True

# All threads wait for one event, which a timer sets. After that, futures wait for other futures.
opened, passed = threading.Event(), threading.Semaphore(0)
guests = [threading.Thread(target=lambda: (opened.wait(30), passed.release())) for _ in range(threads)]
for t in guests:
    t.start()
timer = threading.Timer(0.01, opened.set)
timer.start()
got_in = sum(passed.acquire(timeout=30) for _ in range(threads))
for t in guests + [timer]:
    t.join()

with concurrent.futures.ThreadPoolExecutor(threads) as pool:
    jobs = min(each, 200)
    squares = sum(f.result(30) for f in concurrent.futures.as_completed([pool.submit(pow, n, 2) for n in range(jobs)]))
    mapped = list(pool.map(lambda n: len(zlib.compress(block)) + n, range(20)))
    # A job that waits for another job occupies a thread of the pool, so the pool needs a second thread.
    chained = pool.submit(lambda: pool.submit(lambda: 41).result(30) + 1).result(30) if threads > 1 else 42

checks = {
    "time limits": all(patience.values()),
    "event": got_in == threads,
    "futures": squares == sum(n * n for n in range(jobs)) and chained == 42,
    "futures in order": mapped == [mapped[0] + n for n in range(20)],
    "exceptions": not failures,
    "counter": state["counter"] == each * threads,
    "nested counter": state["nested"] == each * threads,
    "ring": state["turn"] == ring_rounds * threads,
    "semaphore": not state["crowded"] and state["inside"] == 0,
    "digests": state["digests"] == {hashlib.sha256(block).hexdigest()},
    "queue": sorted(received) == [(t, i) for t in range(threads) for i in range(0, each, 10)],
}
wrong = [name for name, right in checks.items() if not right]
if wrong:
    sys.exit("wrong: " + ", ".join(wrong) + " " + " ".join(failures) + f" {patience}")
print("ok")
