#include "lab/recordings/stream_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "support/process/files.hpp"
#include "support/process/stat_line.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace usher::recording {
namespace {

using namespace std::chrono_literals;

constexpr int first_inherited = 1000;  // as in `usher stat`: low descriptor numbers are left to the program

support::owned_descriptor made_file(std::uint64_t size) {
  const auto fail = [size] {
    throw std::runtime_error(
        fmt::format("cannot make a file of {} MiB in memory: {} (--events with a smaller number makes it "
                    "smaller)",
                    size >> 20, std::strerror(errno)));
  };
  support::owned_descriptor file(memfd_create(contract::stream_file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open() || ftruncate(file.get(), static_cast<off_t>(size)) != 0) fail();
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail();
  if (const int high = fcntl(file.get(), F_DUPFD_CLOEXEC, first_inherited); high >= 0)
    file = support::owned_descriptor(high);
  return file;
}

/// Reads a small file of /proc; empty: it cannot be read.
std::string small_file(const std::string& path) {
  return support::content_of(AT_FDCWD, path, 512);
}

std::optional<thread_state> state_of(pid_t pid, pid_t tid, std::uint64_t now) {
  thread_state s;
  const std::string folder = fmt::format("/proc/{}/task/{}/", pid, tid);
  s.at = now;
  const std::string times = small_file(folder + "schedstat");
  if (std::from_chars(times.data(), times.data() + times.size(), s.cpu_ns).ec != std::errc()) return std::nullopt;
  const support::stat_line line(small_file(folder + "stat"));
  s.runs = line.state() == 'R';
  s.name = plain_name(std::string(line.name()));
  constexpr unsigned start = 22, processor = 39;
  s.started = line.number(start).value_or(0);
  s.processor = static_cast<decltype(s.processor)>(line.number(processor).value_or(s.processor));
  return s;
}

std::size_t chunks_for(std::size_t calls) {
  constexpr std::size_t partial = 128;  // room for chunks that threads do not fill. Chosen
  return std::clamp<std::size_t>(calls / contract::stream_chunk::length + partial, 1,
                                 contract::stream_room::most_chunks);
}

}  // namespace

stream_file::stream_file(std::size_t calls)
    : room_{1024, static_cast<std::uint32_t>(chunks_for(calls))},
      descriptor_(made_file(contract::stream_file_size(room_))),
      path_(fmt::format("/proc/{}/fd/{}", getpid(), descriptor_.get())),
      memory_(access::mapped_memory::of_file(descriptor_.get(), contract::stream_file_size(room_))),
      living_(descriptor_.get()),
      known_(room_.threads) {
  contract::stream_header& h = head();
  h.version = contract::stream_version;
  h.ticks_are_tsc = clock_.is_tsc() ? 1 : 0;
  h.size = memory_.size();
  h.ticks_a_ms = clock_.ticks_a_ms();
  h.room = room_;
  h.magic = contract::stream_magic;
}

contract::stream_slot* stream_file::slots() const {
  return reinterpret_cast<contract::stream_slot*>(static_cast<std::byte*>(memory_.begin()) +
                                                  contract::stream_threads_at);
}

std::uint32_t stream_file::threads() const {
  return std::min(read(head().threads), room_.threads);
}

/// Assigns a number to each thread that was not known before.
void stream_file::give_numbers(std::vector<raw_thread>& threads) {
  for (raw_thread& t : threads) {
    known_thread& k = known_[t.slot];
    if (k.tid != t.tid || k.process != t.process || k.self != t.self)
      k = {t.process, t.tid, next_thread_++, t.self, 0, false, false, std::nullopt};
    t.thread = k.number;
    t.before = k.before;
  }
}

/// Reads the thread's state. If the start time shows that another thread has its id now, the thread has ended.
std::optional<thread_state> stream_file::look_at(raw_thread& t) {
  known_thread& k = known_[t.slot];
  if (t.is == raw_thread::life::unknown && !std::exchange(k.is_hidden, true)) hidden_++;
  if (t.is != raw_thread::life::lives) return std::nullopt;
  std::optional<thread_state> s = state_of(t.seen_pid, t.seen_tid, clock_.now());
  if (s && k.started == 0) k.started = s->started;
  if (s && s->started != k.started) {
    t.is = raw_thread::life::over;
    return std::nullopt;
  }
  if (s && !s->name.empty()) t.name = s->name;
  return s;
}

/// Tells the threads of processes without a system-call filter that they may make the system calls that recording
/// needs.
void stream_file::permit_calls(const std::vector<raw_thread>& threads) {
  std::map<std::uint32_t, bool> is_unfiltered;  // by process
  for (const raw_thread& t : threads) {
    if (t.is != raw_thread::life::lives) continue;
    const auto [at, is_new] = is_unfiltered.try_emplace(t.process);
    if (is_new) at->second = living_.has_no_filter(t.process);
    if (!at->second && !std::exchange(known_[t.slot].is_filtered, true)) filtered_++;
  }
  for (const auto& [process, may_ask] : is_unfiltered) {
    std::atomic<std::uint32_t>& entry = head().unfiltered[process % contract::stream_header::processes_at_once];
    if (may_ask)
      entry.store(process, std::memory_order_relaxed);
    else if (read(entry) == process)
      entry.store(0, std::memory_order_relaxed);
  }
}

void stream_file::open_window() {
  window_++;
  const auto begin = static_cast<off_t>(contract::stream_chunks_at(room_) +
                                        contract::first_chunk(room_, window_) * sizeof(contract::stream_chunk));
  const std::size_t size = room_.chunks * sizeof(contract::stream_chunk);
  fallocate(descriptor_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, static_cast<off_t>(size));
  // Allocates the pages here, so that the program's calls cause no page faults. Linux before 5.14 lacks
  // MADV_POPULATE_WRITE.
  madvise(static_cast<std::byte*>(memory_.begin()) + begin, size, MADV_POPULATE_WRITE);
  std::vector<raw_thread> now = threads_of({slots(), threads()});
  give_numbers(now);
  living_.look(now);
  for (raw_thread& t : now) {
    known_[t.slot].before = look_at(t);
    // Allows the slot of an ended thread to be given to another thread.
    if (t.is == raw_thread::life::over) slots()[t.slot].over.store(1, std::memory_order_release);
  }
  permit_calls(now);
  contract::stream_header& h = head();
  h.next_chunk.store(0, std::memory_order_relaxed);
  h.closed_at.store(0, std::memory_order_relaxed);
  h.lost.store(0, std::memory_order_relaxed);
  opened_ = clock_.now();
  h.window.store(window_, std::memory_order_release);
}

double stream_file::used() const {
  return std::min(1.0, static_cast<double>(read(head().next_chunk)) / room_.chunks);
}

bool stream_file::is_open() const {
  return head().window.load(std::memory_order_acquire) == window_;
}

/// Waits until no thread is writing a call, or for about 50 ms: a thread may have lost its CPU in the middle of a
/// write. Then its last call is missing.
void stream_file::await_writers() const {
  std::this_thread::sleep_for(2ms);  // for stores that other CPUs have not made visible yet
  for (int i = 0; i < 50; i++) {
    const bool busy = std::any_of(slots(), slots() + threads(),
                                  [this](const contract::stream_slot& s) { return read(s.busy) == window_; });
    if (!busy) return;
    std::this_thread::sleep_for(1ms);
  }
}

std::optional<raw_window> stream_file::close_window() {
  contract::stream_header& h = head();
  raw_window w;
  w.opened = opened_;
  w.closed = clock_.now();
  std::uint64_t open = window_;
  const bool by_us = h.window.compare_exchange_strong(open, 0, std::memory_order_acq_rel);
  if (!by_us) h.window.store(0, std::memory_order_relaxed);
  w.threads = threads_of({slots(), threads()});
  give_numbers(w.threads);
  living_.look(w.threads);
  for (raw_thread& t : w.threads) t.after = look_at(t);
  await_writers();
  if (!by_us) {
    const std::uint64_t at = read(h.closed_at);
    if (at > w.opened && at < w.closed) w.closed = at;
  }
  w.lost = read(h.lost);
  const std::uint32_t used = std::min(read(h.next_chunk), room_.chunks);
  const auto copy = std::make_unique<contract::stream_chunk[]>(used);
  const std::uint64_t begin =
      contract::stream_chunks_at(room_) + contract::first_chunk(room_, window_) * sizeof(contract::stream_chunk);
  std::memcpy(static_cast<void*>(copy.get()), static_cast<std::byte*>(memory_.begin()) + begin,
              used * sizeof(contract::stream_chunk));
  // Adds the slots of threads whose first call was in this window: these slots may be missing in the list above.
  std::vector<raw_thread> later = threads_of({slots(), threads()});
  give_numbers(later);
  for (raw_thread& t : later) {
    const auto same = [&t](const raw_thread& x) { return x.slot == t.slot; };
    t.sleeping.reset();
    if (std::none_of(w.threads.begin(), w.threads.end(), same)) w.threads.push_back(std::move(t));
  }
  if (!add_calls(w, {copy.get(), used}, window_)) return std::nullopt;
  for (raw_thread& t : w.threads) t.name = t.name.empty() ? "?" : t.name;
  return w;
}

}  // namespace usher::recording
