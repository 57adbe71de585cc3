#include "watch/reader/look/passes.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "support/process/process_ids.hpp"
#include "support/process/stat_line.hpp"
#include "watch/reader/read/small_file.hpp"

namespace usher::reader {
namespace {

using namespace std::chrono_literals;

// Chosen.
constexpr std::size_t most_keys = 4096, fewest_threads = 64;
constexpr std::uint64_t share_of_few = 80, share_of_many = 18;  // of a CPU: 1 / these, for 200 and for 2,000 threads
constexpr std::uint64_t few_threads = 200, many_threads = 2000;
constexpr std::size_t captures_a_pass = 4;
constexpr std::uint64_t look_budget = 300'000'000;  // ns of CPU time for the stacks of a look
constexpr std::size_t most_stack_pages = 2048, most_table_pages = 4096;

std::uint64_t cpu_now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

bool is_futex_wait(const kernel_entry& e) {
  return futex_call_of(e).has_value();
}

}  // namespace

std::int64_t descriptor_of(const kernel_entry& e) {
  if (e.is_running) return -1;
  switch (e.number) {
    case SYS_read:
    case SYS_write:
    case SYS_readv:
    case SYS_writev:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_ioctl:
    case SYS_fcntl:
    case SYS_flock:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_epoll_pwait:
    case SYS_splice:
    case 426:  // io_uring_enter
    case 441:  // epoll_pwait2
#if defined(SYS_epoll_wait)
    case SYS_epoll_wait:
#endif
      return static_cast<std::int32_t>(e.arguments[0]);
    default:
      return -1;
  }
}

passes::passes(pid_t pid, std::chrono::nanoseconds period, std::uint32_t most_threads, bool reads_memory,
               std::atomic<std::uint64_t>& progress)
    : pid_(pid),
      period_(period),
      most_threads_(most_threads),
      progress_(progress),
      reads_memory_(reads_memory),
      random_(std::random_device{}()),
      tables_(pid, most_table_pages),
      stack_pages_(pid, most_stack_pages),
      maps_(pid, tables_),
      unwinder_(maps_, stack_pages_, tables_),
      began_(clock::now()),
      last_(began_) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 16384);
    setrlimit(RLIMIT_NOFILE, &files);
    most_kept_ = files.rlim_cur > 64 ? files.rlim_cur - 64 : 0;
  }
  char folder[32];
  std::snprintf(folder, sizeof folder, "/proc/%d", pid);
  is_inside_ = support::read_own_id(folder).is_inside;
  if (!reads_memory_) tables_.refuse(), stack_pages_.refuse();
  shows_no_memory_ = !reads_memory_;
}

std::uint64_t passes::spent() const {
  return cpu_now() - began_cpu_;
}

void passes::list_threads() {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid_);
  // The folder's number of links is that of its threads, + 2, and is read faster than the folder.
  constexpr std::uint64_t listed_every = 16;
  struct ::stat folder {};
  const bool has_links = ::stat(path, &folder) == 0;
  if (has_links && !order_.empty() && folder.st_nlink == links_ && pass_ % listed_every != 0) {
    for (const pid_t tid : order_) threads_[tid].listed = pass_;
    return;
  }
  links_ = has_links ? folder.st_nlink : 0;
  order_.clear();
  const bool lives = support::each_number(path, [&](pid_t tid) {
    if (order_.size() < most_threads_)
      order_.push_back(tid);
    else
      is_of_a_part_ = true;
  });
  has_ended_ = !lives || order_.empty();
  for (const pid_t tid : order_) threads_[tid].listed = pass_;
  if (threads_.size() == order_.size()) return;
  for (auto at = threads_.begin(); at != threads_.end();) {
    if (at->second.listed == pass_) {
      ++at;
      continue;
    }
    give_back(at->second);
    at = threads_.erase(at);
  }
}

void passes::give_back(const thread& t) {
  kept_ -= (t.schedule.is_open() ? 1u : 0u) + (t.call.is_open() ? 1u : 0u);
}

