// The memory of another process, by process_vm_readv and process_vm_writev. The process may change it at any time, may
// unmap it, and may have forged it: what is read is a copy, to be checked before it is used.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cli/process/running_process.hpp"

namespace usher::cli::stat {

class target_memory {
 public:
  explicit target_memory(pid_t pid) : pid_(pid) {}

  /// All of these bytes, or false with errno.
  bool read(std::uint64_t at, void* to, std::size_t size) const;
  bool write(std::uint64_t at, const void* from, std::size_t size) const;
  template <class T>
  bool read(std::uint64_t at, T& to) const {
    return read(at, &to, sizeof to);
  }

  /// The address of these 16 bytes, at a multiple of 16, in the library's data. Searches at most 64 MiB: a process may
  /// have mapped anything under the library's name.
  std::optional<std::uint64_t> find(const loaded_library& in, const char* magic) const;

 private:
  pid_t pid_;
};

}  // namespace usher::cli::stat
