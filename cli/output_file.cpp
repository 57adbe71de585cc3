#include "output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "messages.hpp"

namespace usher::cli {

output_file::~output_file() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (made_here_) unlink(name_.c_str());
}

bool output_file::open(const std::string& name) {
  if (name.empty()) return true;
  name_ = name;
  descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  made_here_ = descriptor_ >= 0;
  if (!made_here_ && errno == EEXIST) descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) complain("cannot write to {}: {}", name, std::strerror(errno));
  return descriptor_ >= 0;
}

bool output_file::write(const std::string& content) {
  made_here_ = false;
  if (ftruncate(descriptor_, 0) != 0 && errno != EINVAL) {  // EINVAL: a pipe or a terminal
    complain("cannot write to {}: {}", name_, std::strerror(errno));
    return false;
  }
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::write(descriptor_, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      complain("cannot write to {}: {}", name_, std::strerror(errno));
      return false;
    }
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace usher::cli
