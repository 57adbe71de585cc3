#include "watch/reader/read/thread_names.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include "support/process/files.hpp"

namespace usher::reader {

void thread_names::sample(const contract::live& record, const access::seen_ids& ids) {
  constexpr std::uint32_t most = 512;  // files; chosen
  const std::uint32_t threads = record.threads();
  for (std::uint32_t looked = 0, read = 0; looked < threads && read < most; looked++) {
    const std::uint32_t i = next_ < threads ? next_ : 0;
    next_ = i + 1;
    const std::uint32_t process = contract::read(record.thread(i)->process);
    if (contract::read(record.thread(i)->over) != 0 || i >= ids.threads.size() || process >= ids.processes.size())
      continue;
    const access::seen_ids::entry &thread = ids.threads[i], &of = ids.processes[process];
    if (thread.seen == 0 || of.seen == 0) continue;
    read++;
    std::string name = support::content_of(AT_FDCWD, fmt::format("/proc/{}/task/{}/comm", of.seen, thread.seen), 64);
    if (!name.empty() && name.back() == '\n') name.pop_back();
    if (!name.empty()) names_[{process, thread.own}] = std::move(name);
  }
}

std::string thread_names::of(std::uint32_t process, std::uint32_t tid) const {
  const auto at = names_.find({process, tid});
  return at != names_.end() ? at->second : "";
}

}  // namespace usher::reader
