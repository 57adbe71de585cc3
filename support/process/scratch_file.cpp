#include "support/process/scratch_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace usher::support {

scratch_file::scratch_file() : descriptor_(memfd_create("usher", MFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "no memory for a program's output");
}

scratch_file::~scratch_file() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::size_t scratch_file::size() const {
  struct stat s {};
  return fstat(descriptor_, &s) == 0 ? static_cast<std::size_t>(s.st_size) : 0;
}

void scratch_file::cut() const {
  const std::size_t all = size();
  if (all > 2 * kept_end)
    fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kept_end,
              static_cast<off_t>(all - 2 * kept_end));
}

std::string scratch_file::part(std::size_t begin, std::size_t end) const {
  std::string all(end - begin, '\0');
  std::size_t have = 0;
  while (have < all.size()) {
    const ssize_t n = pread(descriptor_, all.data() + have, all.size() - have, static_cast<off_t>(begin + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  all.resize(have);
  return all;
}

std::string scratch_file::head(std::size_t most) const {
  return part(0, std::min({size(), most, is_cut() ? kept_end : most}));
}

std::string scratch_file::tail(std::size_t most) const {
  const std::size_t all = size();
  return part(all - std::min({all, most, is_cut() ? kept_end : most}), all);
}

std::string scratch_file::text() const {
  if (!is_cut()) return head(2 * kept_end);
  return head(kept_end) + "\n" + tail(kept_end);
}

}  // namespace usher::support
