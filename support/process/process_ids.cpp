#include "support/process/process_ids.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "support/process/stat_line.hpp"

namespace usher::support {
namespace {

struct file_closer {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

/// The beginning of a small file of /proc; empty if it cannot be read.
std::string read_small(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string text(4096, '\0');
  const ssize_t n = ::read(file, text.data(), text.size());
  close(file);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

struct short_path {
  char text[64];
  const char* c_str() const { return text; }
};
template <class... Numbers>
short_path path_of(const char* format, Numbers... numbers) {
  short_path p;
  std::snprintf(p.text, sizeof p.text, format, numbers...);
  return p;
}

constexpr auto largest_pid = static_cast<std::uint32_t>(std::numeric_limits<pid_t>::max());

}  // namespace

bool each_number(const char* folder, const std::function<void(pid_t)>& f) {
  struct closer {
    void operator()(DIR* d) const { closedir(d); }
  };
  const std::unique_ptr<DIR, closer> all(opendir(folder));
  if (!all) return false;
  while (const dirent* const entry = readdir(all.get())) {
    pid_t id = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    if (const auto r = std::from_chars(entry->d_name, end, id); r.ec == std::errc() && r.ptr == end && id > 0) f(id);
  }
  return true;
}

std::optional<seen_process> read_process(pid_t pid) {
  const stat_line line = stat_line::of_process(pid);
  constexpr unsigned threads_field = 20, start_field = 22;
  const auto threads = line.number(threads_field), started = line.number(start_field);
  if (!threads || !started) return std::nullopt;
  seen_process p;
  p.pid = pid;
  p.command = line.name();
  p.state = line.state();
  p.threads = static_cast<long>(*threads);
  p.started = *started;
  return p;
}

std::vector<pid_t> family_of(std::vector<pid_t> all) {
  constexpr std::size_t most = 64, most_threads = 64;  // chosen
  for (std::size_t i = 0; i < all.size() && all.size() < most; i++) {
    std::size_t threads = 0;
    each_number(path_of("/proc/%d/task", all[i]).c_str(), [&, pid = all[i]](pid_t tid) {
      if (threads++ >= most_threads || all.size() >= most) return;
      const std::string text = read_small(path_of("/proc/%d/task/%d/children", pid, tid).c_str());
      const char *next = text.data(), *const end = next + text.size();
      for (pid_t child = 0; all.size() < most; next++) {
        const auto r = std::from_chars(next, end, child);
        if (r.ec != std::errc() || child <= 0) break;
        all.push_back(child);
        next = r.ptr;
        if (next == end) break;
      }
    });
  }
  return all;
}

own_id read_own_id(const char* folder) {
  return own_id_in(read_small((std::string(folder) + "/status").c_str()));
}

own_id own_id_in(const std::string& text) {
  constexpr std::string_view field = "\nNSpid:";
  const std::size_t at = text.find(field);
  if (at == std::string::npos) {  // Linux before 4.1
    const std::size_t pid = text.find("\nPid:");
    return {
        pid == std::string::npos ? 0 : static_cast<std::uint32_t>(std::strtoul(text.c_str() + pid + 5, nullptr, 10)),
        false};
  }
  own_id id;
  unsigned namespaces = 0;
  const char* next = text.c_str() + at + field.size();
  for (char* end = nullptr; *next != '\n' && *next != '\0'; next = end) {
    const unsigned long n = std::strtoul(next, &end, 10);
    if (end == next) break;
    id.id = static_cast<std::uint32_t>(n);
    namespaces++;
  }
  id.is_inside = namespaces > 1;
  return id;
}

bool are_processes_hidden() {
  return access("/proc/1/status", R_OK) != 0;
}

bool has_process(pid_t pid) {
  const long descriptor = syscall(SYS_pidfd_open, pid, 0);
  if (descriptor < 0) return errno != ESRCH && errno != EINVAL;
  close(static_cast<int>(descriptor));
  return true;
}

process_finder::process_finder(int record) {
  struct ::stat file;
  if (record < 0 || fstat(record, &file) != 0) return;
  device_ = file.st_dev;
  inode_ = file.st_ino;
  is_known_ = true;
  // Uses the name "self" and not this process's id, because /proc may belong to another PID namespace.
  is_known_ = maps_record("self").value_or(false);
}

/// `process`: the name of the process's folder in /proc.
std::optional<bool> process_finder::maps_record(const std::string& process) const {
  if (!is_known_) return std::nullopt;
  const std::unique_ptr<std::FILE, file_closer> maps(std::fopen(("/proc/" + process + "/maps").c_str(), "re"));
  if (!maps) return std::nullopt;
  constexpr unsigned most_lines = 1 << 18;  // chosen: more than the mappings that Linux allows a process
  char line[512];
  bool any = false;
  for (unsigned n = 0; n < most_lines && std::fgets(line, sizeof line, maps.get()) != nullptr; n++) {
    unsigned long begin = 0, inode = 0;
    unsigned major_number = 0, minor_number = 0;
    any = true;
    if (std::sscanf(line, "%lx-%*x %*s %*x %x:%x %lu", &begin, &major_number, &minor_number, &inode) == 4 &&
        inode == inode_ && makedev(major_number, minor_number) == device_ && (mapped_at_ == 0 || begin == mapped_at_))
      return true;
  }
  return any ? std::optional(false) : std::nullopt;
}

void process_finder::search() {
  if (is_searched_) return;
  is_searched_ = true;
  inside_.clear();
  each_number("/proc", [this](pid_t pid) {
    if (const own_id id = read_own_id(path_of("/proc/%d", pid).c_str()); id.is_inside)
      inside_.push_back({id.id, pid, true});
  });
}

process_finder::candidate process_finder::find_here(std::uint32_t own) const {
  if (own == 0 || own > largest_pid) return {};
  const own_id id = read_own_id(path_of("/proc/%d", static_cast<pid_t>(own)).c_str());
  return id.id == own && !id.is_inside ? candidate{own, static_cast<pid_t>(own), false} : candidate{};
}

std::vector<process_finder::candidate> process_finder::find_inside(std::uint32_t own) {
  search();
  std::vector<candidate> all;
  std::copy_if(inside_.begin(), inside_.end(), std::back_inserter(all),
               [own](const candidate& c) { return c.own == own; });
  return all;
}

bool thread_list::read(pid_t pid, bool is_inside) {
  seen_.clear();
  std::unordered_map<pid_t, std::uint32_t> now;
  const bool is_visible = each_number(path_of("/proc/%d/task", pid).c_str(), [&](pid_t tid) {
    std::uint32_t own = static_cast<std::uint32_t>(tid);
    if (is_inside) {
      const auto known = own_.find(tid);
      own = known != own_.end() ? known->second : read_own_id(path_of("/proc/%d/task/%d", pid, tid).c_str()).id;
      if (own == 0) return;  // it has ended meanwhile
      now.emplace(tid, own);
    }
    seen_.emplace(own, tid);
  });
  own_ = std::move(now);
  return is_visible;
}

pid_t thread_list::seen(std::uint32_t own) const {
  const auto at = seen_.find(own);
  return at != seen_.end() ? at->second : 0;
}

}  // namespace usher::support
