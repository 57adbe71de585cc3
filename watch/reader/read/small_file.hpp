// Small files of /proc.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string_view>

#include "support/process/owned_descriptor.hpp"

namespace usher::reader {

/// The beginning of a small file of /proc; empty if it cannot be read.
class small_file {
 public:
  template <class... Numbers>
  explicit small_file(const char* format, Numbers... numbers) {
    char path[64];
    std::snprintf(path, sizeof path, format, numbers...);
    const support::owned_descriptor file(open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t n = file.is_open() ? read(file.get(), text_, sizeof text_) : -1;
    size_ = n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  std::string_view text() const { return {text_, size_}; }

 private:
  char text_[1024];
  std::size_t size_;
};

}  // namespace usher::reader