/// Reads the thread's system call. Its file stays open if there is room.
std::optional<kernel_entry> passes::read_call(pid_t tid, thread& t) {
  char text[256];
  ssize_t n = -1;
  if (t.call.is_open()) {
    n = pread(t.call.get(), text, sizeof text, 0);
  } else {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid_, tid);
    support::owned_descriptor file(open(path, O_RDONLY | O_CLOEXEC));
    n = file.is_open() ? pread(file.get(), text, sizeof text, 0) : -1;
    if (n < 0 && (errno == EPERM || errno == EACCES || errno == ENOENT))
      shows_no_calls_ = errno != ENOENT || !has_calls_;
    if (n > 0 && kept_ < most_kept_) {
      kept_++;
      t.call = std::move(file);
    }
  }
  if (n <= 0) return std::nullopt;
  has_calls_ = true;
  return parse_entry(std::string_view(text, static_cast<std::size_t>(n)));
}

/// Reads how often the thread was put on a CPU, and its CPU time. False: the kernel does not tell, or it has ended.
bool passes::read_schedule(pid_t tid, thread& t, std::uint64_t& runs, std::uint64_t& cpu) {
  char text[96];
  ssize_t n = -1;
  if (!t.schedule.is_open()) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid_, tid);
    support::owned_descriptor file(open(path, O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return false;
    n = pread(file.get(), text, sizeof text, 0);
    if (n > 0 && kept_ < most_kept_) {
      kept_++;
      t.schedule = std::move(file);
    }
  } else {
    n = pread(t.schedule.get(), text, sizeof text, 0);
    if (n <= 0) {  // it has ended, and another thread may have its number
      give_back(t);
      t = {};
      t.listed = pass_;
      return false;
    }
  }
  const auto times = n > 0 ? parse_schedule(std::string_view(text, static_cast<std::size_t>(n))) : std::nullopt;
  if (!times) return false;
  runs = times->runs;
  cpu = times->ran;
  return true;
}

std::uint32_t passes::key_of(const kernel_entry& e) {
  const bool is_futex = is_futex_wait(e);
  const key_id id{e.number, is_futex || descriptor_of(e) >= 0 ? e.arguments[0] : 0, is_futex ? 0 : e.pc};
  const auto known = key_numbers_.find(id);
  if (known != key_numbers_.end()) return known->second + 1;
  if (keys_.size() >= most_keys) return 0;
  const auto n = static_cast<std::uint32_t>(keys_.size());
  keys_.emplace_back().seen.entry = e;
  key_numbers_.emplace(id, n);
  if (is_futex) new_keys_.push_back(n);
  return n + 1;
}

void passes::begin_sleep(pid_t tid, thread& t, clock::time_point now) {
  t.is_known = true;
  t.has_stack = false;
  t.stack = {};
  t.kernel_place.clear();
  t.file.clear();
  t.key = 0;
  t.since = now;
  t.entry.reset();
  if (const auto entry = read_call(tid, t)) {
    t.is_asleep = !entry->is_running;
    t.entry = entry;
    if (t.is_asleep) t.key = key_of(*entry);
    return;
  }
  const support::stat_line line{std::string(small_file("/proc/%d/task/%d/stat", pid_, tid).text())};
  t.state = line.state();
  t.is_asleep = t.state == 'S' || t.state == 'D';
}

void passes::count(thread& t) {
  if (!t.is_asleep || t.key == 0) return;
  key& k = keys_[t.key - 1];
  if (k.now_pass != pass_) k.now_pass = pass_, k.now = 0;
  k.now++;
  k.seen.samples++;
  k.seen.waited += interval_ * scale_;
  k.seen.most = std::max(k.seen.most, k.now);
}

void passes::look_at(pid_t tid, thread& t, clock::time_point now) {
  std::uint64_t runs = 0, cpu = 0;
  if (t.own == 0) {
    char folder[64];
    std::snprintf(folder, sizeof folder, "/proc/%d/task/%d", pid_, tid);
    t.own = is_inside_ ? support::read_own_id(folder).id : static_cast<std::uint32_t>(tid);
  }
  const bool had = t.has_schedule;
  t.has_schedule = read_schedule(tid, t, runs, cpu);
  if (!t.has_schedule) {  // no such file, as in gVisor
    begin_sleep(tid, t, now);
    return count(t);
  }
  if (!had) t.first_cpu = cpu;
  if (!had || !t.is_known || runs != t.runs || !t.is_asleep) {
    // A thread that has run since may have begun to sleep at any time in between: it counts from now on. It counts
    // as in the same call only while its runs do not change.
    begin_sleep(tid, t, now);
  }
  t.runs = runs;
  t.cpu = cpu;
  count(t);
}

