#include "tool/trial/runner.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "support/process/ending.hpp"
#include "support/text/messages.hpp"
#include "support/text/utf8.hpp"
#include "support/text/words.hpp"
#include "tool/trial/quantities.hpp"
#include "watch/access/census.hpp"

namespace usher::tool::trial {
namespace {

/// Counts the lock calls of one run, which writes them into a record of its own, as under `usher stat`.
class counting {
 public:
  counting() : census_(file_.live(), file_.descriptor(), access::census::looks::also_at_handlers) {}
  counting(const counting&) = delete;
  counting& operator=(const counting&) = delete;

  const access::record_file& file() const { return file_; }

  /// Samples the living threads until the returned thread is joined: the library does not record when threads end.
  [[nodiscard]] std::jthread look_on() {
    // The sampling thread blocks all signals, so that they reach the thread that waits for the program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::jthread looker([this](const std::stop_token& stop) {
      std::mutex m;
      std::condition_variable_any stopped;
      for (std::unique_lock lock(m); !stop.stop_requested();
           stopped.wait_for(lock, stop, access::sample_period, [] { return false; }))
        census_.sample(file_.clock().now());
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return looker;
  }

  call_counts sum() {
    census_.finish(file_.clock().now());
    const access::recorded_calls c = access::sum_of(file_.copy().view());
    call_counts n{c.locks,         c.contended,       c.waits,   c.semaphores,       c.threads,
                  c.processes > 0, c.share(c.waited), c.rwlocks, c.contended_rwlocks};
    n.parks_threads = census_.parks_threads();
    if (c.rwlocks == 0) return n;
    n.rwlock_waiting_share = c.share(c.waited_for_rwlocks - c.waited_for_shared_rwlocks);
    if (c.waited_for_shared_rwlocks != 0) n.shared_rwlock_waiting_share = c.share(c.waited_for_shared_rwlocks);
    return n;
  }

 private:
  access::record_file file_;
  access::census census_;
};

/// Words in the form that execvp() takes.
class argument_list {
 public:
  argument_list(const std::vector<std::string>& prefix, const std::vector<std::string>& command) : words_(prefix) {
    words_.insert(words_.end(), command.begin(), command.end());
    for (std::string& w : words_) pointers_.push_back(w.data());
    pointers_.push_back(nullptr);
  }
  char* const* words() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

std::string say(const support::ended& e, double limit) {
  return e.way == support::ended::how::timed_out ? fmt::format("hung: killed after {} s", quantity(limit))
                                                 : support::words_of(e);
}

struct not_started {
  int error;
};

bool took_the_limit(const support::ended& e) {
  return e.way == support::ended::how::timed_out || e.way == support::ended::how::stopped;
}

// Seconds; chosen, not measured.
constexpr double longest_first_run = 3600;  // without a budget
/// After this time the user is told that the first run still goes on. With a longer run the default budget does not
/// suffice for a result.
constexpr double long_first_run = 20;

constexpr const char* needs_until = "a program that does not end by itself, such as a server, needs --until LOAD";

/// The last lines that are not empty, indented.
std::string last_lines(const std::string& text) {
  constexpr std::size_t most = 10, width = 160;
  std::vector<std::string> lines;
  for (const std::string_view line : support::parts_of(text, "\n")) lines.push_back(support::printable(line, width));
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - most);
  std::string all;
  for (const std::string& line : lines) all += "  | " + line + "\n";
  return all;
}

void note_usage(run_result& r, const support::ended& e) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  r.user_s = seconds(e.usage.ru_utime);
  r.system_s = seconds(e.usage.ru_stime);
  r.voluntary_switches = e.usage.ru_nvcsw;
  r.involuntary_switches = e.usage.ru_nivcsw;
  r.peak_kib = e.usage.ru_maxrss;
}

double seconds_since(support::steady::time_point begin) {
  return std::chrono::duration<double>(support::steady::now() - begin).count();
}

}  // namespace

void attempt::fail(const std::string& what, const std::string& message) {
  failure = what;
  run.error = support::with_words(what, message);
}

runner::runner(const options& o, std::vector<std::string> command, const support::preload_library& library,
               const std::optional<metric_pattern>& metric, std::function<void()> before_message)
    : options_(o),
      command_(std::move(command)),
      library_(library),
      metric_(metric),
      before_message_(std::move(before_message)),
      limit_(o.by_budget() ? ten_times(o.budget) : longest_first_run) {}

