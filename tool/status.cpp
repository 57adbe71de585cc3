// usher status: whether a running process has Usher's library, with its lock and version; if not, the reason.
#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "library/preload/status_record.hpp"
#include "support/command/lock_facts.hpp"
#include "support/locks.hpp"
#include "support/process/library_names.hpp"
#include "support/process/near.hpp"
#include "support/process/preload.hpp"
#include "support/process/running_process.hpp"
#include "support/process/target.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/utf8.hpp"
#include "tool/commands.hpp"

namespace usher::tool {
namespace {

using preload::outcome;
using preload::status_record;

/// The memory of a process, or a file, from which data is read at an offset.
class readable {
 public:
  explicit readable(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~readable() {
    if (fd_ >= 0) close(fd_);
  }
  readable(const readable&) = delete;
  readable& operator=(const readable&) = delete;

  bool read(std::uint64_t at, void* to, std::size_t size) const {
    return pread(fd_, to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  }
  std::uint64_t size() const {
    const off_t end = lseek(fd_, 0, SEEK_END);
    return end < 0 ? 0 : static_cast<std::uint64_t>(end);
  }

 private:
  int fd_;
};

/// Searches this range for the library's record. False if there is none.
bool find_record(const readable& in, support::address_range part, status_record& found) {
  constexpr std::uint64_t most = 64 << 20;  // chosen: the library has a few MiB
  if (part.end - part.begin > most) return false;
  std::vector<char> content(part.end - part.begin);
  if (!in.read(part.begin, content.data(), content.size())) return false;
  for (std::size_t at = 0; at + sizeof(status_record) <= content.size(); at += alignof(status_record))
    if (std::memcmp(&content[at], status_record::expected.data(), status_record::expected.size()) == 0)
      return in.read(part.begin + at, &found, sizeof found);
  return false;
}

/// The state of the library in a process, as far as it is known.
struct usher_state {
  std::string version;  ///< empty: not known
  std::string lock;
  std::string rwlock;  ///< empty: the C library's read-write locks
  outcome what = outcome::undecided;
  bool is_recorded = false;
};

std::string from_environment(pid_t pid, std::string_view name) {
  std::ifstream environment(fmt::format("/proc/{}/environ", pid));
  for (std::string word; std::getline(environment, word, '\0');)
    if (word.starts_with(name) && word.size() > name.size() && word[name.size()] == '=')
      return word.substr(name.size() + 1);
  return "";
}

/// Whether it is not libusher.so. A library of another name has all locks.
bool has_all_locks(const support::loaded_library& library) {
  return !support::file_name(library.path).starts_with(support::library_name);
}

/// Returns how the library treats this value of USHER_LOCK.
outcome outcome_of(const std::string& name, const support::loaded_library& library) {
  if (name.empty()) return outcome::not_set;
  const lock_table* const lock = find_lock(name);
  if (lock == nullptr) return outcome::unknown;
  if (!lock->traits->excludes) return outcome::measurements_only;
  if (support::is_unusual(lock->family) && !has_all_locks(library)) return outcome::missing;
  return lock->traits->native_only ? outcome::c_library : outcome::ours;
}

/// Reads the memory of the process, if that is permitted; else its environment and the library's file.
usher_state state_of(pid_t pid, const support::loaded_library& library) {
  usher_state state;
  status_record record{};
  const readable memory(fmt::format("/proc/{}/mem", pid));
  for (const support::address_range& part : library.data) {
    if (!find_record(memory, part, record)) continue;
    state.version = std::string(record.version.data(), strnlen(record.version.data(), record.version.size()));
    if (record.decided.load() == outcome::undecided) return state;  // the process has just been started
    char name[status_record::longest_name + 1] = {};
    std::uint64_t recorder = 0;
    const bool complete =
        memory.read(reinterpret_cast<std::uint64_t>(record.lock.load()), name, status_record::longest_name) &&
        memory.read(reinterpret_cast<std::uint64_t>(record.recorder), &recorder, sizeof recorder);
    if (!complete) break;
    state.lock = name;
    if (const auto at = reinterpret_cast<std::uint64_t>(record.rwlock.load());
        at != 0 && memory.read(at, name, status_record::longest_name))
      state.rwlock = name;
    state.what = record.decided.load();
    state.is_recorded = recorder != 0;
    return state;
  }
  if (!library.is_deleted) {
    const readable file(support::path_in(pid, library.path));
    if (find_record(file, {0, file.size()}, record))
      state.version = std::string(record.version.data(), strnlen(record.version.data(), record.version.size()));
  }
  state.lock = from_environment(pid, "USHER_LOCK");
  state.what = outcome_of(state.lock, library);
  const std::string rwlock = from_environment(pid, "USHER_RWLOCK");
  if (support::is_read_write_lock(rwlock) && (has_all_locks(library) || !is_unusual_read_write_lock(rwlock)))
    state.rwlock = rwlock;
  return state;
}

/// The reason why the locks are the C library's although Usher's library is loaded.
std::string reason(const usher_state& state) {
  switch (state.what) {
    case outcome::not_set:
      return "USHER_LOCK is not set";
    case outcome::unknown:
      return "USHER_LOCK names no lock";
    case outcome::measurements_only:
      return "USHER_LOCK names what is no lock";
    case outcome::not_glibc:
      return "the program has another C library than glibc";
    case outcome::missing:
      return "USHER_LOCK names a lock of libusher-all.so";
    case outcome::c_library:
      return fmt::format("USHER_LOCK is {}", state.lock);
    default:
      return "the process has just been started";
  }
}

/// The reason why the process does not have the library.
std::string why_not_loaded(pid_t pid) {
  const std::string program = fmt::format("/proc/{}/exe", pid);
  if (const auto ours = support::read_elf("/proc/self/exe"))
    if (const auto found = support::hindrances(program, "it", ours->target); !found.empty()) return found.front();
  if (support::has_usher(from_environment(pid, "LD_PRELOAD"), ""))
    return "LD_PRELOAD has Usher's library, but the loader did not load it: the file was missing or not executable, or "
           "the program runs with extra rights";
  return "Usher's library is not loaded: start the program by usher run -- CMD";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// How much of a process /proc shows.
enum class view { none, denied, no_memory, all };

view view_of(pid_t pid) {
  const int maps = open(fmt::format("/proc/{}/maps", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (maps < 0 && (errno == EACCES || errno == EPERM)) return view::denied;
  if (maps < 0) {
    if (kill(pid, 0) == 0) return view::no_memory;
    return errno == ESRCH ? view::none
                          : view::denied;  // with the mount option hidepid, processes of other users are invisible
  }
  char one = 0;
  const ssize_t n = read(maps, &one, 1);
  close(maps);
  return n == 1 ? view::all : view::no_memory;
}

/// Prints a line without escape sequences. A process chooses its name, paths and environment, and could use them to
/// control the terminal.
void print_line(const std::string& title, const std::string& line) {
  fmt::print("{}\n", support::printable_line(title + ": " + line));
}

/// Prints in one line whether Usher's locks are on in a process that has memory mappings: a kernel thread and a process
/// that has ended have none. Returns whether they are on.
bool describe(pid_t pid, const std::string& title) {
  const auto library = support::library_of(pid);
  if (!library) {
    print_line(title, "not on: " + why_not_loaded(pid));
    return false;
  }
  const usher_state state = state_of(pid, *library);
  const bool is_on = state.what == outcome::ours;
  std::string line = is_on ? fmt::format("on: lock {}", state.lock)
                           : fmt::format("not on: the locks are the C library's: {}", reason(state));
  if (!state.rwlock.empty()) line += "; read-write locks: " + state.rwlock;
  line += state.version.empty() ? ", version of Usher not known" : ", Usher " + state.version;
  line += fmt::format(" ({})", library->path);
  if (state.is_recorded) line += ", recorded by usher stat";
  if (library->is_deleted)
    line +=
        "; the library's file has been replaced or deleted since: the process uses the old one until it is restarted";
  print_line(title, line);
  return is_on;
}

bool show(pid_t pid) {
  const view seen = view_of(pid);
  const std::string title = fmt::format("{} {}", pid, first_line(fmt::format("/proc/{}/comm", pid)));
  if (seen == view::all) return describe(pid, title);
  if (seen == view::none)
    support::report_error("status: there is no process {}", pid);
  else if (seen == view::denied)
    support::report_error("status: {}", support::refusal(pid));
  else
    print_line(title, "not on: it is a part of the kernel, or has ended");
  return false;
}

constexpr const char* status_notes =
    R"(Shows in one line for each process whether its locks are Usher's: the lock, the version, the library, whether usher stat records
it; and if they are not, the reason. The state of the library is read from the memory of the process, which needs the rights of a
debugger. Without them, the lock is read from the environment that the process was started with.

Examples:
  usher status 1234
  usher status $(pidof nginx)

Exit status: 0 if the locks of all these processes are Usher's; 1 if not, or if that is not known; 2 for bad usage.)";

}  // namespace

support::subcommand status(CLI::App& app) {
  auto* sub = app.add_subcommand("status", "Show whether a running process has Usher's locks");
  auto pids = std::make_shared<std::vector<pid_t>>();
  sub->add_option("PID", *pids, "Processes")
      ->required()
      ->type_name("")
      ->check(CLI::Range(pid_t{1}, std::numeric_limits<pid_t>::max()));
  sub->formatter(std::make_shared<support::help>("usher status PID..."));
  sub->footer(status_notes);
  return {sub, [pids](char**) {
            bool all_on = true;
            for (const pid_t pid : *pids) all_on = show(pid) && all_on;
            return all_on ? 0 : 1;
          }};
}

}  // namespace usher::tool