void passes::pass() {
  pass_++;
  began_cpu_ = cpu_now();
  const auto now = clock::now();
  interval_ =
      std::min(std::chrono::duration<double>(now - last_).count(), std::chrono::duration<double>(4 * period_).count());
  last_ = now;
  list_threads();
  const std::size_t n = order_.size();
  const std::uint64_t share = n <= few_threads ? share_of_few : n >= many_threads ? share_of_many : 25;
  const std::uint64_t budget = static_cast<std::uint64_t>(period_.count()) / share;
  const std::size_t first = n != 0 ? random_() % n : 0;
  std::size_t read = 0;
  // The first pass reads all, so that the first look has them.
  scale_ = 1;
  for (; read < n && (pass_ == 1 || read < fewest_threads || read % 16 != 0 || spent() < budget); read++) {
    const pid_t tid = order_[(first + read) % n];
    look_at(tid, threads_[tid], now);
    if (read % 64 == 0) progress_++;
  }
  if (read < n) is_of_a_part_ = true;
  progress_++;
  read_words(now);
  if (pass_ > 1 && (spent() < budget || pass_ % 8 == 0)) capture_new();
  progress_++;
}

/// Reads the words of all futexes for which threads wait, many in one call.
void passes::read_words(clock::time_point now) {
  if (!reads_memory_) return;
  constexpr std::size_t at_once = 512;
  std::vector<std::uint32_t> which;
  for (std::uint32_t i = 0; i < keys_.size(); i++)
    if (keys_[i].now_pass == pass_ && is_futex_wait(keys_[i].seen.entry)) which.push_back(i);
  for (std::size_t begin = 0; begin < which.size();) {
    const std::size_t n = std::min(at_once, which.size() - begin);
    std::vector<std::uint32_t> words(n);
    std::vector<iovec> here(n), there(n);
    for (std::size_t i = 0; i < n; i++) {
      here[i] = {&words[i], sizeof words[i]};
      there[i] = {reinterpret_cast<void*>(
                      keys_[which[begin + i]].seen.entry.arguments[0]),  // NOLINT(performance-no-int-to-ptr)
                  sizeof words[i]};
    }
    const ssize_t got = process_vm_readv(pid_, here.data(), n, there.data(), n, 0);
    if (got < 0 && errno == EPERM) {
      shows_no_memory_ = true;
      return;
    }
    const std::size_t good = got > 0 ? static_cast<std::size_t>(got) / sizeof words[0] : 0;
    for (std::size_t i = 0; i < good; i++) {
      key& k = keys_[which[begin + i]];
      if (!k.has_word || k.word != words[i]) k.word_since = now;
      k.has_word = true;
      k.word = words[i];
    }
    if (good < n) keys_[which[begin + good]].has_word = false;  // not mapped
    begin += std::min(good + 1, n);
    progress_++;
  }
}

void passes::refresh_maps() {
  if (maps_.read()) {
    tables_.forget();
    unwinder_.forget();
  }
  maps_read_ = clock::now();
}

futex_words passes::words_at(std::uint64_t address, bool& any) {
  futex_words w;
  any = false;
  if (!reads_memory_ || address < std::uint64_t{4 * futex_words::before}) return w;
  const std::uint64_t begin = address - std::uint64_t{4 * futex_words::before}, size = sizeof w.word;
  constexpr std::uint64_t page = target_pages::page;
  // Two parts, since one of two pages may not be mapped.
  const std::uint64_t in_first = std::min(size, page - begin % page);
  iovec here[2] = {{w.word.data(), in_first}, {reinterpret_cast<char*>(w.word.data()) + in_first, size - in_first}};
  const auto read_part = [&](const iovec& to, std::uint64_t from) {
    if (to.iov_len == 0) return;
    const iovec there{reinterpret_cast<void*>(from), to.iov_len};  // NOLINT(performance-no-int-to-ptr)
    if (process_vm_readv(pid_, &to, 1, &there, 1, 0) != static_cast<ssize_t>(to.iov_len)) return;
    for (std::uint64_t i = (from - begin) / 4; i < (from - begin + to.iov_len) / 4; i++) w.known |= 1u << i;
  };
  const iovec there{reinterpret_cast<void*>(begin), size};  // NOLINT(performance-no-int-to-ptr)
  const iovec all{w.word.data(), size};
  if (process_vm_readv(pid_, &all, 1, &there, 1, 0) == static_cast<ssize_t>(size)) {
    w.known = ~0u;
  } else if (in_first < size) {
    w.word = {};
    read_part(here[0], begin);
    read_part(here[1], begin + in_first);
  }
  any = w.known != 0;
  return w;
}

