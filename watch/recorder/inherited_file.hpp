// Finds the record among inherited descriptors. The launcher passes the record on as a memory file (memfd) with the
// path /proc/PID/fd/N. A process cannot open this path if it now runs as another user, or without /proc: in a chroot,
// or with another file system mounted there. But it may have inherited the file as descriptor N. Since descriptor N may
// be another file by now, the file's name is compared; without /proc, only the file's type (memory file). The caller
// checks seals, owner and header.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace usher::recorder {

/// The number N at the end of `path`, if descriptor N of this process is the memory file with that name; else −1.
inline int inherited_file(const char* path, const char* name) {
  constexpr std::size_t longest = 9;
  const char* const slash = std::strrchr(path, '/');
  if (slash == nullptr || slash[1] == '\0' || std::strlen(slash + 1) > longest) return -1;
  int number = 0;
  for (const char* c = slash + 1; *c != '\0'; ++c) {
    if (*c < '0' || *c > '9') return -1;
    number = number * 10 + (*c - '0');
  }
  char own[32] = "/proc/self/fd/", target[64] = {};
  std::strcat(own, slash + 1);
  if (syscall(SYS_readlinkat, AT_FDCWD, own, target, sizeof target - 1) < 0)
    return syscall(SYS_fcntl, number, F_GET_SEALS) >= 0 ? number : -1;
  constexpr std::size_t prefix = sizeof "/memfd:" - 1;
  if (std::strncmp(target, "/memfd:", prefix) != 0) return -1;
  return std::strncmp(target + prefix, name, std::strlen(name)) == 0 ? number : -1;
}

}  // namespace usher::recorder
