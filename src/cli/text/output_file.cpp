#include "cli/text/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/text/messages.hpp"

namespace usher::cli {

output_file::~output_file() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool output_file::open_to_write(int more_flags) {
  descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | more_flags, 0666);
  return descriptor_ >= 0;
}

bool output_file::open(const std::string& name) {
  if (name.empty()) return true;
  name_ = name;
  if (open_to_write(O_EXCL)) {
    close(std::exchange(descriptor_, -1));
    unlink(name.c_str());
    return true;
  }
  if (errno == EEXIST && open_to_write(0)) return true;
  report_error("cannot write to {}: {}", name, std::strerror(errno));
  return false;
}

bool output_file::write(const std::string& content) {
  if (descriptor_ < 0 && !open_to_write(0)) {
    report_error("cannot write to {}: {}", name_, std::strerror(errno));
    return false;
  }
  if (ftruncate(descriptor_, 0) != 0 && errno != EINVAL) {  // EINVAL: a pipe or a terminal
    report_error("cannot write to {}: {}", name_, std::strerror(errno));
    return false;
  }
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::write(descriptor_, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      report_error("cannot write to {}: {}", name_, std::strerror(errno));
      return false;
    }
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace usher::cli
