"""Python processes that share semaphores, and forks while other threads run. multiprocessing's locks are named
semaphores: the C library makes them, and their calls pass through the functions that libusher.so replaces.
multiprocessing's queues have a thread with a condition variable in each process. Arguments: number of threads, number
of operations in all. Prints "ok".
"""

import concurrent.futures
import multiprocessing
import os
import sys
import threading

threads, operations = int(sys.argv[1]), int(sys.argv[2])
processes = max(2, min(4, threads))
each = operations // processes
LIMIT = 60  # seconds, for steps that must take almost no time


def work(me, lock, semaphore, counter, inside, crowded, barrier, mail, condition, turn):
    # Threads of this process take the same locks as other processes do.
    def add(count):
        for _ in range(count):
            with lock:
                counter.value += 1

    barrier.wait(LIMIT)
    team = [threading.Thread(target=add, args=(each // 2,)) for _ in range(2)]
    for t in team:
        t.start()
    for i in range(each // 10):
        with semaphore:
            with inside.get_lock():
                inside.value += 1
                if inside.value > 2:
                    crowded.value = 1
            with inside.get_lock():
                inside.value -= 1
        mail.put((me, i))
    for t in team:
        t.join()
    for round_number in range(5):
        with condition:
            if not condition.wait_for(lambda: turn.value == round_number * processes + me, LIMIT):
                os._exit(3)
            turn.value += 1
            condition.notify_all()


def square(n):
    return n * n


def fork_among_threads(number):
    """Forks children while the threads of this process hold locks and wait for locks. Each child makes threads and a
    child of its own."""
    lock, condition, over = threading.Lock(), threading.Condition(), threading.Event()
    served = [0]

    def bustle():
        while not over.is_set():
            with lock:
                served[0] += 1
            with condition:
                condition.notify()
                condition.wait(0.001)

    def child(depth):
        fresh_lock, there, total = threading.Lock(), threading.Semaphore(0), [0]

        def add():
            for _ in range(20):
                with fresh_lock:
                    total[0] += 1
            there.release()

        team = [threading.Thread(target=add) for _ in range(3)]
        for t in team:
            t.start()
        status = 0
        if depth == 0:
            pid = os.fork()
            if pid == 0:
                child(1)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        arrived = all(there.acquire(timeout=LIMIT) for _ in team)
        for t in team:
            t.join()
        os._exit(0 if arrived and total[0] == 60 and status == 0 else 1)

    team = [threading.Thread(target=bustle) for _ in range(4)]
    for t in team:
        t.start()
    statuses = []
    for _ in range(number):
        with lock:  # the child has no other thread
            pid = os.fork()
            if pid == 0:
                lock.release()
                with lock:
                    pass
                child(0)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    over.set()
    for t in team:
        t.join()
    return statuses == [0] * number and served[0] > 0


def main():
    context = multiprocessing.get_context("fork")
    lock, semaphore, condition = context.Lock(), context.BoundedSemaphore(2), context.Condition()
    counter, turn = context.Value("q", 0, lock=False), context.Value("i", 0, lock=False)
    inside, crowded = context.Value("i", 0), context.Value("i", 0)
    barrier, mail = context.Barrier(processes), context.Queue(8)
    shared = (lock, semaphore, counter, inside, crowded, barrier, mail, condition, turn)
    team = [context.Process(target=work, args=(n,) + shared) for n in range(processes)]
    for p in team:
        p.start()
    letters = [mail.get(timeout=LIMIT) for _ in range(processes * (each // 10))]
    for p in team:
        p.join(LIMIT)

    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        squares = list(pool.map(square, range(50), chunksize=5))
    with context.Pool(processes) as pool:
        pooled = pool.map(square, range(50))
    # A spawned process opens the semaphores by their names; a forked one inherits them.
    afresh = multiprocessing.get_context("spawn").Pool(1)
    spawned = afresh.map(square, range(5))
    afresh.close()
    afresh.join()

    checks = {
        "exit codes": [p.exitcode for p in team] == [0] * processes,
        "counter": counter.value == processes * (each // 2) * 2,
        "semaphore": crowded.value == 0 and inside.value == 0,
        "queue": sorted(letters) == [(p, i) for p in range(processes) for i in range(each // 10)],
        "order in the queue": all([i for p, i in letters if p == n] == list(range(each // 10)) for n in range(processes)),
        "ring": turn.value == 5 * processes,
        "time limit": not context.Semaphore(0).acquire(timeout=0.01),
        "pools": squares == pooled == [n * n for n in range(50)] and spawned == [n * n for n in range(5)],
        "forks among threads": fork_among_threads(5),
    }
    wrong = [name for name, right in checks.items() if not right]
    if wrong:
        sys.exit("wrong: " + ", ".join(wrong))
    print("ok")


if __name__ == "__main__":
    main()
