#include "watch/reader/read/off_cpu.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::reader {
namespace {

// ---- words of a line ----------------------------------------------------------------------------------------------

/// Removes the next word from the text; empty if there is none.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
  text.remove_prefix(word.size());
  return word;
}

template <class T>
bool is_number(std::string_view word, T& to, int base) {
  if (base == 16 && word.starts_with("0x")) word.remove_prefix(2);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), to, base);
  return error == std::errc() && end == word.data() + word.size();
}

struct named_call {
  long number;
  const char* name;
};

// The name futex also stands for the newer calls that wait for one or several futexes.
constexpr named_call named_calls[] = {
    {SYS_futex, "futex"},
    {449, "futex"},  // futex_waitv
    {455, "futex"},  // futex_wait
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread"},
    {SYS_pwrite64, "pwrite"},
    {SYS_preadv, "preadv"},
    {SYS_pwritev, "pwritev"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {441, "epoll_pwait"},  // epoll_pwait2
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_recvmmsg, "recvmmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_sendfile, "sendfile"},
    {SYS_splice, "splice"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept"},
    {SYS_connect, "connect"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_io_getevents, "io_getevents"},
    {426, "io_uring_enter"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_semop, "semop"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_msgrcv, "msgrcv"},
    {SYS_mq_timedreceive, "mq_timedreceive"},
    {SYS_mq_timedsend, "mq_timedsend"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_ioctl, "ioctl"},
    {SYS_openat, "openat"},
    {SYS_close, "close"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_mmap, "mmap"},
    {SYS_munmap, "munmap"},
    {SYS_mprotect, "mprotect"},
    {SYS_madvise, "madvise"},
    {SYS_brk, "brk"},
    {SYS_clone, "clone"},
    {SYS_membarrier, "membarrier"},
    {SYS_exit, "exit"},
    {SYS_exit_group, "exit"},
    {SYS_restart_syscall, "restart_syscall"},  // any call with a time limit, after the thread was stopped
#if defined(SYS_poll)
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
    {SYS_open, "open"},
    {SYS_fork, "fork"},
    {SYS_vfork, "vfork"},
#endif
};

}  // namespace

std::optional<kernel_entry> parse_entry(std::string_view text) {
  kernel_entry e;
  const std::string_view first = next_word(text);
  e.is_running = first == "running";
  if (e.is_running) return e;
  if (!is_number(first, e.number, 10) || e.number < -1) return std::nullopt;
  if (e.number >= 0)
    for (std::uint64_t& a : e.arguments)
      if (!is_number(next_word(text), a, 16)) return std::nullopt;
  const bool is_whole = is_number(next_word(text), e.sp, 16) && is_number(next_word(text), e.pc, 16);
  return is_whole ? std::optional(e) : std::nullopt;
}

std::string name_of_call(std::int64_t number) {
  if (number < 0) return "page fault";
  for (const named_call& c : named_calls)
    if (c.number == number) return c.name;
  return fmt::format("system call {}", number);
}

std::uint32_t awaited_thread(const kernel_entry& e) {
  constexpr std::uint64_t command = 0x7f, is_private = 0x80, wait = 0, wait_bitset = 9;
  const std::uint64_t operation = e.arguments[1];
  if (e.number != SYS_futex || (operation & is_private) != 0) return 0;
  if ((operation & command) != wait && (operation & command) != wait_bitset) return 0;
  return static_cast<std::uint32_t>(e.arguments[2]);
}

bool is_passed_over(std::string_view path) {
  constexpr std::string_view deleted = " (deleted)";
  if (path.ends_with(deleted)) path.remove_suffix(deleted.size());
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const std::string_view library :
       {"libc.so", "libc-2", "libpthread.so", "libpthread-2", "libstdc++.so", "libc++.so", "libc++abi.so", "libgcc_s",
        "ld-linux", "ld-musl", "ld-2", "ld.so", "libusher.so", "libusher-all.so", "libusher-stat.so",
        "libusher-locks.so"})
    if (file.starts_with(library)) return true;
  return false;
}

bool is_library(std::string_view path) {
  return path.substr(path.rfind('/') + 1).find(".so") != std::string_view::npos;
}

bool is_futex(std::int64_t number) {
  return number >= 0 && name_of_call(number) == "futex";
}

// ---- results --------------------------------------------------------------------------------------------------------

