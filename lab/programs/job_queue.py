"""Python threads that share a queue of jobs. A thread takes a job, works on it without the interpreter's lock, counts it
under a lock, and puts it back. A threading.Lock is a semaphore, the interpreter's own lock a mutex and a condition
variable, and a queue two conditions over one lock. Arguments: threads, seconds. The jobs are verified."""

import hashlib
import queue
import sys
import threading
import time

if len(sys.argv) != 3:
    sys.exit("usage: job_queue.py THREADS SECONDS")
threads, seconds = int(sys.argv[1]), float(sys.argv[2])
jobs, lock, barrier = queue.Queue(), threading.Lock(), threading.Barrier(threads + 1)
block = bytes(range(256)) * 16  # 4 KiB: enough for hashlib to release the interpreter's lock
expected = hashlib.sha256(block).digest()
done = {number: 0 for number in range(threads)}  # indexed by job
total = 0
wrong = []
until = 0.0


def work():
    global total
    barrier.wait()  # all threads have begun
    barrier.wait()  # and read the end of the run
    mine = 0
    while time.monotonic() < until:
        job = jobs.get()
        if hashlib.sha256(block).digest() != expected:
            wrong.append("a digest")
        done[job] += 1  # no other thread has this job
        with lock:
            total += 1
        mine += 1
        jobs.put(job)
    counts.append(mine)


counts = []
for number in range(threads):
    jobs.put(number)
team = [threading.Thread(target=work) for _ in range(threads)]
for t in team:
    t.start()
barrier.wait()
start = time.monotonic()
until = start + seconds
barrier.wait()
for t in team:
    t.join()
took = time.monotonic() - start
if wrong or len(counts) != threads or not sum(counts) == sum(done.values()) == total or jobs.qsize() != threads:
    sys.exit(f"wrong: {wrong} {sum(counts)} {sum(done.values())} {total} {jobs.qsize()}")
print(f"throughput: {total / took:.0f} jobs/s")
