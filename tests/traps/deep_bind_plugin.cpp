// A plugin that deep_bind.cpp opens with RTLD_DEEPBIND. It uses only the C++ library, and only objects of its own. Each
// function returns null, or the text of an error.
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace {

using namespace std::chrono_literals;
using lock = std::unique_lock<std::mutex>;

/// A distant deadline: a wait whose notification is lost hangs until the case's time limit ends it.
constexpr auto far = 1h;

bool is_held(std::mutex& m) {
  bool got = false;
  std::thread([&] {
    got = m.try_lock();
    if (got) m.unlock();
  }).join();
  return !got;
}

/// Two threads take turns. `wait` waits once for the thread's turn.
template <class Mutex, class Condition, class Wait>
const char* take_turns(Wait wait) {
  constexpr int rounds = 1000;
  Mutex m;
  Condition c;
  int turn = 0, done = 0;
  const auto play = [&](int me) {
    for (int i = 0; i < rounds; i++) {
      std::unique_lock<Mutex> l(m);
      while (turn != me) wait(c, l, me);
      done++;
      turn = 1 - me;
      i % 2 == 0 ? c.notify_one() : c.notify_all();
    }
  };
  std::thread first(play, 0), second(play, 1);
  first.join();
  second.join();
  return done == 2 * rounds ? nullptr : "turns are missing";
}

}  // namespace

extern "C" {

void* lock_of_plugin() {
  int (*const f)(pthread_mutex_t*) = pthread_mutex_lock;
  return reinterpret_cast<void*>(f);
}

// One condition variable is used by calls of both libraries: wait() and notify_*() are in libstdc++, the others are
// inlined.
const char* waits() {
  return take_turns<std::mutex, std::condition_variable>([](auto& c, auto& l, int) { c.wait(l); });
}
const char* waits_for() {
  return take_turns<std::mutex, std::condition_variable>([](auto& c, auto& l, int) { c.wait_for(l, far); });
}
const char* waits_until() {
  return take_turns<std::mutex, std::condition_variable>(
      [](auto& c, auto& l, int) { c.wait_until(l, std::chrono::system_clock::now() + far); });
}
const char* waits_both_ways() {
  return take_turns<std::mutex, std::condition_variable>(
      [](auto& c, auto& l, int me) { me == 0 ? c.wait(l) : void(c.wait_for(l, far)); });
}
const char* waits_with_any_mutex() {
  return take_turns<std::recursive_mutex, std::condition_variable_any>([](auto& c, auto& l, int) { c.wait(l); });
}
const char* waits_for_with_any_mutex() {
  return take_turns<std::timed_mutex, std::condition_variable_any>(
      [](auto& c, auto& l, int me) { me == 0 ? c.wait(l) : void(c.wait_for(l, far)); });
}

const char* holds_the_mutex_after_a_wait() {
  std::mutex m;
  std::condition_variable c;
  lock l(m);
  if (c.wait_for(l, 1ms) != std::cv_status::timeout) return "no time-out";
  if (!is_held(m)) return "not held after a time-out";
  bool ready = false;
  std::thread other([&] {
    const lock inner(m);
    ready = true;
    c.notify_one();
  });
  while (!ready) c.wait(l);
  if (!is_held(m)) return "not held after a wait";
  l.unlock();
  other.join();
  return is_held(m) ? "held after the unlock" : nullptr;
}

// At the end of the thread, libstdc++ unlocks the mutex and notifies.
const char* notifies_at_the_end_of_a_thread() {
  std::mutex m;
  std::condition_variable c;
  bool ready = false;
  std::thread other([&] {
    lock l(m);
    ready = true;
    std::notify_all_at_thread_exit(c, std::move(l));
  });
  {
    lock l(m);
    while (!ready) c.wait(l);
  }
  other.join();
  return is_held(m) ? "still held" : nullptr;
}

// The condition variable is destroyed as soon as no thread will begin a wait, while woken threads still leave theirs.
const char* destroys_the_variable() {
  for (int i = 0; i < 200; i++) {
    std::mutex m;
    auto* c = new std::condition_variable;
    int waiting = 0;
    bool over = false;
    const auto wait = [&](bool timed) {
      lock l(m);
      waiting++;
      while (!over) timed ? void(c->wait_for(l, far)) : c->wait(l);
    };
    std::thread first(wait, false), second(wait, true);
    for (bool all = false; !all;) {
      std::this_thread::yield();
      const lock l(m);
      all = waiting == 2;
    }
    {
      const lock l(m);
      over = true;
      c->notify_all();
    }
    delete c;
    first.join();
    second.join();
  }
  return nullptr;
}
}
