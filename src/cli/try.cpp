// usher try: which lock suits this program on this machine? Runs it under each, in turns, and compares.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "chart.hpp"
#include "chart_file.hpp"
#include "files.hpp"
#include "help.hpp"
#include "launch.hpp"
#include "locks.hpp"
#include "machine.hpp"
#include "messages.hpp"
#include "metric.hpp"
#include "output_file.hpp"
#include "output_pattern.hpp"
#include "preload.hpp"
#include "process.hpp"
#include "progress.hpp"
#include "record_file.hpp"
#include "statistics.hpp"
#include "subcommand.hpp"
#include "table.hpp"
#include "utf8.hpp"
#include "words.hpp"

namespace usher::cli {
namespace {

constexpr const char* c_library = "pthread";  // what all others are compared with
constexpr std::size_t fewest_rounds = 5;      // with fewer, whatever is seen is noise
// One of each family: little, much and no order; restricted concurrency; the C library's own algorithm as a lock of ours.
constexpr const char* short_list = "steady,mcscr,twa,fairlock,ttas";

struct try_options {
  std::string locks = short_list;
  bool all = false;
  int rounds = 5;
  int warmup = 1;
  std::string metric;
  bool lower = false, higher = false;
  std::string before, until, ready;
  double timeout = 0;
  std::string json, chart;
  bool plot = false, quiet = false;
};

/// One run of the program.
struct result {
  ended end;
  double metric = std::nan("");
  std::string trouble;  ///< empty: all went well
  std::string said;     ///< what it printed last, if there was trouble
  bool costly = false;  ///< it took the whole time limit: once is enough
  std::size_t cut = 0;  ///< how much it printed, if not all of it was kept
};

/// A run, and what is not kept of it for good.
struct attempt {
  result seen;
  std::optional<printed> output;
  std::optional<recorded_calls> calls;
};

/// A lock's runs against those of the C library's mutex in the same rounds: by their ratios or, where the metric is not
/// above zero, by their differences.
struct comparison {
  bool is_ratio = true;
  std::vector<double> values;
  double middle = 0;
  interval between{};

  double neutral() const { return is_ratio ? 1 : 0; }
  bool excludes_neutral(const interval& i) const { return i.low > neutral() || i.high < neutral(); }
};

/// A lock under the name that the user gave (NAME=LOCK, or its own), and what was seen of it.
struct candidate {
  candidate(std::string as, const lock_table* l) : name(std::move(as)), lock(l) {}

  std::string name;
  const lock_table* lock;
  std::vector<std::optional<result>> rounds;  ///< by round; nullopt: not run
  std::vector<std::string> troubles;
  bool given_up = false;
  std::size_t first_difference = 0;
  std::size_t cut = 0;  ///< the most that a run printed, if not all of it was kept
  recorded_calls calls;
  bool counted = false;

  std::vector<double> values(double (*get)(const result&)) const {
    std::vector<double> all;
    for (const auto& r : rounds)
      if (r && r->trouble.empty()) all.push_back(get(*r));
    return all;
  }
};

double metric_of(const result& r) {
  return r.metric;
}

/// Four digits that say something, and no zeros after them.
std::string small_quantity(double v) {
  if (std::fabs(v) < 1e-9) return fmt::format("{:.4g}", v);
  std::string text = fmt::format("{:.{}f}", v, 3 - static_cast<int>(std::floor(std::log10(std::fabs(v)))));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string quantity(double v) {
  if (std::isnan(v)) return "-";
  const double size = std::fabs(v);
  // Halves are what medians of counts are.
  const int digits = v == std::floor(v) || size >= 100 ? 0 : size >= 10 || 2 * v == std::floor(2 * v) ? 1 : 2;
  if (size > 0 && size < 1) return small_quantity(v);
  if (size >= 1e15) return fmt::format("{:.4g}", v);
  std::string text = fmt::format("{:.{}f}", v, digits);
  const std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t i = point; i > 3 + (v < 0 ? 1 : 0) && size >= 1000; i -= 3) text.insert(i - 3, ",");
  return text;
}

/// Of little there are as many digits as say something.
std::string percent(double share) {
  if (share > 0 && share < 0.0001) return "less than 0.01 %";
  return fmt::format("{:.{}f} %", 100 * share, share == 0 || share >= 0.001 ? 1 : 2);
}

std::string say(const ended& e, double limit) {
  switch (e.way) {
    case ended::how::exited:
      return fmt::format("exit status {}", e.status);
    case ended::how::signalled:
      return fmt::format("died of signal {} ({})", e.status, strsignal(e.status));
    case ended::how::timed_out:
      return fmt::format("hung: killed after {} s", quantity(limit));
    case ended::how::not_started:
      return fmt::format("cannot be started: {}", std::strerror(e.status));
    case ended::how::interrupted:
      return "interrupted";
    case ended::how::stopped:
      if (e.status == SIGTTIN || e.status == SIGTTOU) return "stopped: it wants the terminal";
      return fmt::format("stopped by signal {} ({})", e.status, strsignal(e.status));
  }
  return "";
}

/// What it printed last: why it failed, as often as not.
std::string last_words(const process& p, bool also_of_output) {
  constexpr std::size_t enough_for_a_line = 1 << 16;
  std::string said = last_line(p.err().tail(enough_for_a_line));
  if (said.empty() && also_of_output) said = last_line(p.out().tail(enough_for_a_line));
  return printable(said, 120);
}

std::string command_line(char** command) {
  std::string words;
  for (char** w = command; *w != nullptr; ++w) {
    const std::string word = *w;
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+=./:,@%") == std::string::npos;
    words += (words.empty() ? "" : " ") + (plain ? word : shell_quoted(word));
  }
  return words;
}

/// Which of `n` candidates a round runs, in this order. Each round begins with the next one, and every other round goes
/// backwards: so none always has the same place or always comes after the same other, and what changes slowly meanwhile
/// does not look like a difference between them. The first round begins with the first, whom all others need.
std::vector<std::size_t> order_of(std::size_t round, std::size_t n) {
  std::vector<std::size_t> order;
  for (std::size_t place = 0; place < n; ++place) order.push_back((round + (round % 2 == 0 ? place : n - place)) % n);
  return order;
}

/// What a run does with its locks, from a record of its own (as of `usher stat`).
class counting {
 public:
  counting() : census_(file_.view()) {}
  counting(const counting&) = delete;
  counting& operator=(const counting&) = delete;

