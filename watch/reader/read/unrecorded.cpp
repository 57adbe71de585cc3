#include "watch/reader/read/unrecorded.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "support/text/utf8.hpp"
#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::reader {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds period{100};  // chosen: an exec takes some milliseconds
constexpr unsigned enough_looks = 2;
constexpr std::size_t most_kept = 1024, most_named = 3;  // chosen

}  // namespace

void unrecorded_processes::look(const std::vector<pid_t>& first, const access::seen_ids& ids) {
  const auto begin = clock::now();
  if (begin < next_) return;
  std::set<pid_t> recorded;
  for (const access::seen_ids::entry& e : ids.processes)
    if (e.seen > 0) recorded.insert(e.seen);
  for (const pid_t pid : support::family_of(first)) {
    const auto process = support::read_process(pid);
    if (!process || process->has_ended()) continue;
    // A process with recorded calls may have executed another program. So its maps are read, if this is permitted.
    const std::optional<bool> maps = finder_.maps_record(*process);
    const bool has_it = maps.value_or(recorded.contains(pid));
    if (has_it) {
      seen_.erase(pid);
      continue;
    }
    if (seen_.size() >= most_kept && !seen_.contains(pid)) continue;
    seen& s = seen_[pid];
    if (s.started != process->started) s = {process->started, 0, ""};
    s.looks++;
    s.name = support::printable_line(process->command);  // printable, since the process chooses its name
  }
  std::erase_if(seen_, [&](const auto& one) {
    if (one.second.looks >= enough_looks) return false;
    const auto now = support::read_process(one.first);
    return !now || now->started != one.second.started || now->has_ended();
  });
  next_ = clock::now() + std::max<clock::duration>(period, 40 * (clock::now() - begin));
}

std::size_t unrecorded_processes::number() const {
  return static_cast<std::size_t>(
      std::count_if(seen_.begin(), seen_.end(), [](const auto& one) { return one.second.looks >= enough_looks; }));
}

std::string unrecorded_processes::text() const {
  const std::size_t n = number();
  if (n == 0) return "";
  std::set<std::string> names;
  for (const auto& [pid, s] : seen_)
    if (s.looks >= enough_looks) names.insert(s.name);
  std::string list;
  std::size_t listed = 0;
  for (const std::string& name : names) {
    if (listed++ == most_named) break;
    list += (list.empty() ? "" : ", ") + name;
  }
  if (names.size() > most_named) list += " and others";
  return fmt::format(
      "{} process{} ({}) had not opened the record, and what {} did was not seen (a static, Go or set-user-ID program, "
      "one that clears LD_PRELOAD or does not see libusher.so)",
      exact_count(n), n == 1 ? "" : "es", list, n == 1 ? "it" : "they");
}

}  // namespace usher::reader