/// Keeps words and stack of an object that is seen for the first time: at the next look its wait may be over.
void passes::capture_new() {
  if (!reads_memory_) return;
  std::size_t captured = 0;
  stack_pages_.forget();
  while (!new_keys_.empty() && captured < captures_a_pass) {
    const std::uint32_t number = new_keys_.back();
    new_keys_.pop_back();
    key& k = keys_[number];
    if (k.seen.stack.pc.empty()) {
      if (maps_read_ == clock::time_point{} || clock::now() - maps_read_ > 10s) refresh_maps();
      k.seen.words = words_at(k.seen.entry.arguments[0], k.seen.has_words);
      k.seen.stack = unwinder_.unwind(k.seen.entry.sp, k.seen.entry.pc);
      captured++;
      progress_++;
    }
  }
}

/// Reads the stacks of sleeping threads: of waits for futexes first.
void passes::read_stacks(sighting& s, std::vector<std::pair<pid_t, thread*>>& asleep) {
  std::stable_sort(asleep.begin(), asleep.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const thread& t) { return t.entry && is_futex_wait(*t.entry) ? 0 : 1; };
    return rank(*a.second) < rank(*b.second);
  });
  const std::uint64_t begin = cpu_now();
  constexpr std::size_t most_frames = 65536;
  std::size_t frames = 0;
  for (auto& [tid, t] : asleep) {
    if (t->has_stack || !t->entry) continue;
    if (cpu_now() - begin > look_budget || frames > most_frames) {
      s.stacks_left_out++;
      continue;
    }
    // The thread may have run since the pass: its call is read once more if so, and its stack counts only if it has not
    // run while that was read.
    std::uint64_t runs = 0, cpu = 0;
    if (t->has_schedule) {
      if (!read_schedule(tid, *t, runs, cpu)) continue;
      if (runs != t->runs) {
        t->runs = runs;
        t->cpu = cpu;
        begin_sleep(tid, *t, clock::now());
      }
      if (!t->is_asleep || !t->entry) continue;
    }
    stack_pages_.forget();
    t->stack = unwinder_.unwind(t->entry->sp, t->entry->pc);
    t->has_stack = !t->has_schedule || (read_schedule(tid, *t, runs, cpu) && runs == t->runs);
    if (!t->has_stack) t->stack = {};
    frames += t->stack.pc.size();
    progress_++;
  }
}

sighted_thread passes::sighted(pid_t tid, thread& t, clock::time_point now) {
  sighted_thread to;
  to.tid = tid;
  to.own = t.own;
  const support::stat_line line{std::string(small_file("/proc/%d/task/%d/stat", pid_, tid).text())};
  to.state = line.state();
  to.name = line.name();
  to.cpu_seconds = t.cpu >= t.first_cpu ? static_cast<double>(t.cpu - t.first_cpu) * 1e-9 : 0;
  if (!t.is_asleep) {
    to.has_entry = t.entry.has_value();
    if (t.entry) to.entry = *t.entry;
    return to;
  }
  to.has_entry = t.entry.has_value();
  to.key = t.key;
  to.waited = std::max(0.0, std::chrono::duration<double>(now - t.since).count());
  if (t.entry) {
    to.entry = *t.entry;
    to.descriptor = descriptor_of(*t.entry);
    if (to.descriptor >= 0 && t.file.empty()) {
      char path[64], link[256];
      std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid_, static_cast<int>(to.descriptor));
      const ssize_t n = readlink(path, link, sizeof link);
      if (n > 0) t.file.assign(link, static_cast<std::size_t>(n));
    }
    to.file = t.file;
  }
  const bool needs_place = !t.entry || t.entry->number < 0;
  if (needs_place && t.kernel_place.empty()) t.kernel_place = small_file("/proc/%d/task/%d/wchan", pid_, tid).text();
  to.kernel_place = t.kernel_place;
  return to;
}

