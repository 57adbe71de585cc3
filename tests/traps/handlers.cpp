// Trap: a signal handler may interrupt a thread at any instruction of the code that takes or gives back a queue node.
// The handler may lock and return with the lock held, and it may fork. A thread repeats this code, and the handler runs
// after the first instruction of the code, then after the second, and so on up to the last. After each handler no node
// may have been taken twice.
#include <sys/ptrace.h>
#include <sys/user.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cases.h"
#include "usher/platform/native.hpp"

#if defined(__x86_64__)

namespace {

using usher::native;
using usher::node_handle;
using record = usher::native_detail::thread_record;

enum class action { take, take_and_give, take_two_and_give_first, give, take_many, fork_and_take, only_fork };

struct scene {
  const char* name;
  bool gives;          ///< the interrupted operation gives a node back; otherwise it takes one
  unsigned had;        ///< the number of nodes in the thread's reserve before the operation
  bool preloaded;      ///< a child gets a pool of its own
  bool pool_is_empty;  ///< new nodes are made
};
const scene scenes[] = {
    {"take_from_many", false, 9, false, false},
    {"take_last", false, 1, true, false},
    {"take_from_pool", false, 0, false, false},
    {"take_from_pool_preloaded", false, 0, true, false},
    {"take_new", false, 0, false, true},
    {"take_new_preloaded", false, 0, true, true},
    {"give", true, 5, true, false},
    {"give_first", true, 0, false, false},
    {"give_to_pool", true, record::most, false, false},
    {"give_to_pool_preloaded", true, record::most, true, false},
};

/// Memory that the tracing process and the traced process share.
struct stage {
  int after;     ///< the number of the instruction at which the handler runs
  int ended;     ///< the interrupted operation has ended
  int finished;  ///< no further operation follows
};
stage* shared;
const scene* now_on;
action what;
bool traced = true;

std::vector<bool> in_hand(1 << 20);
std::vector<node_handle> hand;  ///< nodes that the thread has taken; the handler has its own list

void in(std::vector<node_handle>& whose, node_handle h) {
  CHECK(h >= usher::first_node);
  if (in_hand[h]) fail_case(__FILE__, __LINE__, "node %u was taken twice, at instruction %d", h, shared->after);
  in_hand[h] = true;
  whose.push_back(h);
}
node_handle out(std::vector<node_handle>& whose) {
  const node_handle h = whose.back();
  whose.pop_back();
  in_hand[h] = false;
  return h;
}

std::vector<node_handle> of_handler;

void be_another_process() {
  be_a_child();
  traced = false;
  // In a child under the preload, the locks that held the taken nodes are reset, so the nodes are free again. Without a
  // preload the nodes stay in use.
  if (!now_on->preloaded) return;
  in_hand.assign(in_hand.size(), false);
  hand.clear();
  of_handler.clear();
}

void handler(int) {
  const auto take = [] { in(of_handler, native::take_node()); };
  const auto give = [] { native::give_node(out(of_handler)); };
  switch (what) {
    case action::take:
      return take();
    case action::take_and_give:
      take();
      return give();
    // afterwards the reserve begins with the same node as before, but the rest differs
    case action::take_two_and_give_first:
      take();
      take();
      std::swap(of_handler.back(), *(of_handler.end() - 2));
      return give();
    case action::give:
      return give();
    case action::take_many:
      for (int i = 0; i < 40; i++) take();
      for (int i = 0; i < 30; i++) give();
      return;
    case action::fork_and_take:
    case action::only_fork: {
      const pid_t child = fork();
      CHECK(child >= 0);
      if (child > 0) return CHECK_CHILD(child, 0);
      be_another_process();
      if (what == action::fork_and_take)
        for (int i = 0; i < 9; i++) take();
    }
  }
}

unsigned at_hand() {
  record* r = native::self();
  return unsigned(r->top.load() - r->at(0));
}

[[gnu::noinline]] node_handle interrupted(bool gives, node_handle h) {
  if (traced) __asm__ __volatile__("int3" ::: "memory");
  if (gives)
    native::give_node(h);
  else
    h = native::take_node();
  __atomic_store_n(&shared->ended, 1, __ATOMIC_SEQ_CST);
  return h;
}

void audit() {
  std::vector<node_handle> some;
  for (int i = 0; i < 50; i++) in(some, native::take_node());
  while (!some.empty()) native::give_node(out(some));
}

void be_traced() {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) skip_case("may not trace its own child");
  signal(SIGUSR1, handler);
  usher::usher_process_state.orphaned_are_free.store(now_on->preloaded ? 1 : 0);
  for (int i = 0; i < 264; i++) in(hand, native::take_node());
  while (hand.size() > 64) native::give_node(out(hand));
  of_handler.reserve(64);
  while (!flag_get(&shared->finished)) {
    while (!of_handler.empty()) native::give_node(out(of_handler));
    for (int i = 0; i < 2; i++) in(of_handler, native::take_node());
    while (hand.size() < 20) in(hand, native::take_node());
    const auto& s = usher::usher_process_state;
    const auto& list = now_on->preloaded ? s.wiped_pool.list : s.pool.list;
    while (now_on->pool_is_empty && (list.load() & 0xffffff) != 0) in(hand, native::take_node());
    while (at_hand() > now_on->had) in(hand, native::take_node());
    while (at_hand() < now_on->had) native::give_node(out(hand));
    const node_handle given = now_on->gives ? out(hand) : usher::no_node;
    shared->ended = 0;
    const node_handle h = interrupted(now_on->gives, given);
    if (!now_on->gives) in(hand, h);
    audit();
    if (!traced) _exit(0);
  }
}

