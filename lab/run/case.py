"""The programs that the laboratory runs: the data of a program, and the list of the real ones."""

import dataclasses
import os
import pwd
import shlex
from dataclasses import dataclass, field

from harness import die


@dataclass(eq=False)
class Case:
    """A program and its commands. Placeholders in the texts: {threads} and {seconds} are the requested values; {count} is the total work
    that takes about that long; {each} is a thread's part of that work; {clients} is the number of clients that redis needs for its
    threads; {user} is the user of this process. at() fills them in."""

    name: str
    title: str
    shows: str
    command: str
    metric: str                                    # pattern whose group is the figure; empty: the figure is the seconds of the run
    unit: str
    lower: bool = False
    needs: list = field(default_factory=list)      # (program or absolute path, package)
    built: tuple = ()                              # (a program of the build, package of the library that it needs)
    libraries: list = field(default_factory=list)  # (library, package)
    probe: tuple = ()                              # (shell command that must succeed, the problem if it fails, package)
    environment: dict = field(default_factory=dict)
    prepare: list = field(default_factory=list)    # shell commands, run once for the case
    before: str = ""                               # shell commands, run before each run
    ready: str = ""                                # shell command that succeeds when a server accepts connections
    until: str = ""                                # shell command that loads a server, and prints the figure
    count: object = 0                              # work for a run of one second, or a function of the threads that returns it

    def values(self, threads, seconds):
        count = self.count(threads) if callable(self.count) else self.count
        return {"threads": threads, "seconds": seconds, "count": count * seconds,
                "each": max(1, count * seconds // threads), "clients": 4 * threads + 16,
                "user": pwd.getpwuid(os.geteuid()).pw_name}

    def at(self, threads, seconds):
        """Returns the case with its texts filled in."""
        v = self.values(threads, seconds)
        texts = {name: getattr(self, name).format(**v) for name in ("command", "before", "ready", "until")}
        return dataclasses.replace(self, **texts, prepare=[text.format(**v) for text in self.prepare])

    def words(self):
        return shlex.split(self.command)

    def line(self, *prefix):
        """Returns the command as a shell line, after the words of `prefix`."""
        return " ".join([f"{k}={shlex.quote(v)}" for k, v in self.environment.items()] +
                        [shlex.quote(w) for w in [*prefix, *self.words()]])

    def packages(self):
        return [package for _, package in self.needs + ([self.built] if self.built else []) + self.libraries if package]


def chosen(cases, only):
    """Returns the cases whose names are in the comma-separated list; all cases if the list is empty."""
    known = {case.name: case for case in cases}
    names = [name for name in (only or "").split(",") if name]
    for name in names:
        if name not in known:
            die(f"unknown case '{name}': {', '.join(known)}")
    return [case for case in cases if not only or case.name in names]


# The options of the TWA paper (extended version, figure 10), with 100,000 keys as in its LevelDB test.
ROCKSDB = ("--num=100000 --cache_size=100000 --cache_numshardbits=0 --compression_type=none --mmap_read=true "
           "--mmap_write=true --sync=false --verify_checksum=false --seed=1")
# In the measured part the server needs no disk. It needs no login, and can be reached only through the scratch folder.
MARIADB = ("--no-defaults --user={user} --skip-networking --skip-grant-tables --innodb-log-file-size=16M "
           "--innodb-flush-log-at-trx-commit=0")
PERL_THREADS = ("perl -Mthreads -Mthreads::shared -MTime::HiRes -e 1", "this perl has no threads", "perl")
OLTP = "sysbench oltp_read_write --mysql-user=root --table-size=10000"

# The programs on which `usher try` is run.
TRIED = [
    Case("sysbench-threads", "sysbench threads",
         "one lock, held while the thread gives its CPU away",
         "sysbench threads --threads={threads} --thread-locks=1 --thread-yields=10 --time={seconds} run",
         "total number of events: +([0-9]+)", "events",
         needs=[("sysbench", "sysbench")]),
    Case("sysbench-mutex", "sysbench mutex",
         "a short critical section, seldom contended",
         "sysbench mutex --threads={threads} --mutex-num=1 --mutex-locks={each} run",
         "total time: +([0-9.]+)s", "s", lower=True, count=200000,
         needs=[("sysbench", "sysbench")]),
    Case("sqlite", "SQLite",
         "one connection for all threads: a recursive mutex around every call",
         "sqlite_shared --threads {threads} --seconds {seconds} --check",
         "throughput: ([0-9]+)", "operations/s",
         built=("sqlite_shared", "libsqlite3-dev")),
    Case("leveldb", "LevelDB",
         "readwhilewriting: one mutex of the database, taken twice by every read",
         "leveldb_driver --threads {threads} --seconds {seconds} --loads readwhilewriting",
         "readwhilewriting: throughput: ([0-9]+)", "reads/s",
         built=("leveldb_driver", "libleveldb-dev")),
    Case("rocksdb", "RocksDB",
         "readwhilewriting with the TWA paper's options: a block cache in one part, under one mutex",
         f"db_bench --benchmarks=readwhilewriting --db=rocksdb --use_existing_db=true --threads={{threads}} "
         f"--duration={{seconds}} {ROCKSDB}",
         "^readwhilewriting .* ([0-9]+) ops/sec", "reads/s",
         needs=[("db_bench", "rocksdb-tools")],
         prepare=[f"db_bench --benchmarks=fillseq --db=filled {ROCKSDB}"],
         before="rm -rf rocksdb && cp -r filled rocksdb"),
    Case("kyotocabinet", "Kyoto Cabinet",
         "a cache in memory: read-write locks, which stay the C library's, and a mutex for each of 16 parts",
         "kccachetest wicked -th {threads} -capcnt 100000 {each}",
         "^time: ([0-9.]+)", "s", lower=True, count=1000000,
         needs=[("kccachetest", "kyotocabinet-utils")],
         environment={"KCRNDSEED": "1"}),
    Case("perl", "perl",
         "RandArray: perl's locks wait on condition variables",
         "perl lab/programs/rand_array.pl {threads} {seconds}",
         "throughput: ([0-9]+)", "rounds/s",
         needs=[("perl", "perl")], probe=PERL_THREADS),
    Case("perl-lifo", "perl, mostly last in, first out",
         "the same, but a thread that waits for a condition goes to the head of the list",
         "perl lab/programs/rand_array.pl {threads} {seconds}",
         "throughput: ([0-9]+)", "rounds/s",
         needs=[("perl", "perl")], probe=PERL_THREADS,
         environment={"USHER_COND_APPEND": "0.001"}),
    Case("python", "Python",
         "threads that share a queue: locks that are semaphores, and the interpreter's own lock",
         "python3 lab/programs/job_queue.py {threads} {seconds}",
         "throughput: ([0-9]+)", "jobs/s",
         needs=[("python3", "python3")]),
    Case("jemalloc", "jemalloc",
         "mmicro: one arena without a cache a thread, so one mutex for every malloc and free",
         "mmicro --threads {threads} --seconds {seconds}",
         "throughput: ([0-9]+)", "blocks/s",
         built=("mmicro", ""), libraries=[("libjemalloc.so.2", "libjemalloc2")],
         environment={"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": "narenas:1,tcache:false"}),
    Case("mariadb", "MariaDB",
         "a server with a thread a connection, under sysbench oltp_read_write",
         f"mariadbd {MARIADB} --datadir=./mariadb --socket=mysqld.sock",
         r"transactions: .*\(([0-9.]+) per sec", "transactions/s",
         needs=[("mariadbd", "mariadb-server-core"), ("sysbench", "sysbench")],
         prepare=["mkdir filled",
                  f"echo 'CREATE DATABASE sbtest;' | mariadbd {MARIADB} --datadir=./filled --bootstrap",
                  f"mariadbd {MARIADB} --datadir=./filled --socket=mysqld.sock &\n"
                  "until test -S filled/mysqld.sock; do sleep 0.1; done\n"
                  f"{OLTP} --mysql-socket=filled/mysqld.sock prepare && kill $! && wait $!"],
         before="rm -rf mariadb && cp -r filled mariadb",
         ready="test -S mariadb/mysqld.sock",
         until=f"{OLTP} --mysql-socket=mariadb/mysqld.sock --threads={{threads}} --time={{seconds}} run"),
    Case("redis", "redis",
         "threads for input and output that spin, and use mutexes only to be stopped",
         "redis-server --port 0 --unixsocket redis.sock --save '' --io-threads {threads} --io-threads-do-reads yes",
         '"SET","([0-9.]+)"', "requests/s",
         needs=[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools"), ("redis-cli", "redis-tools")],
         ready="redis-cli -s redis.sock ping",
         until="redis-benchmark -s redis.sock --csv -t set -c {clients} -n {count}",
         # The number of requests falls with the number of threads: redis' threads spin, and with more threads than CPUs, redis answers only
         # some hundred requests a second.
         count=lambda threads: max(250, 4 * threads + 16, 16000 // threads**2)),
]

# Further programs, for `usher stat` and the arena.
MORE = [
    Case("memcached", "memcached",
         "threads that share a table of items, under many small mutexes",
         "memcached -u {user} -s memcached.sock -t {threads} -m 64",
         "Time to set +[0-9]+ keys by +[0-9]+ threads: +([0-9.]+)", "s", lower=True,
         needs=[("memcached", "memcached"), ("memcslap", "libmemcached-tools")],
         before="rm -f memcached.sock",
         ready="test -S memcached.sock",
         until="memcslap --servers=$PWD/memcached.sock --concurrency={clients} --execute-number={count} --test=set",
         count=lambda threads: 50000 // (4 * threads + 16)),
    Case("node", "Node.js",
         "workers that wait for each other by Atomics.wait, messages between them, and libuv's pool of threads",
         "node tools/compat/contention.mjs {threads} {count}",
         "", "s", lower=True, count=2500000,
         needs=[("node", "nodejs")]),
    Case("java", "Java",
         "monitors, locks with conditions, executors, queues: the virtual machine parks threads on mutexes",
         "java -Xmx256m -cp classes Contention {threads} {count}",
         "", "s", lower=True, count=100000,
         needs=[("java", "default-jdk-headless"), ("javac", "default-jdk-headless")],
         prepare=["javac -d classes tools/compat/Contention.java"]),
]

# Programs with read-write locks, for the arena.
READERS = [
    Case("openssl-fetch", "OpenSSL, fetches of a digest",
         "a store of algorithms under a read-write lock, which each fetch takes",
         "openssl_driver --threads {threads} --seconds {seconds} --what fetch",
         "fetch: throughput: ([0-9]+)", "fetches/s",
         built=("openssl_driver", "libssl-dev")),
    Case("openssl-handshake", "OpenSSL, TLS handshakes",
         "TLS 1.3 over memory: arithmetic, and fetches",
         "openssl_driver --threads {threads} --seconds {seconds} --what handshake",
         "handshake: throughput: ([0-9]+)", "handshakes/s",
         built=("openssl_driver", "libssl-dev")),
    Case("shared-cache", "a cache under a std::shared_mutex",
         "readers look up; one in a hundred misses, and writes",
         "shared_cache --threads {threads} --seconds {seconds}",
         "throughput: ([0-9]+)", "operations/s",
         built=("shared_cache", "")),
]
