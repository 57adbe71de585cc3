#include "planted.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include "asleep.hpp"

namespace planted {

int argument = 0;
const char* program = nullptr;

namespace {
tally* tallies = nullptr;
char text[16384];
std::size_t used = 0;

[[gnu::format(printf, 1, 2)]] void add(const char* format, ...) {
  std::va_list what;
  va_start(what, format);
  used += static_cast<std::size_t>(std::vsnprintf(text + used, sizeof text - used, format, what));
  va_end(what);
}

void raise_to(std::atomic<std::uint64_t>& most, std::uint64_t value) {
  for (std::uint64_t old = most; old < value && !most.compare_exchange_weak(old, value);) {
  }
}
}  // namespace

std::int64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

tally::tally(const char* name) : name_(name), next_(tallies) {
  tallies = this;
}

void tally::took(std::int64_t called, std::int64_t returned) {
  ++acquisitions_;
  waited(called, returned);
}

void tally::waited(std::int64_t called, std::int64_t returned) {
  const auto time = static_cast<std::uint64_t>(returned - called);
  waited_ += time;
  raise_to(longest_, time);
}

void tally::held(std::int64_t from, std::int64_t to) {
  const auto time = static_cast<std::uint64_t>(to - from);
  held_ += time;
  raise_to(longest_hold_, time);
}

void tally::say(const char* key, std::uint64_t value) {
  facts_[said_++] = {key, value};
}

void print() {
  used = 0;
  const auto seconds = [](std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
  add("{");
  for (const tally* t = tallies; t; t = t->next_) {
    const bool timed = t->acquisitions_ + t->waited_ + t->held_ != 0;
    if (!timed && t->said_ == 0) continue;
    add("%s\"%s\": {", used > 1 ? ",\n " : "", t->name_);
    const char* comma = "";
    if (timed) {
      add("\"acquisitions\": %lu, \"waited\": %.9f, \"longest\": %.9f, \"held\": %.9f, \"longest_hold\": %.9f",
          t->acquisitions_.load(), seconds(t->waited_), seconds(t->longest_), seconds(t->held_),
          seconds(t->longest_hold_));
      comma = ", ";
    }
    for (int i = 0; i < t->said_; ++i, comma = ", ") add("%s\"%s\": %lu", comma, t->facts_[i].key, t->facts_[i].value);
    add("}");
  }
  add("}\n");
  if (write(1, text, used) != static_cast<ssize_t>(used)) std::abort();
}

void in_threads(int count, const std::function<void(int)>& body) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      ++ready;
      while (ready < count) std::this_thread::yield();
      body(i);
    });
  for (auto& thread : threads) thread.join();
}

void busy(std::int64_t nanoseconds) {
  for (const std::int64_t end = now() + nanoseconds; now() < end;) {
  }
}

void sleep_for(std::int64_t nanoseconds) {
  const timespec time{nanoseconds / 1000000000, nanoseconds % 1000000000};
  nanosleep(&time, nullptr);
}

pid_t thread_id() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

void await_asleep(const std::atomic<pid_t>& thread) {
  await_asleep(thread, std::chrono::milliseconds(20));
}

void use(void* pointer) {
  asm volatile("" : : "r"(pointer) : "memory");
}

}  // namespace planted

using namespace planted;

namespace {

/// The scenarios, by their names on the command line.
constexpr struct {
  const char* name;
  void (*body)();
} scenarios[] = {
    {"one-hot", one_hot},
    {"convoy", convoy},
    {"held-over-sleep", held_over_sleep},
    {"reused-memory", reused_memory},
    {"starving", starving},
    {"buckets", buckets},
    {"heap-buckets", heap_buckets},
    {"hot-bucket", hot_bucket},
    {"kinds", kinds},
    {"timeouts", timeouts},
    {"tries", tries},
    {"retries", retries},
    {"uncontended", uncontended},
    {"herd", herd},
    {"signals", signals},
    {"signalled-twice", signalled_twice},
    {"many-in-vain", many_in_vain},
    {"locked-often", locked_often},
    {"in-a-rhythm", in_a_rhythm},
    {"left-in-haste", left_in_haste},
    {"credits", credits},
    {"semaphore-mutex", semaphore_mutex},
    {"gives-up", gives_up},
    {"late-signal", late_signal},
    {"between-processes", between_processes},
    {"another-kind", another_kind},
    {"held-until-a-wait", held_until_a_wait},
    {"long-and-short", long_and_short},
    {"yielding", yielding},
    {"opposite-order", opposite_order},
    {"write-locks", write_locks},
    {"ring", ring},
    {"self", self},
    {"no-deadlock", no_deadlock},
    {"retreats", retreats},
    {"ended-circle", ended_circle},
    {"deadlocked-child", deadlocked_child},
    {"in-library", in_library},
    {"unloaded", unloaded},
    {"alternating", alternating},
    {"made-and-destroyed", made_and_destroyed},
    {"many-at-once", many_at_once},
    {"hot-after-many", hot_after_many},
    {"thousand-threads", thousand_threads},
    {"forked", forked},
    {"chain", chain},
    {"processes", processes},
    {"aborts", aborts},
    {"killed", killed},
    {"handler-posts", handler_posts},
    {"handler-forks", handler_forks},
    {"cancelled", cancelled},
    {"nothing", nothing},
    {"unmaps", unmaps},
    {"sandboxed", sandboxed},
    {"handler-stack", handler_stack},
};

void print_usage() {
  std::fprintf(stderr, "usage: planted SCENARIO [NUMBER]; scenarios:");
  for (const auto& one : scenarios) std::fprintf(stderr, " %s", one.name);
  std::fprintf(stderr, "\n");
}

}  // namespace

int main(int count, char** arguments) {
  program = arguments[0];
  argument = count > 2 ? std::atoi(arguments[2]) : 0;
  for (const auto& one : scenarios) {
    if (count < 2 || std::strcmp(one.name, arguments[1]) != 0) continue;
    one.body();
    print();
    return 0;
  }
  print_usage();
  return 2;
}
