#include "watch/reader/look/look_assembly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "support/process/files.hpp"
#include "support/text/utf8.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/look/passes.hpp"
#include "watch/reader/name/naming.hpp"
#include "watch/reader/read/circle_walk.hpp"

namespace usher::reader {
namespace {

constexpr std::size_t longest_name = 200;  // bytes of a name from the process; chosen

std::string short_text(const std::string& text) {
  return support::printable(text, longest_name);
}

std::string thread_text(const std::string& name, const shown_id& tid) {
  return fmt::format("{} ({})", name.empty() ? "?" : name, id_text(tid));
}

/// The kind of a descriptor, from the kernel's name of its file.
std::string kind_of_file(std::string_view file) {
  if (file.empty()) return "";
  if (file.starts_with("pipe:")) return "pipe";
  if (file.starts_with("socket:")) return "socket";
  constexpr std::string_view anonymous = "anon_inode:";
  if (file.starts_with(anonymous)) {
    std::string_view name = file.substr(anonymous.size());
    if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
    return name == "eventpoll" ? "epoll" : std::string(name);
  }
  if (file.starts_with("/dev/pts/") || file.starts_with("/dev/tty") || file == "/dev/console") return "terminal";
  return file.starts_with('/') ? "file" : "";
}

std::string article(std::string_view noun) {
  return std::string(std::string_view("aeiou").find(noun.front()) != std::string_view::npos ? "an " : "a ") +
         std::string(noun);
}

class assembler {
 public:
  assembler(const sighting& s, look_names& names, const look_subject& subject, look_report& to)
      : s_(s), names_(names), subject_(subject), to_(to) {}

  void run() {
    for (std::uint32_t i = 0; i < s_.threads.size(); i++) by_own_.emplace(s_.threads[i].own, i);
    names_.prepare(s_);
    collect_stacks();
    for (std::uint32_t k = 0; k < s_.keys.size(); k++) add_key(k);
    add_threads();
    for (looked_wait& w : to_.waits) sort_waiters(w);
    name_holders();
    say_what_threads_do();
    sort_waits();
    find_chains();
    find_lost();
    find_ended_holders();
    count_doings();
  }

 private:
  shown_id id_of(const sighted_thread& t) const {
    return {t.tid, t.own != 0 && t.own != static_cast<std::uint32_t>(t.tid) ? std::int64_t{t.own} : 0};
  }
  looked_stack named(const target_chain& c) {
    looked_stack to;
    for (std::uint32_t i = 0; i < c.pc.size(); i++) {
      if (i == c.certain) to.uncertain_from = static_cast<std::uint32_t>(to.where.frames.size());
      const std::vector<frame>& frames = names_.code(c.pc[i]);
      to.where.frames.insert(to.where.frames.end(), frames.begin(), frames.end());
    }
    for (frame& f : to.where.frames) f.function = short_text(f.function);
    to.where.is_cut = c.is_cut;
    return to;
  }
  void collect_stacks();
  void add_key(std::uint32_t k);
  verdict verdict_of(const sighted_key& k, const std::vector<frame>& frames);
  static looked_wait wait_of_call(const sighted_key& k, const std::string& file);
  void name_object(looked_wait& w, const verdict& v);
  void add_threads();
  static void sort_waiters(looked_wait& w);
  void name_holders();
  std::string does(const looked_thread& t, const sighted_thread& seen) const;
  void say_what_threads_do();
  void sort_waits();
  void find_chains();
  void add_chain(const std::vector<std::uint32_t>& threads, bool is_circle);
  void find_lost();
  void find_ended_holders();
  void count_doings();