// The traced thread, which the tracing process steps and stops.
struct thread {
  pid_t id;
  int status = 0;

  /// Waits for the next stop of the thread. Returns false if the thread has ended.
  bool stops() {
    CHECK(waitpid(id, &status, 0) == id);
    if (WIFSIGNALED(status)) fail_case(__FILE__, __LINE__, "died of signal %d", WTERMSIG(status));
    return WIFSTOPPED(status);
  }
  void go(__ptrace_request how, int signal_number) const {
    CHECK(ptrace(how, id, nullptr, reinterpret_cast<void*>(std::intptr_t{signal_number})) == 0);
  }
  /// Lets the thread run to its next trap. Returns false if the thread has ended.
  bool runs(int signal_number) {
    go(PTRACE_CONT, signal_number);
    while (stops()) {
      if (WSTOPSIG(status) == SIGTRAP) return true;
      go(PTRACE_CONT, WSTOPSIG(status));  // SIGCHLD: a child of the thread has ended
    }
    return false;
  }
  static constexpr std::size_t instruction_pointer = offsetof(user, regs.rip);
  std::uintptr_t at() const { return std::uintptr_t(ptrace(PTRACE_PEEKUSER, id, instruction_pointer, nullptr)); }
  void set_at(std::uintptr_t address) const { CHECK(ptrace(PTRACE_POKEUSER, id, instruction_pointer, address) == 0); }
  long code(std::uintptr_t address) const { return ptrace(PTRACE_PEEKTEXT, id, address, nullptr); }
  void set_code(std::uintptr_t address, long code) const { CHECK(ptrace(PTRACE_POKETEXT, id, address, code) == 0); }
};

void trace(pid_t child) {
  thread t{child};
  if (!t.stops()) return;  // skipped, or the reason has been printed
  // The first pass steps through the operation to find the addresses on its path. Then the operation is repeated for
  // each address with a breakpoint at it.
  std::vector<std::uintptr_t> places;
  while (!flag_get(&shared->ended)) {
    if (std::find(places.begin(), places.end(), t.at()) == places.end()) places.push_back(t.at());
    t.go(PTRACE_SINGLESTEP, 0);
    CHECK(t.stops() && WSTOPSIG(t.status) == SIGTRAP);
  }
  CHECK(t.runs(0));
  std::size_t hit = 0;
  for (const auto place : places) {
    shared->after++;
    const long code = t.code(place);
    t.set_code(place, (code & ~0xffL) | 0xcc);
    CHECK(t.runs(0));
    t.set_code(place, code);
    // the operation took another path; the thread has stopped before the next operation
    if (t.at() != place + 1) continue;
    hit++;
    t.set_at(place);
    CHECK(t.runs(SIGUSR1));
  }
  flag_set(&shared->finished, 1);
  CHECK(!t.runs(0));
  CHECK_NUMBER(WEXITSTATUS(t.status), 0);
  note("%zu of %zu instructions", hit, places.size());
  CHECK(hit > 10 && hit > places.size() * 9 / 10);
}

void act(const scene* one, action by_handler) {
  shared = static_cast<stage*>(shared_page());
  now_on = one;
  what = by_handler;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    be_a_child();
    be_traced();
    _exit(0);
  }
  trace(child);
}

CASE_FOR(handler_takes, scene, one, scenes) {
  act(one, action::take);
}
CASE_FOR(handler_takes_and_gives, scene, one, scenes) {
  act(one, action::take_and_give);
}
CASE_FOR(handler_takes_two_and_gives_first, scene, one, scenes) {
  act(one, action::take_two_and_give_first);
}
CASE_FOR(handler_gives, scene, one, scenes) {
  act(one, action::give);
}
CASE_FOR(handler_takes_many, scene, one, scenes) {
  act(one, action::take_many);
}
CASE_FOR(handler_forks_and_takes, scene, one, scenes) {
  act(one, action::fork_and_take);
}
CASE_FOR(handler_only_forks, scene, one, scenes) {
  act(one, action::only_fork);
}

}  // namespace

#else
CASE(handler_at_each_instruction) {
  skip_case("not implemented for this machine");
}
#endif