support::environment_changes runner::changes(const run_locks& locks, const std::string& record) const {
  const std::string existing = support::environment("LD_PRELOAD");
  support::environment_changes e = {{contract::variable, record.empty() ? std::nullopt : std::optional(record)}};
  e.emplace_back("USHER_VERBOSE", std::nullopt);  // its messages would be a difference between the locks' outputs
  e.emplace_back("USHER_RWLOCK", locks.rwlock.empty() ? std::nullopt : std::optional(locks.rwlock));
  if (locks.are_c_librarys() && record.empty()) {
    e.emplace_back("USHER_LOCK", std::nullopt);
    if (!existing.empty()) {
      const std::string others = support::without_usher(existing, library_.path);
      e.emplace_back("LD_PRELOAD", others.empty() ? std::nullopt : std::optional(others));
    }
  } else {
    e.emplace_back("USHER_LOCK", locks.mutex == nullptr ? c_library : locks.mutex->name);
    // The companion records read-write locks.
    e.emplace_back("LD_PRELOAD",
                   support::preload_list(existing, library_.with({locks.mutex, locks.rwlock}), !record.empty()));
  }
  return e;
}

/// Throws `stopped` if the way in which a run ended also ends the trial, independent of the lock.
void runner::check_end(const support::ended& e) {
  if (e.survivor != 0) {
    before_message_();
    support::report_error("cannot end process {}: {}", e.survivor,
                          e.why_survived != 0 ? std::strerror(e.why_survived) : "it has not ended after SIGKILL");
    throw stopped{1};
  }
  if (e.way == support::ended::how::interrupted || support::interrupted() != 0)
    throw stopped{128 + support::interrupted()};
}

void runner::prepare(support::process& p) {
  constexpr double limit = 600;
  const support::ended e = p.wait(limit, true);
  check_end(e);
  if (support::went_well(e)) return;
  before_message_();
  support::report_error("--before: '{}': {}", options_.before,
                        support::with_words(say(e, limit), support::last_words(p, false)));
  throw stopped{1};
}

void runner::read_metric(attempt& a, const support::process& p) const {
  if (!metric_) {
    a.run.metric = a.run.seconds;
    return;
  }
  const std::string out = p.out().text(), err = p.err().text();
  auto found = metric_->last_in(out);
  if (!found) found = metric_->last_in(err);
  if (!found) {
    a.fail("the metric is not in its output");
    a.last_lines =
        last_lines(p.out().size() != 0 ? p.out().tail(support::most_read) : p.err().tail(support::most_read));
  } else if (const auto v = number_of(*found)) {
    a.run.metric = *v;
  } else {
    a.fail(fmt::format("the metric captured '{}', which is no number", support::printable(*found, 40)));
  }
}

void runner::add_output(attempt& a, const support::process& p) const {
  for (const support::scratch_file* f : {&p.out(), &p.err()})
    if (f->is_cut()) a.cut = std::max(a.cut, f->size());
  constexpr std::size_t compared = 1 << 20;
  std::function<void(std::string&)> mask;
  if (metric_) mask = [this](std::string& line) { metric_->mask(line); };
  a.output.emplace(p.out().head(compared), mask);
}

/// Arranges a message if the first run takes long. Until it ends, neither the duration of a run is known nor whether
/// runs end at all.
void runner::remind_of_first_run(support::process& p, const std::string& note) const {
  if (has_run_) return;
  const double seconds = std::min({long_first_run, std::max(options_.budget, 1.0), limit()});
  p.remind_after(seconds, [this, note, seconds] {
    before_message_();
    support::print_note(fmt::format("still in the first run after {} s: {}; ^C ends it", quantity(seconds), note));
  });
}

void runner::run_program(support::process& p, attempt& a) {
  remind_of_first_run(p, needs_until);
  const support::ended e = p.wait(limit());
  check_end(e);
  a.run.seconds = e.seconds;
  note_usage(a.run, e);
  a.costly = took_the_limit(e);
  if (e.way == support::ended::how::not_started) throw not_started{e.status};
  if (!support::went_well(e)) {
    const bool never_ended = !has_run_ && e.way == support::ended::how::timed_out;
    a.fail(say(e, limit()) +
               (never_ended ? fmt::format(" ({}; one that takes longer needs --timeout S)", needs_until) : ""),
           e.way == support::ended::how::exited ? support::last_words(p, false) : "");
    return;
  }
  read_metric(a, p);
  add_output(a, p);
}