  const record_file& file() const { return file_; }

  /// From now on looks at which threads there are, until it goes out of scope: how long they have lived is not known after.
  [[nodiscard]] std::jthread look_on() {
    // The signals are for the thread that waits for the program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::jthread looker([this](const std::stop_token& stop) {
      std::mutex m;
      std::condition_variable_any stopped;
      for (std::unique_lock lock(m); !stop.stop_requested();
           stopped.wait_for(lock, stop, between_looks, [] { return false; }))
        census_.look(file_.clock().now());
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return looker;
  }
  recorded_calls sum() {
    census_.finish(file_.clock().now());
    return sum_of(file_.view());
  }

 private:
  record_file file_;
  census census_;
};

/// The trial: its options made definite, its candidates, and what has been seen.
class trial {
 public:
  trial(const try_options& o, char** command, std::vector<candidate> candidates, const preload_library& library,
        std::optional<metric_pattern> metric)
      : options_(o),
        command_(command),
        candidates_(std::move(candidates)),
        library_(library),
        metric_(std::move(metric)),
        bar_(static_cast<std::size_t>(o.warmup + o.rounds) * candidates_.size(), o.quiet) {}

  /// Runs everything. Returns the exit status so far.
  int run_all();
  std::string table_text(std::size_t width) const;
  std::string advice() const;
  std::string plot(std::size_t width) const;
  chart as_chart() const;
  nlohmann::ordered_json as_json() const;

  const std::vector<candidate>& candidates() const { return candidates_; }
  bool lower_is_better() const { return options_.lower || (!metric_ && !options_.higher); }
  std::optional<comparison> compared(const candidate& c) const;
  std::optional<comparison> ratio(const candidate& c) const;
  bool is_noise(const candidate& c) const;
  double others() const { return others_; }

 private:
  struct stopped {
    int status;
  };

  candidate& base() { return candidates_.front(); }
  const candidate& base() const { return candidates_.front(); }
  bool is_c_library(const candidate& c) const { return c.lock == base().lock; }
  std::string unit() const { return metric_ ? "" : " s"; }

  attempt run(candidate& c, bool is_counted);
  attempt run_once(candidate& c, bool is_counted);
  void run_program(process& p, attempt& a);
  void run_server(process& p, result& r);
  bool becomes_ready(process& p, result& r);
  void prepare(process& p);
  void check_end(const ended& e);
  void read_metric(result& r, const process& p) const;
  void compare_output(candidate& c, printed output);
  void note_trouble(candidate& c, const result& r) const;
  void one_run(candidate& c, int round);
  bool is_better(const comparison& k) const { return (k.middle > k.neutral()) != lower_is_better(); }
  std::string verdict() const;
  std::string how_much_better(const candidate& c, const comparison& k) const;
  std::vector<const candidate*> best_first() const;
  std::string remarks(const candidate& c) const;
  chart_row row_of(const candidate& c) const;
  std::vector<std::vector<std::string>> orders() const;
  environment_changes changes(const candidate& c, const std::string& record) const;
  double limit() const { return options_.timeout > 0 ? options_.timeout : limit_; }

