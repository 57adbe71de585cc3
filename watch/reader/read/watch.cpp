#include "watch/reader/read/watch.hpp"

#include <algorithm>
#include <utility>

#include "support/text/messages.hpp"
#include "watch/reader/print/text.hpp"

namespace usher::reader {
namespace {

constexpr double a_while =
    1;  ///< seconds: a circle that lasts so long is not an artefact of reading threads one by one
/// The largest number of reported deadlocks, chosen. A program may forge any number of circles, and each report needs a
/// copy of the record and names.
constexpr std::size_t most_said = 16;

}  // namespace

watch::watch(const access::record_file& file, name_source naming)
    : file_(file),
      naming_(std::move(naming)),
      census_(file.live(), file.descriptor()),
      begin_(file.clock().now()),
      windows_(file.live(), begin_) {}

void watch::sample() {
  const std::uint64_t now = file_.clock().now();
  census_.sample(now);
  windows_.sample(now);
  if (keeps_names_) thread_names_.sample(file_.live(), census_.ids());
  look_for_deadlocks(now);
}

void watch::finish(std::uint64_t now) {
  look_for_deadlocks(now);
  windows_.sample(now);  // before the threads that have ended with the program are known to have ended
  census_.finish(now);
}

watch::circle watch::circle_of(std::vector<std::uint32_t> threads) const {
  circle c;
  // The lowest thread comes first, so that equal circles compare equal.
  std::rotate(threads.begin(), std::min_element(threads.begin(), threads.end()), threads.end());
  c.threads = std::move(threads);
  for (const std::uint32_t i : c.threads) {
    const contract::thread_slot* const t = file_.live().thread(i);
    c.since.push_back(t != nullptr ? contract::read(t->since) : 0);
  }
  c.began = *std::max_element(c.since.begin(), c.since.end());
  return c;
}

void watch::look_for_deadlocks(std::uint64_t now) {
  std::vector<circle> present;
  for (std::vector<std::uint32_t>& threads : circles(file_.live())) {
    if (threads.empty()) continue;
    circle c = circle_of(std::move(threads));
    const auto before = std::find_if(seen_.begin(), seen_.end(), [&](const circle& s) { return s.is_same(c); });
    const bool is_known = before != seen_.end();
    if (is_known) {
      c = std::move(*before);
      seen_.erase(before);
    }
    const double lasted = now > c.began ? scale_until(now).seconds(now - c.began) : 0;
    c.is_due = is_known && !c.is_said && lasted >= a_while;
    c.said.seconds = lasted;
    present.push_back(std::move(c));
  }
  for (circle& c : seen_) {
    const bool is_left = still_waits(file_.live(), c.threads, c.since);
    if (is_left && !has_ended(c))
      present.push_back(std::move(c));  // too many circles: this one may exist although it was not found again
    else if (c.is_said && is_left)
      over_.push_back(std::move(c));
    else if (c.is_said)
      end(c);
  }
  seen_ = std::move(present);
  std::vector<circle*> new_ones;
  for (circle& c : seen_)
    if (c.is_due && said_ + new_ones.size() < most_said) new_ones.push_back(&c);
  if (!new_ones.empty()) say(new_ones, now);
}

/// Whether the circle's threads have ended.
bool watch::has_ended(const circle& c) const {
  return std::all_of(c.threads.begin(), c.threads.end(), [this](std::uint32_t i) {
    const contract::thread_slot* const t = file_.live().thread(i);
    return t != nullptr && contract::read(t->over) != 0;
  });
}

/// Reports that the threads of a circle have continued: another thread has unlocked a mutex, or a signal handler has
/// left the wait by longjmp().
void watch::end(const circle& c) {
  const ended_circle ended = as_ended(c.said);
  support::report_error("{}", ended.line);
  remarks_.push_back(ended.remark);
}

void watch::say(const std::vector<circle*>& new_ones, std::uint64_t now) {
  const access::record_copy copy = file_.copy();
  const std::unique_ptr<symbols> names = naming_(copy.view());
  for (circle* const c : new_ones) {
    c->said = describe(copy.view(), c->threads, scale_until(now), *names, &census_.ids());
    c->is_said = true;
    said_++;
    std::string line = as_line(c->said);
    while (!line.empty() && line.back() == '\n') line.pop_back();
    support::report_error("{}", line);
  }
}

bool watch::has_in_circle(std::uint32_t own) const {
  for (const circle& c : seen_)
    for (const std::uint32_t i : c.threads)
      if (const contract::thread_slot* const t = file_.live().thread(i); t != nullptr && contract::read(t->tid) == own)
        return true;
  return false;
}

std::vector<deadlock> watch::deadlocks() const {
  std::vector<deadlock> all;
  for (const auto* some : {&over_, &seen_})
    for (const circle& c : *some)
      if (c.is_said) all.push_back(c.said);
  return all;
}

}  // namespace usher::reader
