// The part of the checked platform that is compiled once for all locks.
#include "check/engine/checked_platform.hpp"

#include "check/engine/checked_lock.hpp"
#include "check/engine/checker_scheduler.hpp"

namespace usher::check {

template class checked_atomic<std::uint32_t>;
template class checked_atomic<std::uint64_t>;
template class checked_plain<std::uint32_t>;
template class checked_plain<std::uint64_t>;
template class checked_plain<void*>;

namespace {

struct remark {
  const char* text;
  const void* word;
  std::uint32_t mask;
  void output(std::ostream& s) const { s << "<" << word << "> " << text << ", mask=" << mask; }
};

}  // namespace

void fail(const char* why, rl::test_result_e kind, const place& p) {
  last_reason = why;
  rl::ctx().fail_test(why, kind, info(p));
  std::abort();  // not reached: relacy switches to another fiber
}

void note(const char* text, const void* word, std::uint32_t mask, const place& p) {
  if (rl::ctx().collecting_history()) rl::ctx().exec_log(info(p), remark{text, word, mask});
}

bool ordered_sites::is_wanted(std::string_view file) const {
  if (only.empty()) return true;
  for (std::string_view rest = only; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (file.ends_with(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

void ordered_sites::add(const place& p, unsigned ways) {
  for (unsigned i = 0; i < count; i++)
    if (seen[i].at.line() == p.line() && seen[i].at.column() == p.column() &&
        std::strcmp(seen[i].at.file_name(), p.file_name()) == 0) {
      seen[i].ways |= ways;
      return;
    }
  if (!is_wanted(p.file_name()) ||
      (std::strstr(p.file_name(), "usher/") == nullptr && std::strstr(p.file_name(), "mutants/") == nullptr))
    return;
  if (count == seen.size()) fail("more orders than there is room for", rl::test_result_user_assert_failed, p);
  seen[count++] = {p, ways};
}

bool ordered_sites::removes_fence(const place& p) {
  if (recording_sites) add(p, 1u << unsigned(made::removed));
  return weakened && (weakened->way == made::removed || weakened->way == made::all_relaxed) && is_weakened(p);
}

namespace {

// The effects of a memory order, as a set of bits. `is_in_total_order`: the operation has a place in the total order of
// sequentially consistent operations.
constexpr unsigned acquires = 1, releases = 2, is_in_total_order = 4;

unsigned effects(std::memory_order o, access a) {
  switch (o) {
    case std::memory_order_relaxed:
      return 0;
    case std::memory_order_consume:
    case std::memory_order_acquire:
      return acquires;
    case std::memory_order_release:
      return releases;
    case std::memory_order_acq_rel:
      return acquires | releases;
    default:
      return is_in_total_order | (a == access::store ? 0 : acquires) |
             (a == access::load || a == access::failure ? 0 : releases);
  }
}

/// Returns, as a set of bits, the weaker orders that are tried in place of an order, such as acquire and release in
/// place of acq_rel.
unsigned ways_of(std::memory_order o, access a) {
  const auto ways = [](auto... all) { return ((1u << unsigned(all)) | ...); };
  const bool all = o == std::memory_order_seq_cst;
  switch (a) {
    case access::load:
      return all ? ways(made::acquire, made::relaxed) : ways(made::relaxed);
    case access::store:
      return all ? ways(made::release, made::relaxed) : ways(made::relaxed);
    case access::failure:
      return all ? ways(made::failure_acquire, made::failure_relaxed) : ways(made::failure_relaxed);
    default:
      return all                              ? ways(made::acq_rel, made::acquire, made::release)
             : o == std::memory_order_acq_rel ? ways(made::acquire, made::release)
                                              : ways(made::relaxed);
  }
}

/// Returns the order of an operation at a weakened place. It is unchanged if the replacement is not weaker.
std::memory_order weaker(std::memory_order o, access a, made way) {
  if (way == made::all_relaxed) return std::memory_order_relaxed;
  if ((a == access::failure) != (way == made::failure_relaxed || way == made::failure_acquire)) return o;
  const std::memory_order to = way == made::acq_rel                                   ? std::memory_order_acq_rel
                               : way == made::release                                 ? std::memory_order_release
                               : way == made::acquire || way == made::failure_acquire ? std::memory_order_acquire
                                                                                      : std::memory_order_relaxed;
  return (effects(to, a) & ~effects(o, a)) == 0 && way != made::removed ? to : o;
}

}  // namespace

rl::memory_order order_of(std::memory_order o, const place& p, const void* word, access a) {
  if (o == std::memory_order_relaxed) return rl::mo_relaxed;
  if ((recording_sites || sites.weakened) && !execution::current().keeps(word)) {
    if (recording_sites) sites.add(p, ways_of(o, a));
    if (sites.weakened && sites.is_weakened(p)) o = weaker(o, a, sites.weakened->way);
  }
  switch (o) {
    case std::memory_order_relaxed:
      return rl::mo_relaxed;
    case std::memory_order_consume:
      return rl::mo_consume;
    case std::memory_order_acquire:
      return rl::mo_acquire;
    case std::memory_order_release:
      return rl::mo_release;
    case std::memory_order_acq_rel:
      return rl::mo_acq_rel;
    default:
      return rl::mo_seq_cst;
  }
}

execution::execution(chances c, unsigned threads) : remaining_(c), threads_(threads) {
  current_ = this;
  numa_nodes_ = 2 + rl::rand(most_numa_nodes - 1);
  moves_ = rl::rand(4) == 0;
  for (unsigned t = 0; t < most_threads; t++) home_nodes_[t] = (t + rl::rand(2)) % numa_nodes_;
  if (c.adverse) {
    lots_ = std::array{0u, 0u, 1u, 12u, 40u}[rl::rand(5)];
    pace_ = std::array{std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{300000}, std::uint64_t{2000000}}[rl::rand(4)];
  }
  wraps_ = rl::rand(2) == 0;
  // Locks count time in 32 bits, in nanoseconds or in units of 1024 ns. From this start both counts wrap soon.
  if (wraps_) clock_ = (std::uint64_t{1} << 42) - 3000000;
  for (bool& tagged : tagged_) tagged = rl::rand(8) != 0;
  // A semaphore keeps the lower 20 bits of the epoch. In half of the executions these are about to wrap or have just
  // wrapped.
  epoch_ = std::array{1u, 1u, 0xfffffu, 0x100000u}[rl::rand(4)];
  least_room_ = rl::rand(4);
  if (least_room_ == 3) least_room_ = 0;
  // Half of the executions begin shortly before the counters in a waiting array wrap.
  if (rl::rand(2) == 0)
    for (auto& word : table(table_kind::counts)) word.store(~std::uint32_t{3}, std::memory_order_relaxed);
}

// ---- the list of locks ------------------------------------------------------------------------------------------

std::vector<checked_lock>& checked_locks() {
  static std::vector<checked_lock> list;
  return list;
}

void add_to_list(checked_lock& table, const char* family, const char* suffix, const char* mutation) {
  table.family = family;
  table.name = table.family + suffix;
  table.mutation = mutation;
  checked_locks().push_back(table);
}

const std::vector<const checked_lock*>& mutexes() {
  static const std::vector<const checked_lock*> list = [] {
    std::vector<const checked_lock*> some;
    for (const checked_lock& l : checked_locks())
      for (const char* name :
           {"steady", "loiter", "mcscr", "ticket", "futex", "steady-park", "loiter-park", "mcscr-park"})
        if (l.name == name) some.push_back(&l);
    return some;
  }();
  return list;
}

// ---- lives ------------------------------------------------------------------------------------------------------

void execution::before_access(const void* word, const place& p) {
  if (reinterpret_cast<std::uintptr_t>(word) < 4096)
    fail("a null pointer is followed", rl::test_result_access_to_freed_memory, p);
  for (unsigned i = 0; i < most_watched; i++)
    if (inside(word, watched_[i].begin, watched_[i].size)) return watched_lives_[i].use(watched_[i].used_late, p);
  if (inside(word, locals_, sizeof locals_))
    return local_lives_[slot_of_local(word)]->use("a stack object is touched after its end", p);
  if (inside(word, inflated_room_, sizeof inflated_room_)) return use_inflated(word, p);
  if (!inside(word, nodes_.data(), sizeof nodes_)) return;
  node_slot& s = nodes_[distance(nodes_.data(), word) / sizeof(node_slot)];
  if (word != &s.used) s.uses.use("a node is touched that has been given back", p);
}

void execution::use_inflated(const void* word, const place& p) {
  const unsigned which = unsigned(distance(inflated_room_, word) / sizeof inflated_room_[0]);
  if (!inside(word, inflated_room_[which] + inflated_lock_at, sizeof inflated_room_[0] - inflated_lock_at)) return;
  if (which != inflated_lost_)
    fail("a large lock of the parent is touched in the child", rl::test_result_access_to_freed_memory, p);
  inflated_uses_.use("a large lock is touched that has gone back to the pool", p);
}

void execution::after_write(const void* word, const place& p) {
  if (observer_.written != nullptr) observer_.written(observer_.context, word);
  if (pollers_ == 0) return;
  for (unsigned t = 0; t < most_threads; t++) {
    if (polls_[t] != word) continue;
    polls_[t] = nullptr;
    pollers_--;
    rl::ctx().unpark_thread(rl::thread_id_t(t), false, info(p));
  }
}

void begin_attempt(const void* word, bool (*succeeds)(const void*, std::uint64_t), std::uint64_t expected,
                   const place& p) {
  if (the_search.against != search::adversary::beats || the_search.helped) return;
  if (rl::thread_index() != the_search.held_back || !succeeds(word, expected)) return;
  the_search.attempt = {succeeds, word, expected, 0};
  rl::yield(1, info(p));
}
void end_attempt() {
  if (the_search.attempt.succeeds != nullptr && rl::thread_index() == the_search.held_back) the_search.attempt = {};
}

void* execution::begin_local(std::size_t size, const place& p, void (*destroy)(void*)) {
  if (size > local_size || locals_begun_ == most_locals)
    fail("more stack objects than there is room for", rl::test_result_user_assert_failed, p);
  local_lives_[locals_begun_].emplace();
  local_owner_[locals_begun_] = rl::thread_index();
  destroy_local_[locals_begun_] = destroy;
  void* const at = locals_ + std::size_t{locals_begun_++} * local_size;
  if (observer_.local_begun != nullptr) observer_.local_begun(observer_.context, at);
  return at;
}

// ---- names ------------------------------------------------------------------------------------------------------

void execution::name(const void* begin, std::size_t size, const char* text) {
  if (names_given_ < names_.size()) names_[names_given_++] = {begin, size, text};
}

void execution::describe(const void* word, char* buffer, std::size_t room) const {
  // A word's index in its object is the number of words before it.
  const auto say = [&](const char* text, const void* begin, std::size_t size) {
    unsigned before = 0, in_all = 0;
    for (unsigned i = 0; i < constructed.count; i++) {
      if (!inside(constructed.at[i], begin, size)) continue;
      in_all++;
      before += distance(begin, constructed.at[i]) < distance(begin, word) ? 1 : 0;
    }
    if (in_all <= 1)
      std::snprintf(buffer, room, "%s", text);
    else
      std::snprintf(buffer, room, "%s[%u]", text, before);
  };
  for (unsigned i = 0; i < names_given_; i++)
    if (inside(word, names_[i].begin, names_[i].size)) return say(names_[i].text, names_[i].begin, names_[i].size);
  char text[32];
  if (inside(word, nodes_.data(), sizeof nodes_)) {
    const std::size_t n = distance(nodes_.data(), word) / sizeof(node_slot);
    const node_slot& s = nodes_[n];
    const char* member = word == &s.used        ? "used"
                         : word == &s.node.next ? "next"
                         : word == &s.node.flag ? "flag"
                                                : nullptr;
    std::snprintf(text, sizeof text, "node%u", unsigned(first_node_ + n));
    if (member == nullptr) return say(text, &s, sizeof s);
    std::snprintf(buffer, room, "%s.%s", text, member);
    return;
  }
  if (inside(word, locals_, sizeof locals_)) {
    std::snprintf(text, sizeof text, "stack%u", slot_of_local(word));
    return say(text, locals_ + std::size_t{slot_of_local(word)} * local_size, local_size);
  }
  for (const table_words& t : tables_)
    if (inside(word, t.data(), sizeof t)) return say("table", t.data(), sizeof t);
  std::snprintf(buffer, room, "%p", word);
}

// ---- order ------------------------------------------------------------------------------------------------------

void execution::doorway() {
  const unsigned me = rl::thread_index();
  if (arrived_[me] != 0) {  // the second call comes directly after the doorway operation
    door_[me] = 0;
    return pass_doorway();
  }
  arrived_[me] = ++arrivals_;
  door_[me] = waits_[me] = 0;
  overtaken_[me] = 0;
}

/// Records that the calling thread has passed its doorway. Called by the doorway operation, or directly after it.
void execution::pass_doorway() {
  const unsigned me = rl::thread_index();
  if (arrived_[me] == 0 || door_[me] != 0) return;
  door_[me] = ++arrivals_;
  overtaken_[me] = 0;
  if (me == the_search.held_back) the_search.helped = false;
}

void execution::waits() {
  waits_in_vain();
  const unsigned me = rl::thread_index();
  if (arrived_[me] == 0 || waits_[me] != 0) return;
  waits_[me] = ++arrivals_;
  if (me == the_search.held_back) the_search.helped = false;
}

void execution::admitted(const place& p) {
  const unsigned me = rl::thread_index();
  // If it is unknown when a thread passed its doorway, a bound is used instead. For this thread it is the arrival,
  // which is earlier than the doorway. For the other threads it is the first poll or sleep, which is later.
  const unsigned mine = door_[me] != 0 ? door_[me] : arrived_[me];
  for (unsigned t = 0; t < most_threads; t++) {
    const unsigned theirs = door_[t] != 0 || promise_.says_doorway ? door_[t] : waits_[t];
    if (t == me || arrived_[t] == 0 || theirs == 0 || theirs > mine) continue;
    if (promise_.fifo_leaders && (door_[t] == 0 || door_[me] == 0)) continue;
    overtaken_[t]++;
    if (promise_.most_overtaking == 0)
      fail("a waiter is overtaken by a thread that came later", rl::test_result_user_assert_failed, p);
  }
  // The bound is checked only at admission, because before it the thread may pass a later doorway, from which the
  // promise counts.
  if (promise_.most_overtaking != unbounded && overtaken_[me] > promise_.most_overtaking)
    fail("a thread has been overtaken more often than the lock promises", rl::test_result_user_assert_failed, p);
  for (unsigned t = 0; t < most_threads; t++) {
    if (t == me || slept_at_unlock_[t] == 0 || priorities_[t] == 0) continue;
    if (priorities_[t] > priorities_[me])
      fail("a sleeper of a higher priority is passed over", rl::test_result_user_assert_failed, p);
    if (priorities_[t] == priorities_[me] && slept_at_unlock_[t] < arrived_[me])
      fail("a sleeper of the same priority is overtaken", rl::test_result_user_assert_failed, p);
  }
  slept_at_unlock_ = {};
  arrived_[me] = door_[me] = waits_[me] = 0;
  overtaken_[me] = 0;
}

// ---- random draws -----------------------------------------------------------------------------------------------

bool execution::bernoulli(std::uint32_t n, const place& p) {
  if (n == 0) return false;
  if (n == 1) return true;
  if (lots_ == 0) return rl::rand(3) == 0;
  for (drawn_at& d : draws_) {
    if (d.line != 0 && (d.line != p.line() || std::strcmp(d.file, p.file_name()) != 0)) continue;
    d.file = p.file_name();
    d.line = p.line();
    return ++d.count % lots_ == 0;
  }
  fail("more places draw lots than there is room for", rl::test_result_user_assert_failed, p);
}

// ---- contention -------------------------------------------------------------------------------------------------

bool execution::has_gathered(unsigned thread) const {
  unsigned there = 0, may_come = 0;
  for (unsigned t = 0; t < threads_; t++) {
    if (t == thread || t == gathers_[thread].but) continue;
    may_come += gone_home_[t] ? 0 : 1;
    there += wants_[t] && waited_[t] ? 1 : 0;
  }
  return there >= std::min(gathers_[thread].most, may_come);
}

void execution::rouse_gathered() {
  for (unsigned t = 0; t < threads_; t++) {
    if (gathers_[t].most == 0 || !has_gathered(t)) continue;
    gathers_[t].most = 0;
    rl::ctx().unpark_thread(rl::thread_id_t(t), false, info(place::current()));
  }
}

void execution::goes_home() {
  wants(false);
  gone_home_[rl::thread_index()] = true;
  rouse_gathered();
}

void execution::gather(unsigned most, unsigned but, place p) {
  const unsigned me = rl::thread_index();
  gathers_[me] = {most, but};
  if (most == 0 || has_gathered(me)) {
    gathers_[me].most = 0;
    return;
  }
  rl::ctx().park_current_thread(false, false, false, info(p));
}

// ---- priorities -------------------------------------------------------------------------------------------------

void execution::let_sleepers_in_by_priority() {
  slept_at_unlock_ = asleep_since_;
}

void execution::await_sleepers(unsigned n, place p) {
  const unsigned me = rl::thread_index();
  while (std::size_t(std::ranges::count_if(asleep_since_, [](unsigned since) { return since != 0; })) < n) {
    awaited_sleepers_[me] = n;
    rl::ctx().park_current_thread(false, false, false, info(p));
  }
}

// ---- waiting ----------------------------------------------------------------------------------------------------

void execution::poll_until_written(const void* word, const place& p) {
  waits();
  polls_[rl::thread_index()] = word;
  pollers_++;
  note("waits until it is written", word, every_sleeper, p);
  rl::ctx().park_current_thread(false, false, false, info(p));
}

void execution::sleep(const void* key, std::uint32_t mask, bool may_time_out, const place& p) {
  waits();
  sleeper& me = sleepers_[rl::thread_index()];
  me = {key, mask};
  sleeps_[rl::thread_index()]++;
  asleep_since_[rl::thread_index()] = ++arrivals_;
  const auto asleep = unsigned(std::ranges::count_if(asleep_since_, [](unsigned since) { return since != 0; }));
  for (unsigned t = 0; t < most_threads; t++)
    if (awaited_sleepers_[t] != 0 && awaited_sleepers_[t] <= asleep) {
      awaited_sleepers_[t] = 0;
      rl::ctx().unpark_thread(rl::thread_id_t(t), false, info(p));
    }
  const bool stray = remaining_.stray_wakes > 0 && rl::rand(4) == 0;
  if (stray) remaining_.stray_wakes--;
  note("sleeps", key, mask, p);
  switch (rl::ctx().park_current_thread(may_time_out, stray, false, info(p))) {
    case rl::unpark_reason_timeout:
      note("is awake: its time is over", key, mask, p);
      break;
    case rl::unpark_reason_spurious:
      note("is awake spuriously", key, mask, p);
      break;
    default:
      note("is awake", key, mask, p);
  }
  me.key = nullptr;
  asleep_since_[rl::thread_index()] = 0;
}

void execution::wake(const void* key, std::uint32_t mask, int most, const place& p) {
  rl::ctx().sched();
  note("wakes", key, mask, p);
  const unsigned first = rl::rand(most_threads);
  for (unsigned i = 0; i < most_threads && most > 0; i++) {
    const unsigned t = (first + i) % most_threads;
    if (sleepers_[t].key != key || (sleepers_[t].mask & mask) == 0) continue;
    sleepers_[t].key = nullptr;
    asleep_since_[t] = 0;
    if (woken_ < woken_order_.size()) woken_order_[woken_++] = t;
    most--;
    rl::ctx().unpark_thread(rl::thread_id_t(t), false, info(p));
  }
}

}  // namespace usher::check