std::vector<std::uint32_t> add_modules(const contract::view& copy, const std::vector<sampled_module>& modules) {
  contract::header& h = copy.head();
  std::vector<std::uint32_t> numbers;
  for (const sampled_module& m : modules) {
    numbers.push_back(0);
    const std::uint32_t slot = std::min(h.modules.load(), copy.room().modules), text = h.text.load();
    const std::size_t size = m.path.size();
    if (slot >= copy.room().modules || slot + 1 >= contract::in_no_module || text > copy.room().text ||
        size > copy.room().text - text)
      continue;
    std::memcpy(copy.text() + text, m.path.data(), size);
    contract::module_slot& to = copy.module(slot);
    to.process = m.process;
    to.begin = m.begin;
    to.end = m.end;
    to.bias = m.bias;
    to.identity = m.identity;
    to.path = text;
    to.path_length = static_cast<std::uint32_t>(size);
    to.ready.store(1);
    h.text.store(text + static_cast<std::uint32_t>(size));
    h.modules.store(slot + 1);
    numbers.back() = slot + 1;
  }
  return numbers;
}

namespace {

/// Converts samples into places with names.
class sleep_namer {
 public:
  sleep_namer(const sampled_sleeps& s, const std::vector<std::uint32_t>& numbers, symbols& names)
      : sleeps_(s), numbers_(numbers), names_(names) {}

  off_cpu::place place(const sampled_sleeps::place& p) {
    off_cpu::place to;
    to.call = p.is_join ? "join" : name_of_call(p.number);
    to.is_certain = p.pc == p.caller;
    to.where = stack_at(p.caller);
    to.module = path_of(p.caller);
    to.below = stack_at(p.below);
    if (to.call != "futex" || to.is_certain) return to;
    // The C library's own locks (of malloc, of standard I/O) sleep in this function. Its caller is also in the C
    // library.
    const stack inner = stack_at(p.pc);
    const bool is_internal = std::any_of(inner.frames.begin(), inner.frames.end(),
                                         [](const frame& f) { return f.function == "__lll_lock_wait_private"; });
    if (!is_internal) return to;
    to.where = inner;
    to.below = {};
    to.module = path_of(p.pc);
    to.is_certain = true;
    return to;
  }

  void prepare() {
    std::vector<query> all;
    for (const auto& p : sleeps_.places) {
      // The innermost functions of other calls are not requested, since this would read the C library's symbols.
      const bool needs_inner = !p.is_join && p.pc != p.caller && name_of_call(p.number) == "futex";
      for (const module_offset& at : {needs_inner ? p.pc : module_offset{}, p.caller, p.below})
        if (const query q = query_of(at); q.address != 0) all.push_back(q);
    }
    names_.prepare(all);
  }

 private:
  bool is_known(const module_offset& at) const { return at.module != 0 && at.module <= sleeps_.modules.size(); }
  /// Address 0 if the place has no name.
  query query_of(const module_offset& at) const {
    if (!is_known(at) || at.module > numbers_.size() || numbers_[at.module - 1] == 0) return {};
    const sampled_module& m = sleeps_.modules[at.module - 1];
    return {query::what::code, m.process, contract::word_of(at.offset + m.bias, numbers_[at.module - 1])};
  }
  stack stack_at(const module_offset& at) {
    const query q = query_of(at);
    return q.address != 0 ? names_.resolve(q.process, q.address) : stack{};
  }
  std::string path_of(const module_offset& at) const { return is_known(at) ? sleeps_.modules[at.module - 1].path : ""; }

  const sampled_sleeps& sleeps_;
  const std::vector<std::uint32_t>& numbers_;
  symbols& names_;
};

std::uint64_t rounded(std::uint64_t thousandths) {
  return (thousandths + 500) / 1000;
}

}  // namespace

off_cpu named(const sampled_sleeps& s, const std::vector<std::uint32_t>& numbers, symbols& names) {
  off_cpu to;
  to.observations = s.observations;
  to.unreadable = rounded(s.unreadable);
  to.of_a_part = s.of_a_part;
  to.samples = to.unreadable;
  for (int k = 0; k < contract::kinds; k++) to.samples += to.recorded[k] = rounded(s.recorded[k]);
  sleep_namer namer(s, numbers, names);
  namer.prepare();
  // Several addresses of one function form one place, in all processes. Rounding comes after the sum.
  std::map<std::tuple<std::string, std::string, std::string, std::string>, off_cpu::place> places;
  const auto function_of = [](const stack& its) {
    return its.frames.empty() ? "" : its.frames.back().function + "\n" + its.frames.back().file;
  };
  for (const sampled_sleeps::place& one : s.places) {
    off_cpu::place p = namer.place(one);
    const auto at = places.try_emplace({p.call, p.module, function_of(p.where), function_of(p.below)}, p).first;
    at->second.is_certain = at->second.is_certain && p.is_certain;
    at->second.samples += one.samples;
  }
  for (auto& [key, p] : places) {
    p.samples = rounded(p.samples);
    to.samples += p.samples;
    if (p.samples != 0) to.places.push_back(std::move(p));
  }
  std::stable_sort(to.places.begin(), to.places.end(),
                   [](const off_cpu::place& a, const off_cpu::place& b) { return a.samples > b.samples; });
  return to;
}

