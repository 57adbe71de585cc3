"""Python threads under contention. A threading.Lock is a semaphore and the interpreter's own lock a mutex with a condition
variable, so every switch of threads here passes through both. Arguments: threads, operations in all. Prints "ok"."""

import hashlib
import queue
import sys
import threading
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
                    # These let go of the interpreter's lock while they compute.
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
    except Exception as error:  # a thread's exception must fail the program
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

checks = {
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
    sys.exit("wrong: " + ", ".join(wrong) + " " + " ".join(failures))
print("ok")
