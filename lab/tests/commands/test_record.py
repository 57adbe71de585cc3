#!/usr/bin/env python3
"""Tests `usher record` on programs with known answers, and against programs that forge what the command reads.

USHER_BIN is the command, USHER_LIB the library. Figures are medians over thousands of calls; a busy machine makes single ones longer."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "cli"))
import recording_file

USHER = os.environ["USHER_BIN"]
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
LIMIT = 300
ROBUST = os.environ["USHER_CONFORMANCE"] + "/c_library_kinds"
OTHER = 65534
APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
FIXED = ["setarch", "--addr-no-randomize"]

# Each mode runs until SECONDS have passed. Times are microseconds: short ones of the monotonic clock, those
# in which other programs may get the CPU of the thread's CPU time.
PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double until;
static double of(clockid_t c) { struct timespec t; clock_gettime(c, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static double now(void) { return of(CLOCK_MONOTONIC); }
static void burn(double us) { for (double end = now() + us * 1e-6; now() < end;) {} }
static void burn_cpu(double us) {  /* the same on a loaded machine; slow to look */
  for (double end = of(CLOCK_THREAD_CPUTIME_ID) + us * 1e-6; of(CLOCK_THREAD_CPUTIME_ID) < end;) {}
}
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, own[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t all;
static sem_t items, rooms;
static int n, over;

static void *sections(void *which) {  /* 20 us in the section, 50 us outside, and a mutex of its own */
  while (now() < until) {
    pthread_mutex_lock(&mutex);
    burn(20);
    pthread_mutex_unlock(&mutex);
    burn(25);
    pthread_mutex_lock(which);
    pthread_mutex_unlock(which);
    burn(25);
  }
  return 0;
}
/* Kills the process for getrusage(), prctl() and readings of a thread's CPU clock. */
static void forbid_questions(void) {
  enum { number = offsetof(struct seccomp_data, nr), first = offsetof(struct seccomp_data, args) };
  static struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number), BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_getrusage, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_prctl, 3, 0), BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_clock_gettime, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first), BPF_JUMP(BPF_JMP | BPF_JEQ, CLOCK_THREAD_CPUTIME_ID, 0, 1),
      BPF_STMT(BPF_RET, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) exit(77);
}
static volatile int is_filtered;
static void *filtered_sections(void *which) { forbid_questions(); is_filtered = 1; return sections(which); }
static void *fast(void *unused) {
  while (now() < until)
    for (int i = 0; i < 100; i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); }
  return unused;
}
static void *consume(void *unused) {  /* 30 us an item */
  prctl(PR_SET_NAME, "consumer");
  for (;;) {
    pthread_mutex_lock(&mutex);
    while (!n && !over) pthread_cond_wait(&filled, &mutex);
    if (!n) break;
    n--;
    pthread_mutex_unlock(&mutex);
    burn(30);
  }
  pthread_mutex_unlock(&mutex);
  return unused;
}
static void *produce(void *unused) {  /* an item every 300 us */
  prctl(PR_SET_NAME, "producer");
  while (now() < until) {
    burn_cpu(300);
    pthread_mutex_lock(&mutex);
    n++;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_lock(&mutex);
  over = 1;
  pthread_cond_broadcast(&filled);
  pthread_mutex_unlock(&mutex);
  return unused;
}
static void *take(void *unused) {
  while (now() < until) { sem_wait(&items); sem_post(&rooms); }
  sem_post(&rooms);
  return unused;
}
static void *give(void *unused) {
  while (now() < until) { sem_wait(&rooms); burn_cpu(100); sem_post(&items); }
  sem_post(&items);
  return unused;
}
static void *read_table(void *unused) {
  while (now() < until) { pthread_rwlock_rdlock(&table); burn(10); pthread_rwlock_unlock(&table); burn(40); }
  return unused;
}
static void *write_table(void *unused) {
  while (now() < until) { pthread_rwlock_wrlock(&table); burn(15); pthread_rwlock_unlock(&table); burn_cpu(200); }
  return unused;
}
static void *sleepy(void *unused) {  /* sleeps 2 ms between its calls */
  while (now() < until) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); usleep(2000); }
  return unused;
}
static void *busy(void *unused) {  /* computes 2 ms between its calls */
  while (now() < until) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); burn_cpu(2000); }
  return unused;
}
static void *meet(void *unused) {  /* as many rounds for both */
  for (int i = 0; i < 400; i++) { burn_cpu(500); pthread_barrier_wait(&all); }
  return unused;
}
static void *wait_long(void *unused) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); return unused; }
static void *deep(void *unused) {
  while (now() < until) {
    for (int i = 0; i < 2; i++) pthread_mutex_lock(&recursive);
    burn(10);
    for (int i = 0; i < 2; i++) pthread_mutex_unlock(&recursive);
    burn(50);
  }
  return unused;
}
static void *forge(void *page) {  /* writes into the file that the observer reads, all the time */
  const char *path = getenv("USHER_STREAM");
  int fd = path ? open(path, O_RDWR) : -1;
  struct stat s;
  if (fd < 0 || fstat(fd, &s)) { puts("no file"); return page; }
  volatile uint64_t *words = mmap(0, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (ftruncate(fd, 0) == 0) puts("truncated");  /* must fail: it is sealed */
  uint64_t x = 88172645463325252u;
  long size = s.st_size / 8, from = page ? 512 : 0;  /* with or without the header */
  while (now() < until) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    words[from + x % (size - from)] = x % 3 ? x : ~(uint64_t)0 >> x % 64;
  }
  return 0;
}
static void run_two(void *(*f)(void *), void *a, void *(*g)(void *), void *b) {
  pthread_t threads[2];
  pthread_create(&threads[0], 0, f, a);
  pthread_create(&threads[1], 0, g, b);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
int main(int argc, char **argv) {
  const char *mode = argv[1];
  until = now() + (argc > 2 ? atof(argv[2]) : 0.5);
  sem_init(&rooms, 0, 1);
  pthread_barrier_init(&all, 0, 2);
  if (!strcmp(mode, "sections")) run_two(sections, &own[0], sections, &own[1]);
  if (!strcmp(mode, "fast")) run_two(fast, 0, fast, 0);
  if (!strcmp(mode, "queue")) run_two(produce, 0, consume, 0);
  if (!strcmp(mode, "semaphores")) run_two(give, 0, take, 0);
  if (!strcmp(mode, "table")) run_two(read_table, 0, write_table, 0);
  if (!strcmp(mode, "idle")) run_two(sleepy, 0, busy, 0);
  if (!strcmp(mode, "barrier")) run_two(meet, 0, meet, 0);
  if (!strcmp(mode, "recursive")) run_two(deep, 0, deep, 0);
  if (!strcmp(mode, "held")) {  /* nobody makes another call */
    pthread_t threads[2];
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, wait_long, 0);
    while (now() < until) usleep(1000);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  }
  if (!strcmp(mode, "forge")) run_two(forge, (void *)1, sections, &own[0]);
  if (!strcmp(mode, "forge-all")) run_two(forge, 0, sections, &own[0]);
  if (!strcmp(mode, "fork")) {
    run_two(sections, &own[0], sections, &own[1]);
    until = now() + 0.4;
    if (fork() == 0) { run_two(sections, &own[0], sections, &own[1]); _exit(0); }
    wait(0);
  }
  if (!strcmp(mode, "exec")) {  /* first a thread of another name, then the program that argv[3] names */
    prctl(PR_SET_NAME, "before");
    while (now() < until - atof(argv[2]) / 2) {
      pthread_mutex_lock(&mutex);
      pthread_mutex_unlock(&mutex);
      usleep(1000);
    }
    if (!strcmp(argv[3], "sleep")) execlp("sleep", "sleep", argv[2], (char *)0);
    execl("/proc/self/exe", argv[0], argv[3], argv[2], (char *)0);
    return 4;
  }
  if (!strcmp(mode, "filtered")) { forbid_questions(); run_two(sections, &own[0], sections, &own[1]); }
  if (!strcmp(mode, "half filtered")) {  /* no recorded call before the filter */
    pthread_t thread;
    pthread_create(&thread, 0, filtered_sections, &own[0]);
    while (!is_filtered) usleep(1000);
    sections(&own[1]);
    pthread_join(thread, 0);
  }
  if (!strcmp(mode, "cancel")) {
    pthread_t t;
    pthread_create(&t, 0, take, 0);
    usleep(200000);
    pthread_cancel(t);
    void *result;
    pthread_join(t, &result);
    if (result != PTHREAD_CANCELED) return 3;
  }
  if (!strcmp(mode, "status")) return 7;
  if (!strcmp(mode, "sleep")) pause();
  return 0;
}
"""


