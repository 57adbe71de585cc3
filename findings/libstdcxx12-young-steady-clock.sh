#!/bin/sh
# libstdc++ 12 on glibc 2.36: try_lock_until() of std::shared_timed_mutex with a steady time point before the clock's epoch.
#
# A good guess: a deadline in the past, so the call fails while another thread has the lock. `steady_clock::now() - 1h` is
# such a time point in the first hour after boot, since Linux counts the steady clock from the boot.
# Behaviour: the time point's seconds and nanoseconds are both negative in the timespec, pthread_rwlock_clockwrlock()
# answers EINVAL, and libstdc++, which tests for ETIMEDOUT and EDEADLK only, returns true: "locked".
# With std::timed_mutex, whose try_lock_until() tests for 0, the result is false.
#
# Output seen (Debian 12, libstdc++-12-dev 12.2.0-14+deb12u1, libc6 2.36-9+deb12u14, x86-64, 2026-11-28):
#     shared_timed_mutex, whole seconds: 0
#     shared_timed_mutex, half seconds: 1
#     timed_mutex, half seconds: 0
# Exits with 1 if the output differs. Needs g++ 12 and apt-get's lists.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q download libstdc++-12-dev=12.2.0-14+deb12u1 > /dev/null 2>&1
dpkg -x libstdc++-12-dev_*.deb root

cat > young.cpp <<'CPP'
#include <chrono>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <thread>

using namespace std::chrono_literals;
using time_point = std::chrono::steady_clock::time_point;

template <class Mutex>
void ask(const char* name, time_point deadline) {
  Mutex mutex;
  mutex.lock();
  bool locked = false;
  std::thread([&] { locked = mutex.try_lock_until(deadline); }).join();
  std::printf("%s: %d\n", name, locked);
}

int main() {
  ask<std::shared_timed_mutex>("shared_timed_mutex, whole seconds", time_point(-1h));
  ask<std::shared_timed_mutex>("shared_timed_mutex, half seconds", time_point(-1h - 500ms));
  ask<std::timed_mutex>("timed_mutex, half seconds", time_point(-1h - 500ms));
}
CPP
headers=root/usr/include
g++-12 -std=c++17 -O2 -nostdinc++ -isystem $headers/c++/12 -isystem $headers/$(gcc-12 -print-multiarch)/c++/12 \
  -isystem $headers/c++/12/backward young.cpp -o young -pthread
cat > expected <<'OUT'
shared_timed_mutex, whole seconds: 0
shared_timed_mutex, half seconds: 1
timed_mutex, half seconds: 0
OUT
timeout 20 ./young | tee seen
cmp expected seen