  const sighting& s_;
  look_names& names_;
  const look_subject& subject_;
  look_report& to_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_own_;  ///< thread
  std::vector<looked_stack> stacks_;                         ///< by thread
  std::vector<std::optional<std::uint32_t>> wait_of_key_;    ///< index in to_.waits
  std::vector<verdict> verdict_of_key_;
  std::vector<std::uint32_t> owner_of_wait_;  ///< own id; 0: none
  std::vector<bool> is_shared_, has_ended_owner_;
  std::vector<std::optional<std::uint32_t>> next_;  ///< of a thread: the thread for which it waits, confirmed
  std::map<std::tuple<awaited, std::uint64_t, std::string>, std::uint32_t> groups_;
};

void assembler::collect_stacks() {
  for (const sighted_thread& t : s_.threads) stacks_.push_back(t.has_stack ? named(t.stack) : looked_stack{});
}

verdict assembler::verdict_of(const sighted_key& k, const std::vector<frame>& frames) {
  const surroundings around{subject_.libc, subject_.is_under_usher,
                            [this](std::uint32_t own) { return by_own_.contains(own); }};
  return identify(*futex_call_of(k.entry), k.words, around, frames);
}

/// Names the object of a wait: a static object by its symbol, any other object by the code that waits for it.
void assembler::name_object(looked_wait& w, const verdict& v) {
  if (v.what == awaited::join) {
    const auto other = by_own_.find(v.owner);
    w.name = other != by_own_.end()
                 ? fmt::format("the end of {}", thread_text(short_text(s_.threads[other->second].name),
                                                            id_of(s_.threads[other->second])))
                 : "the end of a thread";
    return;
  }
  if (const target_module* const m = v.object != 0 ? names_.module_of(v.object) : nullptr) {
    w.module = m->path;
    w.offset = v.object - m->bias;
    if (const auto object = names_.object(v.object); object && !object->symbol.empty())
      w.name = short_text(namer::static_name(*object));
    else
      w.name = short_text(fmt::format("{}+{}", support::file_name(m->path), hexadecimal(w.offset)));
    return;
  }
  if (const frame* const f = own_place(w.place); f != nullptr) {
    w.module = f->module;
    w.offset = f->offset;
    w.name = short_text(namer::of_frame(*f).name);
  }
  if (w.name.empty()) w.name = v.object != 0 ? hexadecimal(v.object) : "whose place is not known";
}

looked_wait assembler::wait_of_call(const sighted_key& k, const std::string& file) {
  looked_wait w;
  const std::int64_t number = k.entry.number;
  w.what = awaited::call;
  w.call = name_of_call(number);
  w.descriptor = descriptor_of(k.entry);
  w.kind = kind_of_file(file);
  w.known_by = "system call";
  const bool locks_file =
      w.call == "flock" || (w.call == "fcntl" && (k.entry.arguments[1] == 7 || k.entry.arguments[1] == 38));
  if (locks_file) w.what = awaited::file_lock;
  if (is_futex(number)) w.what = awaited::futex, w.known_by = "futex call";
  w.name = w.call;
  if (!w.kind.empty()) w.name += " of " + article(w.kind);
  if (w.descriptor >= 0) {
    w.name += fmt::format(" (descriptor {})", w.descriptor);
    if (w.kind == "file" || w.kind == "terminal") w.name += " " + short_text(file);
    if (!file.empty()) w.known_by += " and /proc/PID/fd";
  }
  if (number < 0) w.what = awaited::unknown, w.name = "a page fault or another sleep outside of a system call";
  return w;
}

void assembler::add_key(std::uint32_t number) {
  const sighted_key& k = s_.keys[number];
  std::string file;
  const target_chain* chain = &k.stack;
  bool is_waited_for = false;
  // The stack of a thread that waits now fits the words that were read now.
  for (const sighted_thread& t : s_.threads) {
    if (t.key != number + 1) continue;
    is_waited_for = true;
    if (file.empty()) file = t.file;
    if (t.has_stack && t.is_confirmed) {
      chain = &t.stack;
      break;
    }
  }
  looked_stack place = named(*chain);
  const auto call = futex_call_of(k.entry);
  verdict v;
  looked_wait w;
  if (call) {
    v = verdict_of(k, place.where.frames);
    w.what = v.what;
    w.library = v.library;
    w.kind = v.kind;
    w.address = v.object;
    w.known_by = v.known_by;
    w.call = "futex";
    w.seen = v.seen;
    w.is_free = v.is_free;
    w.unchanged = k.unchanged;
    w.place = place.where;
    name_object(w, v);
  } else {
    w = wait_of_call(k, file);
    w.place = place.where;
    if (const frame* const f = own_place(w.place); f != nullptr) w.module = f->module, w.offset = f->offset;
  }
  // Without an address, the waits of one place are one object.
  const auto id = std::tuple(w.what, w.address, call && w.address != 0 ? std::string() : w.name);
  const auto [at, is_new] = groups_.try_emplace(id, static_cast<std::uint32_t>(to_.waits.size()));
  if (is_new) {
    to_.waits.push_back(std::move(w));
    owner_of_wait_.push_back(0);
    is_shared_.push_back(false);
    has_ended_owner_.push_back(false);
  }
  looked_wait& to = to_.waits[at->second];
  to.samples += k.samples;
  to.waited += k.waited;
  to.most_waiting = is_new ? k.most : std::max(to.most_waiting, k.most);
  if (is_waited_for && v.owner != 0) {
    owner_of_wait_[at->second] = v.owner;
    is_shared_[at->second] = v.is_shared;
    has_ended_owner_[at->second] = v.has_ended_owner;
  }
  wait_of_key_.push_back(at->second);
  verdict_of_key_.push_back(std::move(v));
}

void assembler::add_threads() {
  for (std::uint32_t i = 0; i < s_.threads.size(); i++) {
    const sighted_thread& t = s_.threads[i];
    looked_thread to;
    to.tid = id_of(t);
    to.name = short_text(t.name);
    to.state = t.state;
    to.waited = t.waited;
    to.cpu_seconds = t.cpu_seconds;
    if (t.key != 0 && t.key <= wait_of_key_.size()) {
      to.wait = wait_of_key_[t.key - 1];
      looked_waiter w;
      w.tid = to.tid;
      w.thread = to.name;
      w.side = verdict_of_key_[t.key - 1].side;
      if (const auto its = wait_of_functions(stacks_[i].where.frames); its && its->side != wanted_side::none)
        w.side = its->side;
      if (to_.waits[*to.wait].what != awaited::rwlock) w.side = wanted_side::none;
      w.waited = t.waited;
      const auto call = futex_call_of(t.entry);
      w.has_time_limit = call && call->has_time_limit;
      w.is_confirmed = t.is_confirmed;
      w.where = stacks_[i];
      to_.waits[*to.wait].waiters.push_back(std::move(w));
    }
    to_.threads.push_back(std::move(to));
  }
}

void assembler::sort_waiters(looked_wait& w) {
  std::stable_sort(w.waiters.begin(), w.waiters.end(),
                   [](const looked_waiter& a, const looked_waiter& b) { return a.waited > b.waited; });
}

void assembler::name_holders() {
  next_.resize(s_.threads.size());
  for (std::uint32_t i = 0; i < to_.waits.size(); i++) {
    looked_wait& w = to_.waits[i];
    const std::uint32_t owner = owner_of_wait_[i];
    const bool is_confirmed =
        std::any_of(w.waiters.begin(), w.waiters.end(), [](const looked_waiter& t) { return t.is_confirmed; });
    if (owner == 0 || !is_confirmed) continue;
    const auto inside = by_own_.find(owner);
    if (inside != by_own_.end()) {
      const sighted_thread& t = s_.threads[inside->second];
      looked_holder h;
      h.tid = id_of(t);
      h.thread = short_text(t.name);
      h.state = t.state;
      h.is_running = t.has_entry && t.entry.is_running;
      h.is_confirmed = true;
      h.waited = t.waited;
      h.where = stacks_[inside->second];
      w.holder = std::move(h);
    } else if (is_shared_[i] && subject_.outside) {
      const auto other = subject_.outside(owner, w.address);
      if (!other) continue;
      looked_holder h;
      h.tid = other->tid;
      h.pid = other->pid;
      h.thread = short_text(other->name);
      h.state = other->state;
      h.is_confirmed = true;
      h.does = "is a thread of another process";
      w.holder = std::move(h);
    }
  }
  for (std::uint32_t i = 0; i < s_.threads.size(); i++) {
    const sighted_thread& t = s_.threads[i];
    const auto wait = to_.threads[i].wait;
    if (!wait || !t.is_confirmed || !to_.waits[*wait].holder || to_.waits[*wait].holder->pid.seen != 0) continue;
    // The owner in the words of this thread's own futex, not that of another word of the same object.
    const std::uint32_t owner = verdict_of_key_[t.key - 1].owner;
    if (const auto other = by_own_.find(owner); owner != 0 && other != by_own_.end()) next_[i] = other->second;
  }
}

std::string wait_text(const looked_wait& w) {
  switch (w.what) {
    case awaited::call:
    case awaited::unknown:
      return "is in " + w.name;
    case awaited::join:
      return "waits for " + w.name;
    case awaited::file_lock:
      return "waits for a file lock: " + w.name;
    case awaited::internal_lock:
      return "waits for a lock inside of the C library, " + w.name;
    case awaited::condition:
      return "waits for condition variable " + w.name;
    case awaited::rwlock:
      return "waits for read-write lock " + w.name;
    case awaited::futex:
      return "waits for a futex at " + w.name;
    default:
      return fmt::format("waits for {} {}", name_of(w.what), w.name);
  }
}

std::string assembler::does(const looked_thread& t, const sighted_thread& seen) const {
  if (t.wait) return wait_text(to_.waits[*t.wait]);
  if (seen.has_entry && seen.entry.is_running)
    return seen.state == 'R' || seen.state == '?' ? "runs" : "runs or has just slept";
  if (seen.state == 'T' || seen.state == 't') return "is stopped";
  if (seen.state == 'Z' || seen.state == 'X') return "has ended";
  if (seen.state == 'R') return "runs";
  if (!seen.kernel_place.empty() && seen.kernel_place != "0")
    return "sleeps in the kernel's " + short_text(seen.kernel_place);
  return seen.state == 'S' || seen.state == 'D' ? "sleeps, and the kernel does not show where" : "is not known";
}

void assembler::say_what_threads_do() {
  for (std::uint32_t i = 0; i < to_.threads.size(); i++) to_.threads[i].does = does(to_.threads[i], s_.threads[i]);
  std::map<shown_id, const looked_thread*> by_id;
  for (const looked_thread& t : to_.threads) by_id[t.tid] = &t;
  for (looked_wait& w : to_.waits)
    if (w.holder && w.holder->does.empty())
      if (const auto at = by_id.find(w.holder->tid); at != by_id.end()) w.holder->does = at->second->does;
}

/// Objects before calls, with a holder before others, then by the time waited.
void assembler::sort_waits() {
  std::vector<std::uint32_t> order(to_.waits.size());
  for (std::uint32_t i = 0; i < order.size(); i++) order[i] = i;
  const auto rank = [this](std::uint32_t i) {
    const looked_wait& w = to_.waits[i];
    const bool is_call = w.what == awaited::call || w.what == awaited::unknown;
    // A monitor of Java has a holder too, whom no word names.
    const bool is_held = w.holder || w.kind.starts_with("a monitor, to enter it");
    return std::tuple(is_call ? 1 : 0, w.waiters.empty() ? 1 : 0, is_held ? 0 : 1, -w.waited);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
  std::vector<std::uint32_t> place(order.size());
  std::vector<looked_wait> sorted;
  std::vector<bool> ended;
  for (std::uint32_t i = 0; i < order.size(); i++) {
    place[order[i]] = i;
    sorted.push_back(std::move(to_.waits[order[i]]));
    ended.push_back(has_ended_owner_[order[i]]);
  }
  to_.waits = std::move(sorted);
  has_ended_owner_ = std::move(ended);
  for (looked_thread& t : to_.threads)
    if (t.wait) t.wait = place[*t.wait];
}

void assembler::add_chain(const std::vector<std::uint32_t>& threads, bool is_circle) {
  looked_chain c;
  c.is_circle = is_circle;
  c.seconds = 1e18;
  for (const std::uint32_t i : threads) {
    const looked_thread& t = to_.threads[i];
    c.links.push_back({t.tid, t.name, t.does, t.wait, t.wait ? to_.waits[*t.wait].address : 0});
    if (next_[i]) c.seconds = std::min(c.seconds, t.waited);
  }
  if (c.seconds > 1e17) c.seconds = 0;
  to_.chains.push_back(std::move(c));
}

std::string circle_text(const looked_chain& c) {
  if (c.links.size() == 1)
    return fmt::format("deadlock: {} {}, which it holds itself", thread_text(c.links[0].thread, c.links[0].tid),
                       c.links[0].does);
  std::string text = fmt::format("deadlock of {} threads: ", c.links.size());
  for (std::size_t i = 0; i < c.links.size() && i < 8; i++)
    text += fmt::format("{}{} {}, held by {}", i == 0 ? "" : "; ", thread_text(c.links[i].thread, c.links[i].tid),
                        c.links[i].does,
                        thread_text(c.links[(i + 1) % c.links.size()].thread, c.links[(i + 1) % c.links.size()].tid));
  return text;
}

void assembler::find_chains() {
  constexpr std::size_t most_circles = 16, most_chains = 8, longest = 64;
  const auto n = static_cast<std::uint32_t>(next_.size());
  const auto next = [&](std::uint32_t i) { return next_[i].value_or(n); };
  std::vector<bool> in_circle(n), is_waited_for(n);
  for (const auto& circle : find_circles(n, most_circles, next, [](const auto&) { return true; })) {
    add_chain(circle, true);
    for (const std::uint32_t i : circle) in_circle[i] = true;
  }
  for (std::uint32_t i = 0; i < n; i++)
    if (next_[i]) is_waited_for[*next_[i]] = true;
  std::vector<std::vector<std::uint32_t>> chains;
  for (std::uint32_t i = 0; i < n; i++) {
    if (!next_[i] || is_waited_for[i] || in_circle[i]) continue;
    std::vector<std::uint32_t> chain;
    for (std::uint32_t at = i; at < n && chain.size() < longest; at = next(at)) {
      chain.push_back(at);
      if (in_circle[at]) break;
    }
    chains.push_back(std::move(chain));
  }
  std::stable_sort(chains.begin(), chains.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (std::size_t i = 0; i < std::min(chains.size(), most_chains); i++) add_chain(chains[i], false);
  for (const looked_chain& c : to_.chains) {
    if (!c.is_circle && c.links.size() < 3) continue;
    looked_finding f;
    f.what = c.is_circle ? "circle" : "chain";
    f.seconds = c.seconds;
    for (const chain_link& l : c.links) {
      f.threads.push_back(l.tid);
      if (l.wait) f.waits.push_back(*l.wait);
    }
    if (c.is_circle) {
      f.text = circle_text(c);
    } else {
      for (std::size_t i = 0; i < c.links.size(); i++)
        f.text += fmt::format("{}{}{} {}", i == 0 ? "" : ", held by ", thread_text(c.links[i].thread, c.links[i].tid),
                              i == 0 ? "" : ", which", c.links[i].does);
    }
    to_.findings.push_back(std::move(f));
    if (!c.is_circle) break;  // the longest one
  }
}

bool has_no_free_state(const looked_wait& w) {
  return w.what != awaited::mutex && w.what != awaited::semaphore && w.what != awaited::rwlock &&
         w.what != awaited::internal_lock;
}

/// Whether threads sleep on a lock whose word says that it is free.
bool is_suspect(const looked_wait& w) {
  return w.is_free.value_or(false) && !has_no_free_state(w) && !w.waiters.empty() &&
         std::all_of(w.waiters.begin(), w.waiters.end(),
                     [](const looked_waiter& t) { return t.is_confirmed && !t.has_time_limit; });
}

void assembler::find_lost() {
  for (std::uint32_t i = 0; i < to_.waits.size(); i++) {
    const looked_wait& w = to_.waits[i];
    if (!is_suspect(w)) continue;
    const double shortest = w.waiters.back().waited;
    if (std::min(w.unchanged, shortest) < lost_after) continue;
    looked_finding f;
    f.what = "lost_wake_up";
    f.seconds = std::min(w.unchanged, shortest);
    f.text = fmt::format(
        "{} {} looks like a lost wake-up: it is free ({}) and has not changed for {:.0f} s, while {} slept on it",
        name_of(w.what), w.name, w.seen, f.seconds, with_noun(w.waiters.size(), "thread"));
    for (const looked_waiter& t : w.waiters) f.threads.push_back(t.tid);
    f.waits.push_back(i);
    to_.findings.push_back(std::move(f));
  }
}

/// Mutexes whose words name a thread that is not alive.
void assembler::find_ended_holders() {
  for (std::uint32_t i = 0; i < to_.waits.size(); i++) {
    const looked_wait& w = to_.waits[i];
    if (!has_ended_owner_[i] || w.holder || w.what == awaited::join || w.waiters.empty()) continue;
    if (!std::all_of(w.waiters.begin(), w.waiters.end(), [](const looked_waiter& t) { return t.is_confirmed; }))
      continue;
    looked_finding f;
    f.what = "holder_ended";
    f.seconds = w.waiters.back().waited;
    f.text = fmt::format("{} {} names a thread as its owner that is not alive any more ({})", name_of(w.what), w.name,
                         w.seen);
    for (const looked_waiter& t : w.waiters) f.threads.push_back(t.tid);
    f.waits.push_back(i);
    to_.findings.push_back(std::move(f));
  }
}

void assembler::count_doings() {
  std::map<std::string, std::uint64_t> counts;
  for (const looked_thread& t : to_.threads) counts[t.does]++;
  for (const auto& [text, n] : counts) to_.doings.push_back({text, n});
  std::stable_sort(to_.doings.begin(), to_.doings.end(),
                   [](const doing& a, const doing& b) { return a.threads > b.threads; });
}

}  // namespace

void assemble(const sighting& s, look_names& names, const look_subject& subject, look_report& to) {
  to.seconds = s.seconds;
  to.passes = s.passes;
  to.threads_seen = s.threads_seen;
  to.is_of_a_part = s.is_of_a_part;
  to.cost = s.cpu_seconds;
  to.stacks_left_out = s.stacks_left_out;
  assembler(s, names, subject, to).run();
}

const frame* own_place(const stack& s) {
  const auto is_of_rust = [](const frame& f) {
    return f.function.find("3std3sys") != std::string::npos || f.function.find("std::sys::") != std::string::npos;
  };
  for (const frame& f : s.frames)
    if (!f.module.empty() && !is_passed_over(f.module) && !wait_of_function(f.function) && !is_of_a_library(f) &&
        !is_of_rust(f))
      return &f;
  // A lambda in a std::thread has a name of the library's.
  for (const frame& f : s.frames)
    if (!f.module.empty() && !is_passed_over(f.module) && !wait_of_function(f.function)) return &f;
  return s.place();
}

bool has_suspect(const look_report& r) {
  return std::any_of(r.waits.begin(), r.waits.end(), [](const looked_wait& w) { return is_suspect(w); });
}

}  // namespace usher::reader
