#include "watch/reader/attach/attach.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

#include "library/preload/status_record.hpp"
#include "support/process/running_process.hpp"
#include "watch/contract/attach_point.hpp"
#include "watch/contract/format.hpp"
#include "watch/reader/attach/in_child.hpp"
#include "watch/reader/attach/stopped_process.hpp"
#include "watch/reader/attach/system_call_filter.hpp"
#include "watch/reader/attach/target_memory.hpp"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace usher::reader {
namespace {

using namespace std::chrono_literals;
using contract::attach_failure;
using contract::attach_point;
using contract::attach_request;

constexpr auto shortly = 10s;           // for steps that need no call of the process
constexpr auto heartbeat_watched = 2s;  // longer than an observer's heartbeat period
constexpr auto heartbeat_period = 50ms;

std::uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000 + static_cast<std::uint64_t>(t.tv_nsec);
}

std::string text_of(const attach_point::text& t) {
  return std::string(t.data(), strnlen(t.data(), t.size()));
}

/// The error message for a process whose libusher.so has the version `its`, which this command cannot record.
std::string other_version(pid_t pid, const std::string& its) {
  return fmt::format(
      "process {} runs under Usher {}, and this command is of {}: use the command that belongs to it, or "
      "start the process anew",
      pid, its.empty() ? "of another version" : its, USHER_VERSION);
}

/// Watches a heartbeat word in the process's memory. True if it changes: then its observer is alive.
bool beats(const target_memory& memory, std::uint64_t at) {
  std::uint64_t first = 0, now = 0;
  if (!memory.read(at, first)) return false;
  const auto until = std::chrono::steady_clock::now() + heartbeat_watched;
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(20ms);
    if (memory.read(at, now) && now != first) return true;
  }
  return false;
}

/// Whether another living observer records the process, or has requested a record.
bool is_observed(const target_memory& memory, std::uint64_t at, const attach_point& p) {
  if (const std::uint64_t file = p.file.load(); file != 0) {
    std::uint32_t enabled = 0;
    if (memory.read(file + offsetof(contract::header, enabled), enabled) && enabled != 0 &&
        beats(memory, file + offsetof(contract::header, heartbeat)))
      return true;
  }
  return p.request.number != p.answered.load() && beats(memory, at + offsetof(attach_point, heartbeat));
}

/// Whether another observer has written a request, or the library has answered one, since `p` was read.
bool has_changed(const attach_point& p, const attach_point& now) {
  return p.request.number != now.request.number || p.answered.load() != now.answered.load() ||
         p.file.load() != now.file.load();
}

/// Whether this process and the other are in the same time namespace, so that their monotonic clocks agree. True if
/// unknown.
bool has_our_time(pid_t pid) {
  struct stat its {
  }, ours{};
  return ::stat(fmt::format("/proc/{}/ns/time", pid).c_str(), &its) != 0 || ::stat("/proc/self/ns/time", &ours) != 0 ||
         its.st_ino == ours.st_ino;
}

/// The process's limit of `ulimit -f` in bytes. A larger record would make the kernel kill the process by SIGXFSZ.
std::uint64_t largest_file_of(pid_t pid) {
  constexpr std::string_view name = "Max file size";
  std::ifstream in(fmt::format("/proc/{}/limits", pid));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name) &&
        line.find("unlimited") != name.size() + line.substr(name.size()).find_first_not_of(' '))
      return std::strtoull(line.c_str() + name.size(), nullptr, 10);
  return ~std::uint64_t{0};
}

bool send_descriptor(int channel, int sent) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof sent)] = {};
  char byte = 0;
  iovec one{&byte, 1};
  msghdr m{};
  m.msg_iov = &one;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&m);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof sent);
  std::memcpy(CMSG_DATA(head), &sent, sizeof sent);
  return sendmsg(channel, &m, 0) == 1;
}

int received_descriptor(int channel) {
  int received = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof received)] = {};
  char byte = 0;
  iovec one{&byte, 1};
  msghdr m{};
  m.msg_iov = &one;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  if (recvmsg(channel, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* const head = CMSG_FIRSTHDR(&m);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof received)) return -1;
  std::memcpy(&received, CMSG_DATA(head), sizeof received);
  return received;
}