  const try_options& options_;
  char** command_;
  std::vector<candidate> candidates_;
  const preload_library& library_;
  std::optional<metric_pattern> metric_;
  output_pattern expected_;
  std::vector<std::pair<candidate*, printed>> outputs_;  ///< that have not fitted yet: the base may print so, too
  bool base_has_run_ = false;
  int base_hangs_ = 0;
  progress bar_;
  double limit_ = 3600;  // until the first run has shown how long it takes
  double others_ = 0;
};

environment_changes trial::changes(const candidate& c, const std::string& record) const {
  const char* existing = std::getenv("LD_PRELOAD");
  environment_changes e = {{record::variable, record.empty() ? std::nullopt : std::optional(record)}};
  // What all others are compared with is the program as it is, without a library of ours; under a second name, too.
  if (is_c_library(c) && record.empty()) {
    e.emplace_back("USHER_LOCK", std::nullopt);
    if (existing != nullptr) {
      const std::string others = without_usher(existing, library_.path);
      e.emplace_back("LD_PRELOAD", others.empty() ? std::nullopt : std::optional(others));
    }
  } else {
    e.emplace_back("USHER_LOCK", c.lock->name);
    e.emplace_back("LD_PRELOAD", preload_list(existing == nullptr ? "" : existing, library_.path));
  }
  return e;
}

/// What cannot go on, whatever was run.
void trial::check_end(const ended& e) {
  if (e.survivor != 0) {
    bar_.clear();
    complain("cannot end process {}: {}", e.survivor,
             e.why_survived != 0 ? std::strerror(e.why_survived) : "it has been killed and is still there");
    throw stopped{1};
  }
  if (e.way == ended::how::interrupted || interrupted() != 0) throw stopped{128 + interrupted()};
}

void trial::prepare(process& p) {
  constexpr double limit = 600;
  const ended e = p.wait(limit, true);
  check_end(e);
  if (e.way == ended::how::exited && e.status == 0) return;
  const std::string said = last_words(p, false);
  bar_.clear();
  complain("--before: '{}': {}{}{}", options_.before, say(e, limit), said.empty() ? "" : ": ", said);
  throw stopped{1};
}

void trial::read_metric(result& r, const process& p) const {
  if (!metric_) {
    r.metric = r.end.seconds;
    return;
  }
  auto found = metric_->last_in(p.out().text());
  if (!found) found = metric_->last_in(p.err().text());
  if (!found) {
    r.trouble = "the metric is not in its output";
  } else if (const auto v = number_of(*found)) {
    r.metric = *v;
  } else {
    r.trouble = fmt::format("the metric captured '{}', which is no number", printable(*found, 40));
  }
}

/// What fits what the base printed is not kept.
void trial::compare_output(candidate& c, printed output) {
  if (&c == &base()) {
    expected_.learn(output);
    if (expected_.is_settled())
      std::erase_if(outputs_, [&](const auto& o) { return expected_.first_difference(o.second) == 0; });
    return;
  }
  if (expected_.is_settled() && expected_.first_difference(output) == 0) return;
  const auto same = [&](const auto& o) { return o.first == &c && o.second == output; };
  if (std::none_of(outputs_.begin(), outputs_.end(), same)) outputs_.emplace_back(&c, std::move(output));
}

void trial::run_program(process& p, attempt& a) {
  result& r = a.seen;
  r.end = p.wait(limit());
  check_end(r.end);
  r.costly = r.end.way == ended::how::timed_out || r.end.way == ended::how::stopped;
  const bool good = r.end.way == ended::how::exited && r.end.status == 0;
  if (!good) {
    r.trouble = say(r.end, limit());
    if (r.end.way == ended::how::exited) r.said = last_words(p, false);
    return;
  }
  read_metric(r, p);
  for (const scratch_file* f : {&p.out(), &p.err()})
    if (f->is_cut()) r.cut = std::max(r.cut, f->size());
  constexpr std::size_t compared = 1 << 20;
  std::function<void(std::string&)> mask;
  if (metric_) mask = [this](std::string& line) { metric_->mask(line); };
  a.output.emplace(p.out().head(compared), mask);
}

/// False, with the trouble, if it is not ready in time. True also if it has ended.
bool trial::becomes_ready(process& p, result& r) {
  const double patience = std::min(limit(), 60.0);
  const auto begin = steady::now();
  while (p.running()) {
    const double left = patience - std::chrono::duration<double>(steady::now() - begin).count();
    if (left <= 0) {
      r.trouble = fmt::format("not ready after {} s", quantity(patience));
      r.costly = true;
      return false;
    }
    shell_command words(options_.ready);
    process probe(words.words(), {});
    const ended e = probe.wait(std::min(left, 10.0));
    check_end(e);
    if (e.way == ended::how::exited && e.status == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

void trial::run_server(process& p, result& r) {
  bool loaded = options_.ready.empty() || becomes_ready(p, r);
  loaded = loaded && p.running();
  if (loaded) {
    shell_command words(options_.until);
    process load(words.words(), {});
    r.end = load.wait(limit());
    check_end(r.end);
    r.costly = r.end.way == ended::how::timed_out || r.end.way == ended::how::stopped;
    if (r.end.way != ended::how::exited || r.end.status != 0) {
      r.trouble = "--until: " + say(r.end, limit());
      r.said = last_words(load, false);
    }
    if (r.trouble.empty()) read_metric(r, load);
  }
  const bool alive = p.running();
  const ended server = p.stop(10);
  check_end(server);
  if (!alive || !r.trouble.empty()) {
    if (const std::string said = last_words(p, true); !alive || r.said.empty()) r.said = said;
  }
  if (!alive) r.trouble = "the server ended early: " + say(server, limit());
  r.end.usage = server.usage;  // what is of interest
  if (server.way == ended::how::not_started) r.end = server;
}

attempt trial::run_once(candidate& c, bool is_counted) {
  attempt a;
  // What it leaves running lives as long as this run.
  std::optional<process> before;
  if (!options_.before.empty()) {
    shell_command words(options_.before);
    before.emplace(words.words(), environment_changes{});
    prepare(*before);
  }
  std::optional<counting> counted;
  if (is_counted) counted.emplace();
  {
    process p(command_, changes(c, counted ? counted->file().path() : ""), counted ? counted->file().descriptor() : -1);
    const std::jthread looker = counted ? counted->look_on() : std::jthread();
    if (options_.until.empty())
      run_program(p, a);
    else
      run_server(p, a.seen);
  }
  if (before) check_end(before->wait(0));
  const result& r = a.seen;
  if (r.end.way == ended::how::not_started) {
    bar_.clear();
    complain("cannot run {}: {}", command_[0], std::strerror(r.end.status));
    throw stopped{r.end.status == ENOENT ? not_found : not_executable};
  }
  // A run that went wrong has not made all its calls.
  if (counted && r.trouble.empty()) a.calls = counted->sum();
  return a;
}

/// Again if we were stopped meanwhile (^Z): nobody watched the time then.
attempt trial::run(candidate& c, bool is_counted) {
  constexpr int most = 3;
  for (int i = 1;; ++i) {
    const unsigned before = continuations();
    attempt a = run_once(c, is_counted);
    if (continuations() == before) return a;
    if (i == most) {
      a.seen.trouble = "usher was stopped and continued meanwhile";
      return a;
    }
    bar_.clear();
    warn("stopped and continued while {} ran: that run is repeated", c.name);
  }
}

/// Each kind of trouble once, with what the program said the first time.
void trial::note_trouble(candidate& c, const result& r) const {
  const auto known = [&](const std::string& t) { return t.starts_with(r.trouble); };
  if (std::none_of(c.troubles.begin(), c.troubles.end(), known))
    c.troubles.push_back(r.trouble + (r.said.empty() ? "" : ": " + r.said));
}

void trial::one_run(candidate& c, int round) {
  if (c.given_up) return;
  const bool warmup = round < 0, is_base = &c == &base();
  bar_.show(fmt::format("{}, {}", c.name, warmup ? std::string("warm-up") : fmt::format("round {}", round + 1)));
  attempt a = run(c, round == -1);
  if (is_base && !base_has_run_ && !a.seen.trouble.empty() && !a.seen.costly) {
    note_trouble(c, a.seen);  // once may be chance; twice, at the very beginning, is not
    a = run(c, round == -1);
  }
  bar_.one_done();
  result& r = a.seen;
  if (!r.trouble.empty()) {
    note_trouble(c, r);
    if (is_base) {
      base_hangs_ += r.costly ? 1 : 0;
      if (!base_has_run_ || base_hangs_ > 1) {
        bar_.clear();
        complain("without any lock of Usher's: {}; there is nothing to compare with", c.troubles.back());
        throw stopped{1};
      }
    } else if (r.costly) {
      c.given_up = true;
      bar_.skip(static_cast<std::size_t>(options_.rounds - std::max(round, 0)));
    }
  } else if (is_base) {
    base_has_run_ = true;
    limit_ = 10 * r.end.seconds + 10;
  }
  if (a.output) compare_output(c, std::move(*a.output));
  if (a.calls) {
    c.calls = *a.calls;
    c.counted = true;
  }
  c.cut = std::max(c.cut, r.cut);
  if (!warmup) c.rounds[static_cast<std::size_t>(round)] = std::move(r);
}

int trial::run_all() {
  for (candidate& c : candidates_) c.rounds.resize(static_cast<std::size_t>(options_.rounds));
  const foreign_cpu foreign;
  int status = 0;
  try {
    // Warm-ups count the calls in the last of them; what is timed does not pay for that.
    for (int round = -options_.warmup; round < options_.rounds; ++round)
      for (const std::size_t i : order_of(static_cast<std::size_t>(std::max(round, 0)), candidates_.size()))
        one_run(candidates_[i], round);
  } catch (const stopped& s) {
    status = s.status;
  }
  bar_.clear();
  others_ = foreign.share();
  for (const auto& [c, output] : outputs_)
    if (const std::size_t line = expected_.first_difference(output); line != 0 && c->first_difference == 0)
      c->first_difference = line;
  return status;
}

std::optional<comparison> trial::compared(const candidate& c) const {
  std::vector<std::pair<double, double>> pairs;
  comparison k;
  for (std::size_t i = 0; i < c.rounds.size(); ++i) {
    const auto &mine = c.rounds[i], &theirs = base().rounds[i];
    if (!mine || !theirs || !mine->trouble.empty() || !theirs->trouble.empty()) continue;
    pairs.emplace_back(mine->metric, theirs->metric);
    k.is_ratio = k.is_ratio && mine->metric > 0 && theirs->metric > 0;
  }
  if (pairs.empty()) return std::nullopt;
  for (const auto& [mine, theirs] : pairs) k.values.push_back(k.is_ratio ? mine / theirs : mine - theirs);
  k.middle = median(k.values);
  k.between = bootstrap(k.values);
  return k;
}

std::optional<comparison> trial::ratio(const candidate& c) const {
  auto k = compared(c);
  return k && k->is_ratio ? k : std::nullopt;
}

bool trial::is_noise(const candidate& c) const {
  const auto k = compared(c);
  return !k || k->values.size() < fewest_rounds || !k->excludes_neutral(k->between);
}

std::vector<const candidate*> trial::best_first() const {
  std::vector<const candidate*> sorted;
  sorted.reserve(candidates_.size());
  for (const candidate& c : candidates_) sorted.push_back(&c);
  const auto worth = [&](const candidate* c) {
    const auto values = c->values(metric_of);
    if (values.empty()) return HUGE_VAL;
    return lower_is_better() ? median(values) : -median(values);
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](auto* a, auto* b) { return worth(a) < worth(b); });
  return sorted;
}

/// What went wrong.
std::string trial::remarks(const candidate& c) const {
  std::string text;
  const auto remark = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  for (const std::string& t : c.troubles) remark(t);
  const auto failed =
      std::count_if(c.rounds.begin(), c.rounds.end(), [](const auto& r) { return r && !r->trouble.empty(); });
  if (failed > 0 && !c.given_up) remark(fmt::format("{} of {} runs failed", failed, c.rounds.size()));
  if (c.first_difference != 0) remark(fmt::format("PRINTED SOMETHING ELSE (line {})", c.first_difference));
  if (c.cut != 0)
    remark(fmt::format("printed {} MiB: only the first and the last {} were read", c.cut >> 20,
                       scratch_file::kept_end >> 20));
  const auto k = compared(c);
  if (k && !k->is_ratio) remark("no ratio: the metric is zero or negative");
  if (!k && !c.values(metric_of).empty()) remark("no round in which the C library's mutex went well, too");
  return text;
}

std::string trial::table_text(std::size_t width) const {
  std::vector<std::vector<std::string>> rows;
  for (const candidate* c : best_first()) {
    const auto values = c->values(metric_of);
    const auto of = [&](double (*get)(const result&)) { return quantity(median(c->values(get))); };
    std::string middle = "-", range = "-", against = c == &base() ? "1" : "-", between = "-";
    if (!values.empty()) {
      middle = quantity(median(values)) + unit();
      range = quantity(*std::min_element(values.begin(), values.end())) + "–" +
              quantity(*std::max_element(values.begin(), values.end()));
    }
    if (const auto r = ratio(*c); r && c != &base()) {
      against = fmt::format("{:.2f}", r->middle);
      if (r->values.size() >= 2) between = fmt::format("{:.2f}–{:.2f}", r->between.low, r->between.high);
    }
    std::string last = remarks(*c);
    const auto k = compared(*c);
    if (c != &base() && k && is_noise(*c)) {
      const std::size_t n = k->values.size();
      const std::string few = n < fewest_rounds ? fmt::format(": only {} round{}", n, n == 1 ? "" : "s") : "";
      last.insert(0, "within the noise" + few + (last.empty() ? "" : "; "));
    } else if (c != &base() && k && !k->is_ratio) {
      last.insert(0, fmt::format("{} by {}; ", is_better(*k) ? "better" : "worse", quantity(std::fabs(k->middle))));
    }
    std::string calls = "-", contended = "-";
    if (c->counted) {
      calls = quantity(static_cast<double>(c->calls.locks));
      if (c->calls.locks > 0)
        contended = fmt::format("{:.1f} %",
                                100 * static_cast<double>(c->calls.contended) / static_cast<double>(c->calls.locks));
    }
    rows.push_back({c->name, middle, range, against, between, of([](const result& r) {
                      const rusage& u = r.end.usage;
                      return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                             static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
                    }),
                    of([](const result& r) { return static_cast<double>(r.end.usage.ru_nvcsw); }),
                    of([](const result& r) { return static_cast<double>(r.end.usage.ru_nivcsw); }),
                    of([](const result& r) { return static_cast<double>(r.end.usage.ru_maxrss) / 1024; }), calls,
                    contended, last});
  }
  return format_table({{"lock"},
                       {"median", true},
                       {"range", true},
                       {"ratio", true},
                       {"95 %", true},
                       {"CPU s", true},
                       {"switches", true},
                       {"preempted", true},
                       {"MiB", true},
                       {"lock calls", true},
                       {"contended", true},
                       {"", false, 20}},
                      rows, width);
}

std::string trial::advice() const {
  std::uint64_t calls = 0;
  bool counted = false, loaded = false;
  for (const candidate& c : candidates_) {
    calls = std::max(calls, c.calls.locks + c.calls.waits + c.calls.semaphores);
    counted = counted || c.counted;
    loaded = loaded || c.calls.processes > 0;
  }
  if (counted && !loaded)
    return "Its lock calls could not be counted: the library was not loaded (a Go, static or set-user-ID program), or "
           "it "
           "runs as another user and closes what it inherits. " +
           verdict();
  // Libraries take a handful of locks when they are loaded.
  if (counted && calls < 100)
    return fmt::format("The program does not use pthread locks or semaphores ({} calls): Usher can do nothing for it.",
                       calls);
  const auto share = base().counted ? base().calls.waiting_share() : std::nullopt;
  if (!share) return verdict();
  return fmt::format("Under the C library's mutex threads waited {} of their time for mutexes. {}", percent(*share),
                     verdict());
}

std::string trial::how_much_better(const candidate& c, const comparison& k) const {
  if (!k.is_ratio) return fmt::format("{} was better by {} than", c.name, quantity(std::fabs(k.middle)));
  return fmt::format("{} was {:.2f} times as good as", c.name, lower_is_better() ? 1 / k.middle : k.middle);
}

/// Among many locks that are no different, one will seem better by chance. So a lock is named only if it also is where each
/// of them has its share of the chance of a mistake (Bonferroni).
std::string trial::verdict() const {
  constexpr double error = 0.05;
  std::vector<std::pair<const candidate*, comparison>> better;
  std::size_t locks = 0, most = 0;
  for (const candidate& c : candidates_) {
    if (&c == &base()) continue;
    ++locks;
    const auto k = compared(c);
    if (k) most = std::max(most, k->values.size());
    if (is_c_library(c) || !k || is_noise(c) || !is_better(*k) || !c.troubles.empty() || c.first_difference != 0)
      continue;
    better.emplace_back(&c, *k);
  }
  if (most < fewest_rounds)
    return options_.rounds < static_cast<int>(fewest_rounds)
               ? "Fewer than five rounds say nothing certain: try --rounds 5 or more."
               : "Fewer than five rounds went well, which says nothing certain.";
  if (better.empty()) return "Nothing was clearly better than the C library's mutex: keep it.";
  // Best first; differences, which have no common measure with ratios, after these.
  const auto gain = [&](const comparison& k) { return !k.is_ratio ? 0 : lower_is_better() ? 1 / k.middle : k.middle; };
  std::stable_sort(better.begin(), better.end(),
                   [&](const auto& a, const auto& b) { return gain(a.second) > gain(b.second); });
  const double share = error / static_cast<double>(locks);
  for (const auto& [c, k] : better)
    if (locks == 1 || k.excludes_neutral(between_values(k.values, share)))
      return fmt::format("{} the C library's mutex: usher run --lock {} -- {}", how_much_better(*c, k), c->lock->name,
                         command_line(command_));
  std::string names;
  for (const auto& [c, k] : better)
    names += (names.empty() ? "" : ",") + (c->name == c->lock->name ? c->name : c->name + "=" + c->lock->name);
  const auto now = static_cast<std::size_t>(options_.rounds);
  std::size_t rounds = std::max(fewest_values(error / static_cast<double>(better.size())), now);
  if (better.size() == locks && rounds == now) rounds = 2 * now;
  return fmt::format("{} the C library's mutex, which may be chance among {} locks: try --rounds {} --locks {}",
                     how_much_better(*better.front().first, better.front().second), locks, rounds, names);
}

std::string trial::plot(std::size_t width) const {
  const std::size_t room = std::clamp<std::size_t>(width == 0 ? 80 : width, 50, 120) - 30;
  double most = 1;
  for (const candidate& c : candidates_)
    if (const auto r = ratio(c)) most = std::max(most, r->middle);
  std::string text =
      fmt::format("ratio to the C library's mutex ({} is better)\n", lower_is_better() ? "less" : "more");
  for (const candidate& c : candidates_) {
    const auto r = ratio(c);
    if (!r) continue;
    const auto bar = static_cast<std::size_t>(r->middle / most * static_cast<double>(room));
    text += fmt::format("{:<16} {}{} {:.2f}\n", c.name, std::string(bar, '#'), std::string(room - bar, ' '), r->middle);
  }
  return text;
}

chart_row trial::row_of(const candidate& c) const {
  chart_row row;
  row.label = c.name;
  row.remark = remarks(c);
  const auto r = ratio(c);
  if (&c == &base() && !c.values(metric_of).empty()) {
    row.value = 1;
    row.kind = mark::reference;
    return row;
  }
  if (!r) {
    if (row.remark.empty()) row.remark = "not run";
    return row;
  }
  row.value = r->middle;
  row.low = r->between.low;
  row.high = r->between.high;
  row.kind = is_noise(c) ? mark::unclear : is_better(*r) ? mark::good : mark::bad;
  return row;
}

/// What a plain regular expression says beside the number: "SET: +([0-9.]+)" is about "SET". Others are shown as they are.
std::string title_of(const std::string& metric) {
  static const std::regex plain(R"(([^()\[\]{}|.?\\^$]*)\([^()]*\)([^()\[\]{}|.?\\^$]*))");
  std::smatch found;
  if (!std::regex_match(metric, found, plain)) return metric;
  std::istringstream words(std::regex_replace(found.str(1) + " " + found.str(2), std::regex("[ :=,]*[+*]|[:=,]"), " "));
  std::string title;
  for (std::string word; words >> word;) title += (title.empty() ? "" : " ") + word;
  return title.empty() ? metric : title;
}

chart trial::as_chart() const {
  chart c;
  c.title = metric_ ? title_of(options_.metric) : "Time that a run takes";
  c.subtitle = command_line(command_);
  if (!options_.until.empty()) c.subtitle += ", load: " + options_.until;
  c.quantity = "ratio to the C library's mutex";
  c.value_heading = "ratio";
  c.interval_heading = "95 %";
  c.less_is_better = lower_is_better();
  for (const candidate* one : best_first()) c.rows.push_back(row_of(*one));
  c.legend = {{mark::reference, "the C library's mutex"},
              {mark::good, "better"},
              {mark::bad, "worse"},
              {mark::unclear, "within the noise, or fewer than 5 runs"}};
  const unsigned cpus = std::thread::hardware_concurrency();
  c.caption = {fmt::format("{}, {} CPU{}", cpu_name(), cpus, cpus == 1 ? "" : "s"),
               fmt::format("{} round{}{}", options_.rounds, options_.rounds == 1 ? "" : "s",
                           interrupted() != 0 ? ", interrupted" : ""),
               fmt::format("others and the hypervisor took {:.0f} % of the CPU time", 100 * others_), now_in_words(),
               fmt::format("usher {}", USHER_VERSION)};
  return c;
}

/// The candidates' names, round by round, as they were run.
std::vector<std::vector<std::string>> trial::orders() const {
  std::vector<std::vector<std::string>> all;
  for (std::size_t round = 0; round < base().rounds.size(); ++round) {
    std::vector<std::string> names;
    for (const std::size_t i : order_of(round, candidates_.size()))
      if (candidates_[i].rounds[round]) names.push_back(candidates_[i].name);
    all.push_back(std::move(names));
  }
  return all;
}

nlohmann::ordered_json trial::as_json() const {
  nlohmann::ordered_json all;
  std::vector<std::string> words;
  for (char** w = command_; *w != nullptr; ++w) words.emplace_back(*w);
  all["command"] = words;
  all["metric"] = metric_ ? options_.metric : "elapsed seconds";
  all["better"] = lower_is_better() ? "lower" : "higher";
  all["cpus"] = std::thread::hardware_concurrency();
  all["others_cpu_share"] = others_;
  all["usher"] = USHER_VERSION;
  all["order"] = orders();
  all["candidates"] = nlohmann::ordered_json::array();
  for (const candidate& c : candidates_) {
    nlohmann::ordered_json one = {{"name", c.name}, {"lock", c.lock->name}};
    if (const auto k = compared(c)) {
      one[k->is_ratio ? "ratio" : "difference"] = k->middle;
      if (std::isfinite(k->between.low)) one["interval"] = {k->between.low, k->between.high};
      one["noise"] = &c != &base() && is_noise(c);
    }
    if (c.counted)
      one["calls"] = {{"locks", c.calls.locks},
                      {"contended", c.calls.contended},
                      {"condition_waits", c.calls.waits},
                      {"semaphores", c.calls.semaphores},
                      {"waiting_share", nullptr}};
    if (const auto share = c.calls.waiting_share(); c.counted && share) one["calls"]["waiting_share"] = *share;
    one["troubles"] = c.troubles;
    one["output_differs_at_line"] = c.first_difference;
    one["runs"] = nlohmann::ordered_json::array();
    for (const auto& r : c.rounds) {
      if (!r) continue;
      const rusage& u = r->end.usage;
      nlohmann::ordered_json run = {
          {"metric", std::isnan(r->metric) ? nlohmann::ordered_json() : nlohmann::ordered_json(r->metric)},
          {"seconds", r->end.seconds},
          {"user_s", static_cast<double>(u.ru_utime.tv_sec) + static_cast<double>(u.ru_utime.tv_usec) * 1e-6},
          {"system_s", static_cast<double>(u.ru_stime.tv_sec) + static_cast<double>(u.ru_stime.tv_usec) * 1e-6},
          {"voluntary_switches", u.ru_nvcsw},
          {"involuntary_switches", u.ru_nivcsw},
          {"peak_kib", u.ru_maxrss}};
      if (!r->trouble.empty()) run["trouble"] = r->trouble + (r->said.empty() ? "" : ": " + r->said);
      one["runs"].push_back(std::move(run));
    }
    all["candidates"].push_back(std::move(one));
  }
  return all;
}

/// LOCK or NAME=LOCK, to be added to `chosen`. False after a complaint.
bool add_choice(const std::string& text, std::vector<candidate>& chosen) {
  const std::size_t sign = text.find('=');
  const bool named = sign != std::string::npos;
  const std::string name = text.substr(0, sign), wanted = named ? text.substr(sign + 1) : text;
  if (name.empty() || wanted.empty()) {
    complain("--locks: '{}' has no {} the '='; NAME=LOCK shows LOCK as NAME", text,
             name.empty() ? "name before" : "lock after");
    return false;
  }
  const lock_table* const lock = find_lock(wanted);
  if (lock == nullptr) {
    complain("unknown lock '{}'{} (usher list shows all)", wanted, did_you_mean(nearest_lock(wanted)));
    return false;
  }
  if (!lock->traits->excludes) {
    complain("{} excludes nobody: it is for measurements only, and no program may run under it", wanted);
    return false;
  }
  const lock_table* const namesake = find_lock(name);
  if (namesake != nullptr && namesake != lock) {
    complain("--locks: '{}' would show one lock under the name of another", text);
    return false;
  }
  if (!named && name == c_library) return true;  // it is there already
  if (std::any_of(chosen.begin(), chosen.end(), [&](const candidate& c) { return c.name == name; })) {
    complain("--locks: the name '{}' is there twice (a lock may be, under two names: first={},second={})", name, wanted,
             wanted);
    return false;
  }
  chosen.emplace_back(name, lock);
  return true;
}

/// The C library's own first, then what was asked for. Empty after a complaint.
std::vector<candidate> choose(const try_options& o) {
  std::vector<std::string> names;
  if (o.all) {
    for (const lock_table* lock : catalog())
      if (lock->plain() && lock->traits->excludes) names.emplace_back(lock->name);
  } else {
    for (const std::string_view name : parts_of(o.locks, ",")) names.emplace_back(name);
  }
  std::vector<candidate> chosen;
  chosen.emplace_back(c_library, find_lock(c_library));
  for (const std::string& name : names)
    if (!add_choice(name, chosen)) return {};
  if (chosen.size() == 1) {
    complain("--locks names no lock to compare with the C library's (usher list shows all)");
    return {};
  }
  return chosen;
}

/// Why it is no time limit; empty: it is.
std::string no_limit(const std::string& text) {
  char* rest = nullptr;
  const double v = std::strtod(text.c_str(), &rest);
  const bool good = rest != text.c_str() && *rest == '\0' && std::isfinite(v) && v > 0;
  return good ? "" : fmt::format("'{}' is no number of seconds above 0", text);
}

int carry_out(const try_options& o, char** command) {
  if (command[0] == nullptr) {
    complain("try: which command? usher try [OPTIONS] -- CMD [ARGS...] (see usher try --help)");
    return bad_usage;
  }
  std::optional<metric_pattern> metric;
  if (!o.metric.empty()) {
    try {
      metric.emplace(o.metric);
    } catch (const std::regex_error& e) {
      complain("--metric '{}' is no regular expression: {}", o.metric, e.what());
      return bad_usage;
    }
    if (!metric->has_group()) {
      complain("--metric '{}' has no group: put parentheses round the number, as in 'rate: ([0-9.]+)'", o.metric);
      return bad_usage;
    }
  }
  if (!o.ready.empty() && o.until.empty()) {
    complain("--ready is for servers, whose load is run by --until");
    return bad_usage;
  }
  const auto format = image_format_of(o.chart);
  if (!is_chart_name(o.chart)) return bad_usage;
  if (!o.json.empty() && !o.chart.empty() && is_same_file(o.json, o.chart)) {
    complain("--json and --chart are to write the same file, {}", o.chart);
    return bad_usage;
  }
  std::vector<candidate> candidates = choose(o);
  if (candidates.empty()) return bad_usage;
  const auto found = find_library();
  if (const auto* none = std::get_if<no_library>(&found)) {
    complain("{}", none->reason);
    return cannot_start;
  }
  const auto& library = std::get<preload_library>(found);
  warn_of_hindrances(command[0], library.target);

  if (has_usher(environment("LD_PRELOAD"), library.path))
    warn("LD_PRELOAD has Usher's library already: the C library's runs are without it");

  output_file json, picture;
  if (!can_draw(o.chart) || !json.open(o.json) || !picture.open(o.chart)) return cannot_start;
  watch_for_interruption();
  trial t(o, command, std::move(candidates), library, std::move(metric));
  const int stopped = t.run_all();
  const bool any = std::any_of(t.candidates().begin(), t.candidates().end(),
                               [](const candidate& c) { return !c.values(metric_of).empty(); });
  bool written = true;
  if (stopped == 0 || any) {
    fmt::print("{}", t.table_text(terminal_width()));
    if (o.plot) fmt::print("\n{}", t.plot(terminal_width()));
    // What programs print need not be UTF-8.
    const auto lenient = nlohmann::ordered_json::error_handler_t::replace;
    if (json.wanted()) written = json.write(t.as_json().dump(2, ' ', false, lenient) + "\n");
    if (format) written = write_chart(picture, t.as_chart(), *format) && written;
    fmt::print("\nOthers and the hypervisor took {:.0f} % of the CPU time meanwhile.{}\n", 100 * t.others(),
               t.others() > 0.1 ? " That is much: take the trial again when the machine is quiet." : "");
    if (stopped == 0) fmt::print("{}\n", t.advice());
  }
  if (stopped != 0) return stopped;
  if (!written) return cannot_start;
  const bool trouble = std::any_of(t.candidates().begin(), t.candidates().end(),
                                   [](const candidate& c) { return !c.troubles.empty() || c.first_difference != 0; });
  return trouble ? 1 : 0;
}

constexpr const char* try_notes = R"text(Runs the command under the C library's mutex and under each lock, in turns, and
compares. Standard input, if it is a file, is given to each run from its beginning;
otherwise it is empty.

Examples:
  usher try -- ./bench
  usher try --metric 'events: +([0-9]+)' -- sysbench threads --time=2 run
  usher try --locks steady,mcs --rounds 9 --before 'rm -rf db' -- ./bench --db=db
  usher try --locks again=pthread --rounds 7 -- ./bench    # how much is noise?
  usher try --until 'redis-benchmark -q -t set' --metric 'SET: ([0-9.]+)' \
            --ready 'redis-cli ping' -- redis-server

Exit status: 0; 1 if a run failed, hung or printed something else than under the C
library's mutex, or if the command fails without any lock of ours; 2 for bad usage or
an unknown lock; 125, 126, 127 as usher run; 130 if interrupted, 143 by SIGTERM, 129 by
SIGHUP, 131 by SIGQUIT: the table so far is printed, and the files so far are written.)text";

}  // namespace

subcommand try_locks(CLI::App& app) {
  auto* sub = app.add_subcommand("try", "Find out which lock suits a program on this machine");
  auto o = std::make_shared<try_options>();
  auto* locks =
      sub->add_option(
             "--locks", o->locks,
             fmt::format("Which locks, beside {}; NAME=LOCK shows LOCK as NAME, so that one may be there twice "
                         "(default: {})",
                         c_library, short_list))
          ->type_name("A,B,...");
  sub->add_flag("--all", o->all, "All locks, each in its plain form")->excludes(locks);
  sub->add_option("--rounds", o->rounds, "Runs of each lock that count (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  sub->add_option("--warmup", o->warmup, "Runs of each lock before; the last of them counts its calls (default: 1)")
      ->type_name("N")
      ->check(CLI::Range(0, 100));
  sub->add_option("--metric", o->metric,
                  "A regular expression whose group is the number to compare, in the output, where it matches last; "
                  "more is better (default: the time that a run takes)")
      ->type_name("REGEX");
  auto* lower = sub->add_flag("--lower", o->lower, "Less of the metric is better");
  sub->add_flag("--higher", o->higher, "More of it is better")->excludes(lower);
  sub->add_option("--before", o->before,
                  "A shell command before each run; what it leaves running lives as long as that run")
      ->type_name("CMD");
  sub->add_option("--until", o->until,
                  "The command is a server: run this shell command beside it, take the metric from "
                  "that, and stop the server when it ends")
      ->type_name("CMD");
  sub->add_option("--ready", o->ready, "With --until: a shell command that succeeds once the server is ready")
      ->type_name("CMD");
  sub->add_option("--timeout", o->timeout,
                  "Kill a run after so long (default: 10 s and ten times the C library's latest good run)")
      ->type_name("S")
      ->check(no_limit);
  sub->add_option("--json", o->json, "Write every run to this file")->type_name("FILE");
  sub->add_option("--chart", o->chart, "Draw the ratios and their intervals into this file, .svg or .png")
      ->type_name("FILE");
  sub->add_flag("--plot", o->plot, "Draw the ratios as bars, too");
  sub->add_flag("--quiet", o->quiet, "No progress bar");
  sub->formatter(std::make_shared<help>("usher try [OPTIONS] -- CMD [ARGS...]"));
  sub->footer(try_notes);
  return {sub, [o](char** command) { return carry_out(*o, command); }, true};
}

}  // namespace usher::cli
