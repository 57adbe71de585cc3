#include "watch/reader/read/cpu_use.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "support/process/files.hpp"
#include "support/process/stat_line.hpp"

namespace usher::reader {
namespace {

/// Removes the next number from the text. Nullopt: the text does not begin with a number.
std::optional<std::uint64_t> next_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return n;
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a > ~b ? ~std::uint64_t{0} : a + b;
}

std::string read_small(const std::string& path) {
  return support::content_of(AT_FDCWD, path, 4096);
}

/// The smallest quota of the group and its ancestors.
template <class Quota>
std::optional<double> least_quota(std::string_view group, Quota quota_of) {
  constexpr unsigned most_levels = 64;  // chosen
  std::optional<double> least;
  std::string path(group);
  for (unsigned i = 0; i < most_levels; i++) {
    if (const std::optional<double> q = quota_of(path)) least = least ? std::min(*least, *q) : *q;
    const std::size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) break;
    path.resize(slash);
  }
  return least;
}

std::optional<double> quota_of(pid_t pid) {
  constexpr const char* root = "/sys/fs/cgroup";
  const std::string groups = read_small(fmt::format("/proc/{}/cgroup", pid));
  if (const std::string_view group = group_of(groups, ""); !group.empty())
    if (const auto quota =
            least_quota(group, [](const std::string& at) { return parse_quota(read_small(root + at + "/cpu.max")); }))
      return quota;
  if (const std::string_view group = group_of(groups, "cpu"); !group.empty())
    return least_quota(group, [](const std::string& at) {
      const std::string folder = std::string(root) + "/cpu" + at;
      return parse_quota(read_small(folder + "/cpu.cfs_quota_us") + " " + read_small(folder + "/cpu.cfs_period_us"));
    });
  return std::nullopt;
}

}  // namespace

std::optional<process_times> parse_times(std::string_view text) {
  const support::stat_line line{std::string(text)};
  const auto user = line.number(14), system = line.number(15), childrens_user = line.number(16),
             childrens_system = line.number(17), started = line.number(22);
  if (!user || !system || !childrens_user || !childrens_system || !started) return std::nullopt;
  process_times t;
  t.state = line.state();
  t.own = sum(*user, *system);
  t.children = sum(*childrens_user, *childrens_system);
  t.started = *started;
  return t;
}

std::optional<schedule_times> parse_schedule(std::string_view text) {
  const auto ran = next_number(text), waited = next_number(text), runs = next_number(text);
  if (!ran || !waited || !runs) return std::nullopt;
  return schedule_times{*ran, *waited, *runs};
}

std::optional<double> parse_quota(std::string_view text) {
  const auto quota = next_number(text);  // "max" and "-1" are not numbers
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  const auto period = next_number(text);
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::string_view group_of(std::string_view text, std::string_view controller) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    std::string_view names = line.substr(first + 1, second - first - 1);
    bool is_it = names.empty() && controller.empty();
    while (!names.empty() && !is_it) {
      const std::string_view name = names.substr(0, names.find(','));
      is_it = name == controller;
      names.remove_prefix(std::min(name.size() + 1, names.size()));
    }
    if (!is_it) continue;
    const std::string_view path = line.substr(second + 1);
    if (!path.starts_with('/') || path.find("..") != std::string_view::npos) return {};
    return path;
  }
  return {};
}

std::optional<double> usable_cpus(pid_t pid, std::span<const pid_t> threads) {
  constexpr std::size_t most = 8192;         // limit of CPUs in a kernel
  constexpr std::size_t most_threads = 256;  // chosen: takes less than a millisecond
  std::array<std::uint64_t, most / 64> mask, all{};
  for (const pid_t thread : threads.first(std::min(threads.size(), most_threads))) {
    mask.fill(0);
    if (sched_getaffinity(thread, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) != 0) continue;
    for (std::size_t i = 0; i < mask.size(); i++) all[i] |= mask[i];
  }
  unsigned n = 0;
  for (const std::uint64_t word : all) n += static_cast<unsigned>(__builtin_popcountll(word));
  if (n == 0) return std::nullopt;
  return std::min<double>(n, quota_of(pid).value_or(n));
}

std::string cpu_text(const report& r) {
  if (!r.cpu) return "";
  const auto number = [](double n) {
    const std::string text = fmt::format("{:.1f}", n);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  const std::string cpus = number(r.cpu->cpus);
  std::string text = fmt::format("used {} of {} CPU{}", number(r.cpu->busy), cpus, cpus == "1" ? "" : "s");
  const std::string waiting = number(r.cpu->waiting);
  const bool is_one = waiting == "1";
  return text + fmt::format("; {} thread{} on average {} ready and waited for one", waiting, is_one ? "" : "s",
                            is_one ? "was" : "were");
}

}  // namespace usher::reader