/// Whether this command can record a process whose library has this attach point.
bool fits(const attach_point& p) {
  return p.magic == attach_point::expected && text_of(p.version) == USHER_VERSION && p.format == contract::version &&
         p.calls != 0 && p.calls <= attach_point::most_calls;
}

/// The results of examine(): the address of the attach point, and the number of its last request.
struct examined {
  std::uint64_t point;
  std::uint32_t request;
};

/// The version in the status record of a library that has no attach point of this layout; empty if it has no status
/// record.
std::string version_of(const target_memory& memory, const support::loaded_library& library) {
  preload::status_record status{};
  const auto at = memory.find(library, preload::status_record::expected.data());
  if (!at || !memory.read(*at, &status, sizeof status)) return "";
  return std::string(status.version.data(), strnlen(status.version.data(), status.version.size()));
}

/// Searches for the library's attach point. Returns an error message, or the bytes of an `examined`.
std::string examine(pid_t pid, const target_memory& memory) {
  const auto library = support::library_of(pid);
  if (!library)
    return fmt::format(
        "process {} does not run under Usher: start it by usher run -- CMD (usher run --lock pthread -- CMD keeps the "
        "C "
        "library's locks)",
        pid);
  if (memory.error() != 0) return support::refusal(pid);
  const auto at = memory.find(*library, attach_point::expected.data());
  alignas(attach_point) char bytes[sizeof(attach_point)], later[sizeof(attach_point)];
  if (!at || !memory.read(*at, bytes, sizeof bytes)) {
    return other_version(pid, version_of(memory, *library));
  }
  const auto& p = *reinterpret_cast<const attach_point*>(bytes);
  // A living observer writes its heartbeat into the attach point until its request is answered, then into the file. If
  // the request is answered while is_observed() watches the attach point, that heartbeat stops although the observer
  // lives. So after a change the process is examined again; after a further change it counts as observed.
  constexpr int most_looks = 2;
  for (int look = 0;; look++) {
    if (!fits(p)) return other_version(pid, text_of(p.version));
    if (look == most_looks || is_observed(memory, *at, p))
      return fmt::format("process {} is being recorded by another usher stat: wait for its end", pid);
    if (!memory.read(*at, later, sizeof later)) return support::refusal(pid);
    if (!has_changed(p, *reinterpret_cast<const attach_point*>(later))) break;
    std::memcpy(bytes, later, sizeof bytes);
  }
  const examined found{*at, p.request.number};
  return std::string(1, '\0') + std::string(reinterpret_cast<const char*>(&found), sizeof found);
}

/// The reason why a process with system-call filters is not recorded; empty if the filters permit it. Called in the
/// child that has stopped the process's threads.
std::string objection_to_filters(const std::vector<pid_t>& threads) {
  std::vector<filter_program> last;
  const auto same = [](const filter_program& a, const filter_program& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
  };
  for (const pid_t tid : threads) {
    const auto filters = filters_of(tid);
    if (!filters)
      return fmt::format(
          "it has a system-call filter, which may kill it for what a recording does, and {}: start it by usher stat -- "
          "CMD, or, if the filter permits the calls of docs/security.md, add --trust-filter",
          errno == EACCES ? "only root may read it"
                          : fmt::format("this kernel does not show it ({})", std::strerror(errno)));
    if (std::equal(filters->begin(), filters->end(), last.begin(), last.end(), same)) continue;
    if (const std::string why = objection_of(*filters); !why.empty())
      return fmt::format("it has a system-call filter, and {}: start it by usher stat -- CMD", why);
    last = *filters;
  }
  return "";
}

}  // namespace

attachment::attachment(pid_t pid, const attach_options& options)
    : pid_(pid), options_(options), memory_(pid), process_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

attachment::~attachment() {
  if (process_ >= 0) close(process_);
}