/// The second reading: runs, calls, words. `words`: those of the first, by key.
void passes::confirm(sighting& s, const first_words& words) {
  std::unordered_map<std::uint32_t, bool> same;
  for (const auto& [k, first] : words) {
    bool any = false;
    const futex_words again = words_at(keys_[k - 1].seen.entry.arguments[0], any);
    same[k] = first.second && any && first.first.at(0) == again.at(0) && first.first == again;
    keys_[k - 1].seen.words = again;
    keys_[k - 1].seen.has_words = any;
    progress_++;
  }
  for (sighted_thread& to : s.threads) {
    const auto at = threads_.find(to.tid);
    if (at == threads_.end() || !at->second.is_asleep || !at->second.entry) continue;
    thread& t = at->second;
    std::uint64_t runs = 0, cpu = 0;
    const std::uint64_t runs_before = t.runs;
    const bool has_runs = t.has_schedule && read_schedule(to.tid, t, runs, cpu) && runs == runs_before;
    const auto entry = read_call(to.tid, t);
    const bool is_same_call = entry && !entry->is_running && entry->number == to.entry.number &&
                              entry->arguments == to.entry.arguments && entry->sp == to.entry.sp &&
                              entry->pc == to.entry.pc;
    const auto of = same.find(to.key);
    const bool has_same_words = of != same.end() ? of->second : !is_futex_wait(to.entry);
    to.is_confirmed = has_runs && is_same_call && has_same_words;
    to.has_stack = t.has_stack;
    if (to.has_stack) to.stack = t.stack;
    progress_++;
  }
}

/// All addresses of the stacks and keys get their modules, so that names can be looked for.
void passes::add_modules(sighting& s) {
  for (const sighted_thread& t : s.threads)
    for (const std::uint64_t pc : t.stack.pc) maps_.module_at(pc - 1);
  for (const sighted_key& k : s.keys) {
    for (const std::uint64_t pc : k.stack.pc) maps_.module_at(pc - 1);
    if (is_futex_wait(k.entry)) maps_.module_at(k.entry.arguments[0]);
  }
  s.modules = maps_.modules();
  for (const std::string& p : maps_.paths())
    if (p.starts_with('/') && s.files.size() < 1024) s.files.push_back(p);
}

sighting passes::look() {
  sighting s;
  pass();
  stack_pages_.forget();
  if (reads_memory_) refresh_maps();
  const auto now = clock::now();
  std::vector<std::pair<pid_t, thread*>> asleep;
  for (auto& [tid, t] : threads_)
    if (t.is_asleep) asleep.emplace_back(tid, &t);
  if (reads_memory_) read_stacks(s, asleep);
  first_words words;
  for (const auto& [tid, t] : asleep) {
    if (!t->is_asleep || !t->entry || t->key == 0 || !is_futex_wait(*t->entry) || words.contains(t->key)) continue;
    auto& [w, any] = words[t->key];
    w = words_at(t->entry->arguments[0], any);
    progress_++;
  }
  for (const pid_t tid : order_)
    if (const auto at = threads_.find(tid); at != threads_.end()) s.threads.push_back(sighted(tid, at->second, now));
  confirm(s, words);
  for (key& k : keys_) {
    k.seen.unchanged = k.has_word ? std::chrono::duration<double>(now - k.word_since).count() : 0;
    s.keys.push_back(k.seen);
  }
  s.passes = pass_;
  s.threads_seen = order_.size();
  s.seconds = std::chrono::duration<double>(clock::now() - began_).count();
  s.cpu_seconds = static_cast<double>(cpu_now()) * 1e-9;
  s.is_of_a_part = is_of_a_part_ || maps_.was_cut();
  s.shows_no_calls = shows_no_calls_;
  s.shows_no_memory = shows_no_memory_;
  s.has_ended = has_ended_;
  s.is_inside = is_inside_;
  add_modules(s);
  return s;
}

}  // namespace usher::reader
