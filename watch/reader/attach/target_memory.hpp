// Accesses the memory of another process through /proc/PID/mem. The process may change or unmap its memory at any time,
// and may forge its content: reads return a copy, which must be checked before use.
//
// The file refers to the memory that the process had when the file was opened. After an exec, or when another process
// has this id, reads and writes fail: so an attacker cannot make the observer write into a program with more rights.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "support/process/owned_descriptor.hpp"
#include "support/process/running_process.hpp"

namespace usher::reader {

class target_memory {
 public:
  explicit target_memory(pid_t pid);
  /// The errno of the failed open; 0 if the file is open.
  int error() const { return error_; }

  /// Reads all of these bytes. False, with errno set, on failure.
  bool read(std::uint64_t at, void* to, std::size_t size) const;
  bool write(std::uint64_t at, const void* from, std::size_t size) const;
  template <class T>
  bool read(std::uint64_t at, T& to) const {
    return read(at, &to, sizeof to);
  }

  /// Finds these 16 bytes at a multiple of 16 in the library's data, and returns their address. Searches at most 64
  /// MiB, since a process may map anything under the library's name.
  std::optional<std::uint64_t> find(const support::loaded_library& in, const char* magic) const;

 private:
  support::owned_descriptor file_;
  int error_;
};

}  // namespace usher::reader