/// Writes the request for a record into the process's memory. Called in a child, while all threads of the process are
/// stopped. `before`: the request's number when the process was examined. If it has changed, another observer has
/// written a request.
std::string attachment::write_request(std::uint32_t before) const {
  alignas(attach_point) char bytes[sizeof(attach_point)];
  const auto failed = [this](const char* what) {
    return fmt::format("the memory of process {} cannot be {}: {}", pid_, what, std::strerror(errno));
  };
  if (!memory_.read(point_, bytes, sizeof bytes)) return failed("read");
  const auto& p = *reinterpret_cast<const attach_point*>(bytes);
  if (p.request.number != before)
    return fmt::format("process {} is being recorded by another usher stat: wait for its end", pid_);
  if (!fits(p)) return other_version(pid_, text_of(p.version));
  std::uint64_t pointers[attach_point::most_calls];
  const std::size_t size = p.calls * sizeof pointers[0];
  if (!memory_.read(reinterpret_cast<std::uint64_t>(p.first_calls), pointers, size)) return failed("read");
  const attach_request request{before + 1,
                               options_.record.objects,
                               options_.record.hold_times ? 1u : 0u,
                               clock_.is_tsc() ? 1u : 0u,
                               options_.record.with_waits ? 1u : 0u,
                               0,
                               clock_.ticks_a_ms()};
  const std::uint64_t now = monotonic_ns();
  const bool written = memory_.write(point_ + offsetof(attach_point, heartbeat), &now, sizeof now) &&
                       memory_.write(point_ + offsetof(attach_point, request), &request, sizeof request) &&
                       memory_.write(reinterpret_cast<std::uint64_t>(p.current_calls), pointers, size);
  return written ? "" : failed("written");
}

std::string attachment::ask(const interruption& interrupted) {
  if (const std::string error = objection_to_modes(pid_, has_filter_); !error.empty())
    return fmt::format("process {} cannot be recorded: {}", pid_, error);
  if (!has_our_time(pid_)) return fmt::format("process {} is in another time namespace", pid_);
  if (const std::uint64_t most = largest_file_of(pid_); most < access::record_file::size_for(options_.record))
    return fmt::format("process {} may not make a file of {} MiB (ulimit -f): the attempt would kill it", pid_,
                       access::record_file::size_for(options_.record) >> 20);
  const auto found = in_child([this] { return examine(pid_, memory_); }, shortly, interrupted);
  if (!found) return fmt::format("process {} could not be examined: interrupted, or its memory does not answer", pid_);
  examined e{};
  if (found->empty() || found->front() != '\0' || found->size() != 1 + sizeof e) return *found;
  std::memcpy(&e, found->data() + 1, sizeof e);
  point_ = e.point;
  number_ = e.request + 1;
  const bool ask_filter = has_filter_ && !options_.trust_filter;
  stand_still s;
  for (int attempt = 0; attempt < 20; attempt++) {
    s = while_stopped(
        pid_,
        [&](const std::vector<pid_t>& threads) {
          if (ask_filter)
            if (std::string why = objection_to_filters(threads); !why.empty()) return why;
          return write_request(e.request);
        },
        interrupted);
    // Tries again if another observer is stopping the threads at the same time. If a thread stopped too late, tries
    // three times in all: on a busy machine a thread may wait long for a CPU.
    constexpr int most_late = 3;
    if (interrupted() || !(s.is_busy || (s.is_late && attempt + 1 < most_late))) break;
    std::this_thread::sleep_for(s.is_late ? 200ms : std::chrono::milliseconds(5 + getpid() % 7));
  }
  stopped_seconds_ = s.seconds;
  stopped_threads_ = s.threads;
  if (s.error.empty()) return "";
  if (s.is_busy)
    return fmt::format(
        "process {} may not be stopped for a moment: {} (it takes what a debugger takes: root, or "
        "kernel.yama.ptrace_scope=0, and no other debugger)",
        pid_, s.error);
  return fmt::format("process {} cannot be recorded: {}", pid_, s.error);
}

