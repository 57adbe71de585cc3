#include "stat/watch.hpp"

#include <algorithm>
#include <utility>

#include "cli/text/messages.hpp"
#include "stat/symbols.hpp"
#include "stat/text.hpp"

namespace usher::cli::stat {
namespace {

constexpr double a_while =
    1;  ///< seconds: a circle that lasts so long is not an artefact of reading threads one by one

}  // namespace

watch::watch(const record_file& file) : file_(file), census_(file.view()), begin_(file.clock().now()) {}

void watch::sample() {
  const std::uint64_t now = file_.clock().now();
  census_.sample(now);
  look_for_deadlocks(now);
}

void watch::finish(std::uint64_t now) {
  look_for_deadlocks(now);
  census_.finish(now);
}

void watch::look_for_deadlocks(std::uint64_t now) {
  std::vector<circle> present;
  for (std::vector<std::uint32_t>& threads : circles(file_.view())) {
    circle c;
    // The same circle, whichever thread it begins with.
    if (threads.empty()) continue;
    std::rotate(threads.begin(), std::min_element(threads.begin(), threads.end()), threads.end());
    c.threads = std::move(threads);
    for (const std::uint32_t t : c.threads)
      c.since.push_back(file_.view().thread(t).since.load(std::memory_order_relaxed));
    c.began = *std::max_element(c.since.begin(), c.since.end());
    const auto before = std::find_if(seen_.begin(), seen_.end(), [&](const circle& s) { return s.is_same(c); });
    const bool is_known = before != seen_.end();
    if (is_known) {
      c = std::move(*before);
      seen_.erase(before);
    }
    const double lasted = now > c.began ? scale_until(now).seconds(now - c.began) : 0;
    if (is_known && !c.is_said && lasted >= a_while) say(c, now);
    c.said.seconds = lasted;
    present.push_back(std::move(c));
  }
  for (circle& c : seen_)
    if (c.is_said) over_.push_back(std::move(c));
  seen_ = std::move(present);
}

void watch::say(circle& c, std::uint64_t now) {
  symbols names(file_.view());
  c.said = describe(file_.view(), c.threads, scale_until(now), names);
  c.is_said = true;
  std::string line = as_line(c.said);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  report_error("{}", line);
}

std::vector<deadlock> watch::deadlocks() const {
  std::vector<deadlock> all;
  for (const auto* some : {&over_, &seen_})
    for (const circle& c : *some)
      if (c.is_said) all.push_back(c.said);
  return all;
}

}  // namespace usher::cli::stat
