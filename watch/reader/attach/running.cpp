#include "watch/reader/attach/running.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "support/process/files.hpp"
#include "support/process/running_process.hpp"
#include "support/process/stat_line.hpp"
#include "support/text/words.hpp"
#include "watch/reader/attach/in_child.hpp"

namespace usher::reader {
namespace {

/// The ids in a field of /proc/PID/status, such as "Uid: real effective saved file-system".
std::vector<unsigned> ids(pid_t pid, const char* field) {
  std::istringstream in(support::status_field(std::to_string(pid), field));
  return {std::istream_iterator<unsigned>(in), {}};
}

}  // namespace

std::string why_not(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return fmt::format("there is no process {}", pid);
  const std::string group = support::status_field(std::to_string(pid), "Tgid");
  if (!group.empty() && group != std::to_string(pid))
    return fmt::format("{} is a thread of process {}: usher stat -p {}", pid, group, group);
  const std::string state = support::status_field(std::to_string(pid), "State");
  if (state.starts_with('Z') || state.starts_with('X')) {
    if (std::atoi(support::status_field(std::to_string(pid), "Threads").c_str()) > 1)
      return fmt::format(
          "the first thread of process {} has ended, and by it the others are looked for: start it by usher stat -- "
          "CMD",
          pid);
    return fmt::format("process {} has ended already", pid);
  }

  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  const auto user = ids(pid, "Uid");
  const bool is_others = !user.empty() && user.front() != getuid();
  if (!maps) return support::refusal(pid);
  bool any = false;
  for (std::string line; std::getline(maps, line);) {
    any = true;
    if (const std::size_t slash = line.find('/');
        slash != std::string::npos && support::is_library_file(line.substr(slash)))
      return "";
  }
  if (!any && is_others && geteuid() != 0) return support::refusal(pid);
  return fmt::format(
      "process {} ({}) does not run under Usher: libusher.so is not loaded. Start it by usher run (--lock pthread "
      "keeps the C "
      "library's locks) or usher stat -- CMD",
      pid, support::name_of_process(pid));
}

bool is_stopped(pid_t pid) {
  const std::string state = support::status_field(std::to_string(pid), "State");
  return state.starts_with('T') || state.starts_with('t');
}

/// The length is limited because the process chooses the address of the text (PR_SET_MM), and may make the kernel
/// return all of its memory.
std::vector<std::string> command_of(pid_t pid) {
  constexpr std::size_t longest = 1 << 16, most_words = 4096;
  std::ifstream in(fmt::format("/proc/{}/cmdline", pid));
  std::string text(longest, '\0');
  in.read(text.data(), longest);
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::vector<std::string> words;
  std::istringstream parts(text);
  for (std::string word; words.size() < most_words && std::getline(parts, word, '\0');) words.push_back(word);
  if (words.empty()) words.push_back(support::name_of_process(pid));
  return words;
}

/// Must run in a child that has changed its root: the kernel returns the link's path relative to the reader's root
/// directory.
std::string program_of(pid_t pid, int root) {
  const int process = open(fmt::format("/proc/{}", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (process < 0) return "";
  const auto path = in_child(
      [&] {
        if (root >= 0 && (fchdir(root) != 0 || chroot(".") != 0)) return std::string();
        char link[PATH_MAX];
        const ssize_t n = readlinkat(process, "exe", link, sizeof link);
        return n > 0 ? std::string(link, static_cast<std::size_t>(n)) : std::string();
      },
      std::chrono::seconds(1), [] { return false; });
  close(process);
  return path.value_or("");
}

void name_program(const contract::view& copy, const std::string& path) {
  contract::header& h = copy.head();
  const std::uint32_t at = h.text.load(), size = static_cast<std::uint32_t>(path.size());
  if (path.empty() || at > copy.room().text || path.size() > copy.room().text - at) return;
  std::memcpy(copy.text() + at, path.data(), path.size());
  h.text.store(at + size);
  for (std::uint32_t i = h.modules.load(); i-- > 0;) {
    contract::module_slot& m = copy.module(i);
    if (m.ready.load() == 0 || m.path_length != 0) continue;
    m.path = at;
    m.path_length = size;
  }
}

std::optional<double> cpu_seconds_of(pid_t pid) {
  const support::stat_line line = support::stat_line::of_process(pid);
  constexpr unsigned utime = 14, cstime = 17;
  double ticks = 0;
  for (unsigned field = utime; field <= cstime; field++) {
    const auto one = line.number(field);
    if (!one) return std::nullopt;
    ticks += static_cast<double>(*one);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

process_watch::process_watch(pid_t pid) : pid_(pid), descriptor_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

process_watch::~process_watch() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool process_watch::has_ended() const {
  if (descriptor_ < 0) return kill(pid_, 0) != 0 && errno == ESRCH;
  pollfd p{descriptor_, POLLIN, 0};
  return poll(&p, 1, 0) > 0;
}

}  // namespace usher::reader