std::unique_ptr<access::record_file> attachment::take(std::chrono::milliseconds limit,
                                                      const interruption& interrupted) {
  struct answer {
    std::int32_t descriptor, error;
    std::uint32_t failed;
  };
  const auto found = in_child(
      [this] {
        alignas(attach_point) char bytes[sizeof(attach_point)];
        auto next_beat = std::chrono::steady_clock::now();
        auto pause = 500us;
        while (memory_.read(point_, bytes, sizeof bytes)) {
          const auto& p = *reinterpret_cast<const attach_point*>(bytes);
          if (p.answered.load() == number_) {
            const answer a{p.descriptor.load(), p.error.load(), p.failed_call.load()};
            return std::string(reinterpret_cast<const char*>(&a), sizeof a);
          }
          if (std::chrono::steady_clock::now() >= next_beat) {
            const std::uint64_t now = monotonic_ns();
            memory_.write(point_ + offsetof(attach_point, heartbeat), &now, sizeof now);
            next_beat = std::chrono::steady_clock::now() + heartbeat_period;
          }
          std::this_thread::sleep_for(pause);
          pause = std::min(pause * 2, 8000us);
        }
        return std::string();
      },
      limit, interrupted);
  answer a{};
  if (!found || found->size() != sizeof a) return nullptr;
  std::memcpy(&a, found->data(), sizeof a);
  if (a.failed != 0) {
    constexpr const char* steps[] = {"", "make a file in memory", "resize it", "seal it", "map it", "answer in time"};
    error_ = fmt::format("process {} could not {}: {}", pid_, a.failed < std::size(steps) ? steps[a.failed] : "record",
                         std::strerror(a.error));
    return nullptr;
  }
  return take_file(a.descriptor);
}

/// Duplicates the process's descriptor of this number into the calling child. It may refer to any file: to use or close
/// one of the process's own file system (FUSE) could block for ever. So the child passes it to the observer only if it
/// has seals, which only memory files have. On kernels before 5.6 the child reopens the file, after a check that it is
/// a regular file in memory: to open a device or a pipe would have effects.
int attachment::descriptor_of(int number) const {
  int own = process_ >= 0 ? static_cast<int>(syscall(SYS_pidfd_getfd, process_, number, 0)) : -1;
  if (own >= 0 || (process_ >= 0 && errno != ENOSYS && errno != EPERM)) return own;
  const int handle = open(fmt::format("/proc/{}/fd/{}", pid_, number).c_str(), O_PATH | O_CLOEXEC);
  struct stat s {};
  struct statfs f {};
  if (handle < 0 || fstatfs(handle, &f) != 0 || f.f_type != TMPFS_MAGIC || fstat(handle, &s) != 0 ||
      !S_ISREG(s.st_mode))
    return -1;
  return open(fmt::format("/proc/self/fd/{}", handle).c_str(), O_RDWR | O_CLOEXEC);
}

std::unique_ptr<access::record_file> attachment::take_file(int number) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    error_ = std::strerror(errno);
    return nullptr;
  }
  const support::owned_descriptor receiver(ends[0]), sender(ends[1]);
  const auto why = in_child(
      [&] {
        const int file = descriptor_of(number);
        if (file < 0 && errno == EBADF)  // or a child between vfork() and exec, which has other descriptors, answered
          return std::string("the process has closed its descriptor; try again");
        if (file < 0) return std::string(std::strerror(errno));
        if (fcntl(file, F_GET_SEALS) < 0) return std::string("it is no file in memory");
        return send_descriptor(sender.get(), file) ? std::string() : std::string(std::strerror(errno));
      },
      shortly, [] { return false; });
  const int own = why && why->empty() ? received_descriptor(receiver.get()) : -1;
  if (own < 0) {
    error_ = fmt::format("the record of process {} cannot be taken over: {}", pid_,
                         why && !why->empty() ? *why : "its descriptor does not answer; try again");
    return nullptr;
  }
  try {
    auto file = access::record_file::taken(own, options_.record);
    file->live().head().taken.store(1);
    return file;
  } catch (const std::exception& e) {
    error_ = fmt::format("the record of process {} cannot be used: {}", pid_, e.what());
    return nullptr;
  }
}

}  // namespace usher::reader
