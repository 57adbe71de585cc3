#include "stat/attach.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "cli/process/running_process.hpp"
#include "record/attach_point.hpp"

namespace usher::cli::stat {
namespace {

namespace fs = std::filesystem;
using preload::attach_point;

constexpr const char* symbol = "usher_attach_v1";

/// A file that the destructor closes.
class descriptor {
 public:
  descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC)) {}
  ~descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  bool is_open() const { return fd_ >= 0; }
  template <class T>
  bool read(std::uint64_t at, T& to) const {
    return pread(fd_, &to, sizeof to, static_cast<off_t>(at)) == ssize_t{sizeof to};
  }
  bool write(std::uint64_t at, const void* from, std::size_t n) const {
    return pwrite(fd_, from, n, static_cast<off_t>(at)) == static_cast<ssize_t>(n);
  }

 private:
  int fd_;
};

/// The offset of the symbol in the library; 0: it has none. Found in the dynamic symbols, which a stripped file keeps.
std::uint64_t offset_of_symbol(const descriptor& file) {
  ElfW(Ehdr) header;
  if (!file.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) section, strings;
    if (!file.read(header.e_shoff + std::uint64_t{i} * sizeof section, section)) return 0;
    if (section.sh_type != SHT_DYNSYM || section.sh_entsize != sizeof(ElfW(Sym))) continue;
    if (!file.read(header.e_shoff + std::uint64_t{section.sh_link} * sizeof strings, strings)) return 0;
    for (std::uint64_t at = 0; at + sizeof(ElfW(Sym)) <= section.sh_size; at += sizeof(ElfW(Sym))) {
      ElfW(Sym) s;
      char name[32] = {};
      if (!file.read(section.sh_offset + at, s) || s.st_size != sizeof(attach_point)) continue;
      if (file.read(strings.sh_offset + s.st_name, name) && std::strncmp(name, symbol, std::strlen(symbol) + 1) == 0)
        return s.st_value;
    }
  }
  return 0;
}

/// All threads of a process, stopped during the lifetime of the object. A signal that was about to be delivered to one of them is
/// delivered at the end.
class stopped_process {
 public:
  explicit stopped_process(pid_t pid) {
    for (bool more = true; more && error_ == 0;) {
      more = false;
      std::error_code gone;
      for (fs::directory_iterator i(fmt::format("/proc/{}/task", pid), gone), end; !gone && i != end;
           i.increment(gone)) {
        pid_t tid = 0;
        const std::string name = i->path().filename().string();
        std::from_chars(name.data(), name.data() + name.size(), tid);
        if (is_known(tid)) continue;
        more = stop(tid, pid) || more;
      }
    }
    if (threads_.empty() && error_ == 0) error_ = ESRCH;
  }
  ~stopped_process() {
    for (const thread& t : threads_)
      ptrace(PTRACE_DETACH, t.tid, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(t.signal)));
  }
  stopped_process(const stopped_process&) = delete;
  stopped_process& operator=(const stopped_process&) = delete;
  int error() const { return error_; }

 private:
  struct thread {
    pid_t tid;
    int signal;
  };
  bool is_known(pid_t tid) const {
    for (const thread& t : threads_)
      if (t.tid == tid) return true;
    return false;
  }
  /// False if the thread has ended or may not be stopped.
  bool stop(pid_t tid, pid_t pid) {
    if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      if (errno != ESRCH || tid == pid) error_ = errno;
      return false;
    }
    ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    int status = 0;
    while (waitpid(tid, &status, __WALL) < 0)
      if (errno != EINTR) return false;
    if (!WIFSTOPPED(status)) return false;  // it has ended
    const bool by_us = status >> 16 == PTRACE_EVENT_STOP;
    threads_.push_back({tid, by_us ? 0 : WSTOPSIG(status)});
    return true;
  }

  std::vector<thread> threads_;
  int error_ = 0;
};

}  // namespace

std::string attach(pid_t pid, const std::string& file_path) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return fmt::format("there is no process {}", pid);
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  if (maps.peek() == std::ifstream::traits_type::eof())
    return fmt::format("process {} belongs to another user, or has no memory of its own: try as that user or as root",
                       pid);
  const auto ours = library_of(pid);
  if (!ours)
    return fmt::format(
        "process {} does not run under Usher: start it by usher run -- CMD (usher run --lock pthread -- CMD "
        "keeps the C library's locks)",
        pid);
  const descriptor file(path_in(pid, ours->path), O_RDONLY);
  const std::uint64_t offset = file.is_open() && !ours->is_deleted ? offset_of_symbol(file) : 0;
  if (offset == 0)
    return fmt::format(
        "process {} has another version of Usher's library ({}), or it was replaced since: start it anew", pid,
        ours->path);
  attach_point point;
  if (file_path.size() >= sizeof point.path) return fmt::format("the file's path is too long: {}", file_path);

  const stopped_process stopped(pid);
  if (stopped.error() != 0)
    return fmt::format(
        "process {} may not be stopped for a moment: {} (it takes what a debugger takes: root, or "
        "kernel.yama.ptrace_scope=0, and no other debugger)",
        pid, std::strerror(stopped.error()));
  const descriptor memory(fmt::format("/proc/{}/mem", pid), O_RDWR);
  const std::uint64_t at = ours->begin + offset;
  if (!memory.is_open() || !memory.read(at, point) || point.magic != attach_point::expected)
    return fmt::format("the memory of process {} cannot be read: {}", pid, std::strerror(errno));
  char path[sizeof point.path] = {};
  std::memcpy(path, file_path.data(), file_path.size());
  const std::uint32_t wanted = 1;
  bool written = memory.write(at + offsetof(attach_point, path), path, sizeof path) &&
                 memory.write(at + offsetof(attach_point, wanted), &wanted, sizeof wanted);
  for (const auto& p : point.pointers)
    written = written && memory.write(reinterpret_cast<std::uint64_t>(p.where), &p.first, sizeof p.first);
  written =
      written && memory.write(reinterpret_cast<std::uint64_t>(point.owner), &point.undecided, sizeof point.undecided);
  return written ? "" : fmt::format("the memory of process {} cannot be written: {}", pid, std::strerror(errno));
}

}  // namespace usher::cli::stat
