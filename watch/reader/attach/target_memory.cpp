#include "watch/reader/attach/target_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace usher::reader {

target_memory::target_memory(pid_t pid)
    : file_(open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDWR | O_CLOEXEC)), error_(file_.is_open() ? 0 : errno) {}

bool target_memory::read(std::uint64_t at, void* to, std::size_t size) const {
  const ssize_t n = pread(file_.get(), to, size, static_cast<off_t>(at));
  if (n >= 0 && n != static_cast<ssize_t>(size)) errno = EFAULT;
  return n == static_cast<ssize_t>(size);
}

bool target_memory::write(std::uint64_t at, const void* from, std::size_t size) const {
  const ssize_t n = pwrite(file_.get(), from, size, static_cast<off_t>(at));
  if (n >= 0 && n != static_cast<ssize_t>(size)) errno = EFAULT;
  return n == static_cast<ssize_t>(size);
}

std::optional<std::uint64_t> target_memory::find(const support::loaded_library& in, const char* magic) const {
  constexpr std::uint64_t most = 64 << 20, piece = 1 << 16, unit = 16;
  std::uint64_t searched = 0;
  std::vector<char> content(piece);
  for (const support::address_range& part : in.data)
    for (std::uint64_t at = part.begin; at < part.end && searched < most; at += piece, searched += piece) {
      const std::size_t n = static_cast<std::size_t>(std::min(piece, part.end - at));
      if (!read(at, content.data(), n)) break;
      for (std::size_t i = 0; i + unit <= n; i += unit)
        if (std::memcmp(&content[i], magic, unit) == 0) return at + i;
    }
  return std::nullopt;
}

}  // namespace usher::reader