/// Waits until the server is ready or has ended. Returns false, with an error in the attempt, if it is neither in time.
bool runner::becomes_ready(support::process& p, attempt& a) {
  const double longest = std::min(limit(), 60.0);
  const auto begin = support::steady::now();
  while (p.running()) {
    const double left = longest - seconds_since(begin);
    if (left <= 0) {
      a.fail(fmt::format("not ready after {} s", quantity(longest)));
      a.costly = true;
      return false;
    }
    support::shell_command words(options_.ready);
    support::process probe(words.words(), {});
    const support::ended e = probe.wait(std::min(left, 10.0));
    check_end(e);
    if (support::went_well(e)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

void runner::run_server(support::process& p, attempt& a) {
  run_result& r = a.run;
  std::string message;
  const bool loaded = (options_.ready.empty() || becomes_ready(p, a)) && p.running();
  if (loaded) {
    support::shell_command words(options_.until);
    support::process load(words.words(), {});
    remind_of_first_run(load, "it ends when the command of --until does");
    const support::ended e = load.wait(limit());
    check_end(e);
    r.seconds = e.seconds;
    a.costly = took_the_limit(e);
    if (!support::went_well(e)) {
      message = support::last_words(load, false);
      a.fail("--until: " + say(e, limit()), message);
    }
    if (r.error.empty()) read_metric(a, load);
  }
  const bool alive = p.running();
  const support::ended server = p.stop(10);
  check_end(server);
  if (server.way == support::ended::how::not_started) throw not_started{server.status};
  if (!alive)
    a.fail("the server ended early: " + say(server, limit()) +
               (support::went_well(server)
                    ? " (if it goes into the background by itself, an option of its own must keep it in the foreground)"
                    : ""),
           support::last_words(p, true));
  else if (!r.error.empty() && message.empty())
    a.fail(a.failure, support::last_words(p, true));
  note_usage(r, server);  // not the load's
}

attempt runner::run_once(const std::vector<std::string>& prefix, const run_locks& locks, bool counted) {
  attempt a;
  const auto begin = support::steady::now();
  // `before` keeps the processes that the command of --before leaves behind alive during this run.
  std::optional<support::process> before;
  if (!options_.before.empty()) {
    support::shell_command words(options_.before);
    before.emplace(words.words(), support::environment_changes{});
    prepare(*before);
  }
  std::optional<counting> count;
  if (counted) count.emplace();
  const argument_list arguments(prefix, command_);
  try {
    support::process p(arguments.words(), changes(locks, count ? count->file().path() : ""),
                       count ? count->file().descriptor() : -1);
    const std::jthread looker = count ? count->look_on() : std::jthread();
    if (options_.until.empty())
      run_program(p, a);
    else
      run_server(p, a);
  } catch (const not_started& e) {
    before_message_();
    const bool is_lock = e.error == ENOENT && find_lock(command_.front()) != nullptr;
    support::report_error("cannot run {}: {}{}", arguments.words()[0], std::strerror(e.error),
                          is_lock ? fmt::format(": did you mean --locks {}?", command_.front()) : "");
    throw stopped{e.error == ENOENT ? support::not_found : support::not_executable};
  }
  if (before) check_end(before->wait(0));
  // Calls are counted only of a run that succeeded: a failed one has not made all its calls.
  if (count && a.run.error.empty()) a.calls = count->sum();
  a.seconds = seconds_since(begin);
  return a;
}

attempt runner::run(const run_locks& locks, const std::string& name, bool counted) {
  constexpr int most = 3;
  for (int i = 1;; ++i) {
    const unsigned before = support::continuations();
    attempt a = run_once({}, locks, counted);
    if (support::continuations() == before) return a;
    if (i == most) {
      a.fail("usher was stopped and continued meanwhile");
      return a;
    }
    before_message_();
    support::warn("stopped and continued while {} ran: that run is repeated", name);
  }
}

attempt runner::run_through(const std::vector<std::string>& words) {
  return run_once(words, {}, false);
}

}  // namespace usher::tool::trial