// ---- sentences --------------------------------------------------------------------------------------------------------

namespace {

/// A part of a sum, with its words.
struct part {
  std::string words;
  std::uint64_t samples = 0;
  unsigned percent = 0;
};

/// Gives the parts whole percentages whose sum is 100: each is rounded down, and the parts with the largest remainders
/// get the missing percents.
void set_percentages(std::vector<part>& parts, std::uint64_t all) {
  std::vector<std::pair<std::uint64_t, part*>> remainders;
  unsigned left = 100;
  for (part& p : parts) {
    const std::uint64_t scaled = p.samples * 100;
    p.percent = static_cast<unsigned>(scaled / all);
    remainders.emplace_back(scaled % all, &p);
    left -= p.percent;
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (unsigned i = 0; i < left && i < remainders.size(); i++) remainders[i].second->percent++;
}

/// What the sleeping threads waited for: the largest parts first, the sum of the others at the end.
std::vector<part> parts_of(const off_cpu& o) {
  using contract::index_of;
  const auto recorded = [&o](std::initializer_list<kind> kinds) {
    std::uint64_t n = 0;
    for (const kind k : kinds) n += o.recorded[contract::index_of(k)];
    return n;
  };
  std::vector<part> all = {
      {"for recorded locks", recorded({kind::mutex, kind::rwlock, kind::spin})},
      {"for recorded condition variables", recorded({kind::condition})},
      {"for recorded semaphores", recorded({kind::semaphore})},
      {"for recorded barriers", recorded({kind::barrier})},
      {"in calls that the kernel does not show to this user", o.unreadable},
  };
  std::map<std::string, std::uint64_t> others;
  others["for the ends of threads"] = recorded({kind::join});
  for (const off_cpu::place& p : o.places) {
    const std::string module = p.module.empty() ? "unknown code" : std::string(support::file_name(p.module));
    others[p.call == "futex"        ? "in futexes of " + module
           : p.call == "join"       ? "for the ends of threads"
           : p.call == "page fault" ? "in page faults"
                                    : "in " + p.call] += p.samples;
  }
  for (const auto& [words, samples] : others) all.push_back({words, samples});
  const std::uint64_t sum =
      std::accumulate(all.begin(), all.end(), std::uint64_t{0}, [](auto n, const part& p) { return n + p.samples; });
  part rest{"elsewhere"};
  std::erase_if(all, [&](const part& p) {
    const bool is_small = p.samples * 100 < sum || p.samples == 0;
    if (is_small) rest.samples += p.samples;
    return is_small;
  });
  std::stable_sort(all.begin(), all.end(), [](const part& a, const part& b) { return a.samples > b.samples; });
  if (rest.samples != 0) all.push_back(std::move(rest));
  if (sum != 0) set_percentages(all, sum);
  if (!all.empty() && all.back().percent == 0) all.pop_back();
  return all;
}

}  // namespace

std::string off_cpu_text(const report& r) {
  if (!r.asleep || r.asleep->samples == 0) return "";
  constexpr std::size_t most_parts = 8;
  std::vector<part> parts = parts_of(*r.asleep);
  if (parts.size() > most_parts) {
    part rest{"elsewhere"};
    for (std::size_t i = most_parts - 1; i < parts.size(); i++) rest.percent += parts[i].percent;
    parts.resize(most_parts - 1);
    parts.push_back(std::move(rest));
  }
  std::string text = "of the time that threads slept, ";
  for (std::size_t i = 0; i < parts.size(); i++) {
    const std::string_view before = i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ";
    text += fmt::format("{}{} % {}{}", before, parts[i].percent, i == 0 ? "was " : "", parts[i].words);
  }
  constexpr std::uint64_t few = 1000;
  const std::string samples = with_noun(r.asleep->observations, "sample");
  if (r.asleep->of_a_part)
    text += fmt::format(" ({}; of a random part of the threads at a time, or fewer than ten a second)", samples);
  else if (r.asleep->observations < few)
    text += fmt::format(" ({})", samples);
  return text;
}

}  // namespace usher::reader