def all_events(r, *what, thread=None):
    return [e for w in r.windows for s in w.streams for e in s.events if e.what in what and thread in (None, s.thread)]


def can_be_apart():
    try:
        return subprocess.run([*APART, "true"], capture_output=True, timeout=LIMIT).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class Record(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="usher-record-")
        cls.program = os.path.join(cls.folder.name, "program")
        source = cls.program + ".c"
        with open(source, "w") as f:
            f.write(PROGRAM)
        subprocess.run([CC, "-O2", "-pthread", "-o", cls.program, source], check=True, timeout=LIMIT)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def start(self, *words, options=(), status=0, file=None, **more):
        file = file or os.path.join(self.folder.name, "recording")
        done = subprocess.run([USHER, "record", "-o", file, *options, "--", self.program, *words], text=True, capture_output=True,
                              timeout=LIMIT, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        return done, file

    def record(self, mode, options=("--every", "120"), enough=lambda r: True):
        """A recording of the mode that has enough calls: on a busy machine the program must run for longer."""
        for seconds in 0.5, 2, 8, 30:
            r = recording_file.read(self.start(mode, str(seconds), options=options)[1])
            if enough(r):
                break
        return r

    def start_of(self, command):
        file = os.path.join(self.folder.name, "recording")
        done = subprocess.run([USHER, "record", "-o", file, "--", *command], text=True, capture_output=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def record_of(self, command_for, enough, options=()):
        """As record(), of a command that is made for a number of seconds."""
        for seconds in "1", "4", "16", "40":
            file = os.path.join(self.folder.name, "recording")
            done = subprocess.run([USHER, "record", "-o", file, "--every", "120", *options, "--", *command_for(seconds)], text=True,
                                  capture_output=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, done.stderr)
            r = recording_file.read(file)
            if enough(r):
                break
        return r, done.stderr

    def check_times(self, r):
        """The parts of each stream's time are no more than its window, and little is missing but for calls that returned at once."""
        for w in r.windows:
            for s in w.streams:
                parts = s.begins + sum(e.work + e.away + e.wait for e in s.events) + (sum(s.unfinished[3:]) if s.unfinished else 0)
                self.assertLessEqual(parts, w.length * 1.001 + 5000)

    def test_sections(self):
        r = self.record("sections", enough=lambda r: len(r.windows) >= 2 and len(all_events(r, "unlock")) > 200)
        self.check_times(r)
        self.assertGreaterEqual(len(r.windows), 2)
        shared = [o for o in r.objects if o.kind != "thread"]
        self.assertEqual([o.kind for o in shared], ["mutex"])  # the mutexes of one thread are dropped
        self.assertEqual({o.name for o in r.objects}, {""})
        hold, gap = (median(e.work for e in all_events(r, what)) for what in ("unlock", "lock"))
        self.assertAlmostEqual(hold, 20_000, delta=1_000)
        self.assertAlmostEqual(gap, 50_000, delta=2_500)
        self.assertGreater(r.call_ns, 0)
        self.assertEqual(r.lock, "pthread")
        self.assertEqual(len({r.roles[s.thread] for w in r.windows for s in w.streams if len(s.events) > 20}), 1)
        self.assertTrue(any(s.unfinished and s.unfinished.what == "join" for w in r.windows for s in w.streams))
        # Locks and unlocks alternate, but for what a window cuts.
        for w in r.windows:
            for s in w.streams:
                kinds = [e.what for e in s.events if e.what in ("lock", "unlock")]
                self.assertTrue(all(a != b for a, b in zip(kinds, kinds[1:])))

    def test_under_another_lock(self):
        r = self.record("sections", options=("--every", "120", "--lock", "steady"), enough=lambda r: len(all_events(r, "unlock")) > 200)
        self.assertEqual(r.lock, "steady")
        self.assertAlmostEqual(median(e.work for e in all_events(r, "unlock")), 20_000, delta=1_000)

    def test_condition_variable(self):
        for lock in "pthread", "steady":
            r = self.record("queue", options=("--every", "120", "--lock", lock, "--threads-are", "maker=^prod", "--threads-are", "eater=cons"),
                            enough=lambda r: len(all_events(r, "signal")) > 50 and len(all_events(r, "wait")) > 20)
            self.check_times(r)
            self.assertEqual(sorted(o.kind for o in r.objects if o.kind != "thread"), ["condition", "mutex"])
            makers, eaters = ([t for t, role in r.roles.items() if role == which] for which in ("maker", "eater"))
            self.assertEqual((len(makers), len(eaters)), (1, 1))
            signals, waits = all_events(r, "signal"), all_events(r, "wait")
            self.assertGreater(len(signals), 50)
            # Beside other programs the eater may be late, and then finds several items without a wait.
            self.assertGreater(len(waits), 20)
            self.assertLessEqual(len(waits), len(signals) * 1.2)
            self.assertAlmostEqual(median(e.work for e in all_events(r, "lock", thread=makers[0])), 300_000, delta=20_000)
            self.assertAlmostEqual(median(e.work for e in all_events(r, "lock", thread=eaters[0])), 30_000, delta=2_000)
            self.assertGreater(median(e.wait for e in waits), 150_000)
            kinds = {(r.objects[e.object].kind, r.objects[e.other].kind) for e in waits}
            self.assertEqual(kinds, {("condition", "mutex")})

    def test_semaphores(self):
        r = self.record("semaphores", enough=lambda r: len(all_events(r, "semaphore_wait")) > 100)
        self.check_times(r)
        self.assertEqual([o.kind for o in r.objects if o.kind != "thread"], ["semaphore"] * 2)
        takes, posts = all_events(r, "semaphore_wait"), all_events(r, "semaphore_post")
        self.assertGreater(len(takes), 100)
        self.assertAlmostEqual(len(takes), len(posts), delta=10)
        made = Counter(e.object for e in posts if e.work > 50_000)
        self.assertEqual(len(made), 1)
        self.assertAlmostEqual(median(e.work for e in posts if e.work > 50_000), 100_000, delta=5_000)

    def test_read_write_lock(self):
        r = self.record("table", enough=lambda r: all(len(all_events(r, what)) > 50 for what in ("read_lock", "write_lock")))
        self.check_times(r)
        self.assertEqual([o.kind for o in r.objects if o.kind != "thread"], ["read_write_lock"])
        for what, hold, gap in ("read_lock", 10_000, 40_000), ("write_lock", 15_000, 200_000):
            thread = next(s.thread for w in r.windows for s in w.streams if any(e.what == what for e in s.events))
            self.assertAlmostEqual(median(e.work for e in all_events(r, "read_write_unlock", thread=thread)), hold, delta=1_000)
            self.assertAlmostEqual(median(e.work for e in all_events(r, what)), gap, delta=gap / 20)

    def test_sleeping_and_computing(self):
        def of_threads(r):
            """The locks of each thread, but for each window's first, whose work and sleep began before it."""
            found = {}
            for s in (s for w in r.windows for s in w.streams):
                found.setdefault(s.thread, []).extend(e for e in s.events[1:] if e.what == "lock")
            return [events for events in found.values() if len(events) >= 5]

        r = self.record("idle", options=("--every", "400", "--length", "300"), enough=lambda r: len(of_threads(r)) == 2)
        self.check_times(r)
        found = set()
        for between in of_threads(r):
            work, away = median(e.work for e in between), median(e.away for e in between)
            if away > 1_500_000:
                found.add("sleeps")
                self.assertLess(work, 200_000)
            else:
                found.add("computes")
                self.assertAlmostEqual(work, 2_000_000, delta=100_000)
        self.assertEqual(found, {"sleeps", "computes"})

    def test_barrier(self):
        r = self.record("barrier", options=("--every", "120", "--length", "100"))  # makes a number of rounds, however long they take
        self.assertEqual([o.kind for o in r.objects if o.kind != "thread"], ["barrier"])
        rounds = all_events(r, "barrier_wait")
        self.assertGreater(len(rounds), 40)
        self.assertAlmostEqual(median(e.work for e in rounds), 500_000, delta=25_000)

    def test_recursive(self):
        r = self.record("recursive")
        self.assertEqual([o.kind for o in r.objects if o.kind != "thread"], ["recursive_mutex"])
        self.assertAlmostEqual(len(all_events(r, "lock")), len(all_events(r, "unlock")), delta=2 * len(r.windows) * 2)

    def test_a_wait_longer_than_the_window(self):
        """Both threads began to wait for the mutex before the first window."""
        for lock in "pthread", "steady":
            r = self.record("held", options=("--every", "120", "--lock", lock))
            self.assertEqual([o.kind for o in r.objects if o.kind != "thread"], ["mutex"])
            self.assertGreaterEqual(len(r.windows), 2)
            whole = [s.unfinished for w in r.windows for s in w.streams if s.unfinished and s.unfinished.wait == w.length]
            self.assertEqual({e.what for e in whole}, {"lock"})
            self.assertGreaterEqual(len(whole), 2)
            self.check_times(r)

    def test_room(self):
        """A window ends early for all threads when its room is used."""
        done, file = self.start("fast", options=("--every", "200", "--length", "150", "--events", "1000"))
        r = recording_file.read(file)
        cut = [w for w in r.windows if w.lost]
        self.assertTrue(cut)
        self.assertIn("ended early", done.stderr)
        self.assertTrue(all(w.length < 150_000_000 for w in cut))
        self.assertTrue(all(sum(len(s.events) for s in w.streams) < 20_000 for w in r.windows))
        self.check_times(r)

    def test_names(self):
        r = self.record("queue", options=("--every", "120", "--names"))
        self.assertTrue({"producer", "consumer"} <= set(r.roles.values()), r.roles)
        self.assertTrue(any(o.name.startswith("program+0x") for o in r.objects), r.objects)

    def test_fork_and_cancellation(self):
        r = self.record("fork")
        self.assertEqual(len([o for o in r.objects if o.kind == "mutex"]), 2)  # that of the child is another one
        self.record("cancel")

    def test_exec(self):
        """A process that executes another program has the same ids, but its threads have ended."""
        ways = [[]]
        if subprocess.run([*FIXED, "true"], capture_output=True, timeout=LIMIT).returncode == 0:
            ways.append(FIXED)  # the new program has its stack and mappings where the old one had them
        for way in ways:
            with self.subTest(way):
                def parts(r):
                    """The windows with the thread of the first program, and those with calls of the second one."""
                    old = [i for i, w in enumerate(r.windows) if any(r.roles[s.thread] == "old" for s in w.streams)]
                    new = [i for i, w in enumerate(r.windows)
                           if any(e.what == "unlock" for s in w.streams if r.roles[s.thread] != "old" for e in s.events)]
                    return old, new

                r, _ = self.record_of(lambda seconds: [*way, self.program, "exec", seconds, "sections"],
                                      lambda r: parts(r)[0] and len(parts(r)[1]) >= 3, ("--threads-are", "old=^before"))
                old, new = parts(r)
                self.assertTrue(old and len(new) >= 3, (old, new))
                self.assertLessEqual(len(set(old) & set(new)), 1, (old, new))  # that of the exec

    def test_exec_of_a_program_without_locks(self):
        r, _ = self.record_of(lambda seconds: [self.program, "exec", seconds, "sleep"],
                              lambda r: len(r.windows) >= 5 and r.windows[0].streams and not r.windows[-2].streams)
        self.assertTrue(r.windows[0].streams)
        self.assertFalse(r.windows[-2].streams)  # that before the end

    @unittest.skipUnless(can_be_apart(), "no right to make a PID namespace")
    def test_another_pid_namespace(self):
        """The program's ids belong to other threads in the namespace of the command."""
        for way in APART, APART[:-1]:  # with and without a /proc of its own
            with self.subTest(way):
                r, said = self.record_of(lambda seconds: [*way, self.program, "sections", seconds],
                                         lambda r: len(r.windows) >= 3 and len(all_events(r, "unlock")) > 200)
                self.check_times(r)
                self.assertGreater(len(all_events(r, "unlock")), 200)
                self.assertNotIn("not known", said)
                self.assertAlmostEqual(median(e.work for e in all_events(r, "unlock")), 20_000, delta=1_000)
        # A sleep is told from work by the CPU times at a window's edges, too.
        r, _ = self.record_of(lambda seconds: [*APART, self.program, "idle", seconds], lambda r: len(all_events(r, "lock")) > 40)
        self.assertGreater(sum(e.away > 1_500_000 for e in all_events(r, "lock")), 10)

    @unittest.skipUnless(can_be_apart(), "no right to make a PID namespace")
    def test_the_same_ids_in_two_pid_namespaces(self):
        def counts(r):
            return Counter(s.thread for w in r.windows for s in w.streams for e in s.events if e.what == "unlock")

        one = " ".join([*APART, self.program, "sections"])
        r, _ = self.record_of(lambda seconds: ["sh", "-c", f"{one} {seconds} & {one} {seconds}; wait"],
                              lambda r: sum(n > 20 for n in counts(r).values()) == 4)
        self.assertEqual(sum(n > 20 for n in counts(r).values()), 4)
        self.assertEqual(len([o for o in r.objects if o.kind == "mutex"]), 2)

    @unittest.skipUnless(can_be_apart(), "no right to make a PID namespace")
    def test_a_file_that_cannot_be_opened(self):
        """Only the first program has opened it: the others have neither its path nor its descriptor."""
        closed = 'for f in /proc/self/fd/*; do n=${f##*/}; [ $n -gt 2 ] && eval "exec $n<&-"; done; exec "$@"'
        done = self.start_of([*APART, "bash", "-c", closed, "bash", self.program, "sections", "0.2"])
        self.assertIn("no call was recorded", done.stderr)

    def test_system_call_filters(self):
        """The filter kills the process for the calls by which threads ask for their names and CPU times."""
        for mode in "filtered", "half filtered":
            with self.subTest(mode):
                r, said = self.record_of(lambda seconds: [self.program, mode, seconds],
                                         lambda r: len(r.windows) >= 3 and len(all_events(r, "unlock")) > 200)
                self.assertGreater(len(all_events(r, "unlock")), 200)
                self.assertIn("CPU clocks of", said)
                self.assertAlmostEqual(median(e.work for e in all_events(r, "unlock")), 20_000, delta=1_000)

    def test_robust_mutexes(self):
        for options in ("--every", "100000"), ("--every", "20", "--length", "15"):
            done = subprocess.run([USHER, "record", "-o", os.path.join(self.folder.name, "robust"), *options, "--", ROBUST, "--only", "owner_dies"],
                                  capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_status_and_end(self):
        self.start("status", status=7)
        done, file = self.start("sleep", options=("--duration", "0.3"))
        self.assertEqual(recording_file.read(file).windows[0].lost, 0)
        done = subprocess.run([USHER, "record", "-o", file, "--", "/nowhere/none"], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 127)

    def test_refusals(self):
        for words, said in ((["record"], "which command?"), (["record", "--threads-are", "x", "--", "true"], "is not ROLE=REGEX"),
                            (["record", "--threads-are", "x=(", "--", "true"], "--threads-are"),
                            (["record", "--length", "600", "--", "true"], "overlap"),
                            (["record", "-o", "/nowhere/file", "--", "true"], "cannot write")):
            done = subprocess.run([USHER, *words], capture_output=True, text=True, timeout=LIMIT)
            self.assertIn(done.returncode, (2, 125))
            self.assertIn(said, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    # ---- attackers -------------------------------------------------------------------------------------------

    def test_a_program_that_forges_the_file(self):
        for mode in "forge", "forge-all":
            with self.subTest(mode):
                file = os.path.join(self.folder.name, mode)
                done = subprocess.run([USHER, "record", "-o", file, "--every", "60", "--", self.program, mode, "1"], text=True,
                                      capture_output=True, timeout=LIMIT)
                # The program may have harmed itself; the command has not crashed, and what it writes can be read.
                self.assertIn(done.returncode, (0, 125, 128 + signal.SIGSEGV, 128 + signal.SIGBUS), done.stderr)
                self.assertNotIn("truncated", done.stdout)
                if os.path.exists(file):
                    recording_file.read(file)

    def test_a_stale_variable(self):
        """USHER_STREAM may lead to any file, and to a device or pipe that would block."""
        victim = os.path.join(self.folder.name, "victim")
        with open(victim, "w") as f:
            f.write("x" * 100_000)
        fifo = os.path.join(self.folder.name, "fifo")
        os.mkfifo(fifo)
        library = os.environ["USHER_LIB"]
        for path in victim, fifo, "/dev/zero", "/nowhere", "/proc/self/fd/0":
            subprocess.run([self.program, "sections", "0.05"], check=True, timeout=LIMIT, stdin=subprocess.DEVNULL,
                           env={**os.environ, "LD_PRELOAD": library, "USHER_STREAM": path, "USHER_LOCK": "pthread"})
        with open(victim) as f:
            self.assertEqual(f.read(), "x" * 100_000)

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_a_planted_link(self):
        """Another user plants a link at the output's name, in a folder that all may write."""
        folder = os.path.join(self.folder.name, "shared")
        os.mkdir(folder)
        os.chmod(folder, 0o1777)
        os.chmod(self.folder.name, 0o755)
        precious = os.path.join(self.folder.name, "precious")
        with open(precious, "w") as f:
            f.write("precious")
        link = os.path.join(folder, "recording")
        subprocess.run([sys.executable, "-c", f"import os; os.setgid({OTHER}); os.setuid({OTHER}); os.symlink({precious!r}, {link!r})"],
                       check=True, timeout=LIMIT)
        self.start("status", status=7, file=link)
        with open(precious) as f:
            self.assertEqual(f.read(), "precious")


if __name__ == "__main__":
    unittest.main()
