// usher check: locks under a relaxed-memory checker. The work is cut into parts, each a run of usher_check: some executions
// of one client of one lock. Three questions are asked so: does a lock pass, is a seeded mistake caught, is a memory order
// needed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "checker.hpp"
#include "cli/commands/locks.hpp"
#include "cli/commands/subcommand.hpp"
#include "cli/process/process.hpp"
#include "cli/process/side_by_side.hpp"
#include "cli/text/help.hpp"
#include "cli/text/messages.hpp"
#include "cli/text/output_file.hpp"
#include "cli/text/progress.hpp"
#include "cli/text/table.hpp"
#include "interleaving.hpp"

namespace usher::cli {
namespace {

constexpr unsigned least_threads = 2, most_threads = 4;
constexpr unsigned usual_acquisitions = 2;
constexpr std::uint64_t most_in_a_run = 10000;  // executions: a second or less, mostly
constexpr std::size_t most_interleavings = 3;
constexpr std::size_t most_steps = 60;

struct check_options {
  std::vector<std::string> locks;
  bool all = false, bugs = false, weaken = false, list = false, quiet = false;
  std::vector<unsigned> threads;
  std::vector<std::string> forms;
  std::uint64_t executions = 20000, seed = 1;
  std::string replay, client, scheduler = "random", json, weaken_at;
  unsigned differences = 2, acquisitions = usual_acquisitions, jobs = 0;
  std::uint64_t programs = 0;

  bool random() const { return scheduler == "random"; }
};

/// The way of waiting that a name ends with: "plain" is spin-then-park.
std::string form_of(const checkable& c) {
  return c.name.size() > c.family.size() ? c.name.substr(c.family.size() + 1) : "plain";
}

/// One client of one lock with so many threads.
struct part {
  const checkable* what;
  std::string client;
  unsigned threads;
};

/// Some of a part's executions: one run of the checker.
struct chunk {
  std::size_t part;
  std::uint64_t seed, count;
  std::optional<answer> said;
};

/// An order that is weakened: a place in a source file and what the order is made there, FILE:LINE:COLUMN:ORDER. Without ORDER
/// all of them are made relaxed there.
struct site {
  std::string text, file;
  unsigned line = 0, column = 0;
  std::string made;
};

constexpr std::array orders{"relaxed",         "acquire",         "release", "acq_rel",
                            "failure-relaxed", "failure-acquire", "removed"};

site site_from(const std::string& text) {
  static const std::regex shape(fmt::format("(.+):([0-9]+):([0-9]+)(:({}))?", fmt::join(orders, "|")));
  std::smatch found;
  site s;
  s.text = text;
  if (std::regex_match(text, found, shape)) {
    s.file = found[1];
    s.line = static_cast<unsigned>(std::stoul(found[2]));
    s.column = static_cast<unsigned>(std::stoul(found[3]));
    s.made = found[5];
  }
  return s;
}

std::string name_of(const site& s) {
  return fmt::format("{}:{}", short_name(s.file), s.line);
}

/// What is asked: whether all parts pass, or whether any of them fails.
struct question {
  std::string family, bug;
  std::optional<site> weakened;
  bool must_fail = false;  ///< over with the first failure
  std::vector<part> parts;
  std::vector<chunk> chunks;
  std::size_t first_failure = ~std::size_t{0};  ///< of the chunks, where it must fail
};

/// The checker is known not to find it: docs/verification.md says why.
bool may_escape(const question& q) {
  return q.bug.ends_with("(known to escape)");  // tools/mutants.py
}

bool is_failure(const verdict& v) {
  return v.way != verdict::kind::pass;
}

const verdict* failure_in(const chunk& c) {
  if (!c.said || c.said->verdicts.empty()) return nullptr;
  const verdict& last = c.said->verdicts.back();
  return is_failure(last) ? &last : nullptr;
}

/// Executions of a chunk that were carried out.
std::uint64_t executions_of(const chunk& c) {
  std::uint64_t n = 0;
  if (c.said)
    for (const verdict& v : c.said->verdicts) n += v.executions;
  return n;
}
double seconds_of(const chunk& c) {
  double s = 0;
  if (c.said)
    for (const verdict& v : c.said->verdicts) s += v.seconds;
  return s;
}

std::string replay_command(const question& q, const part& p, const verdict& v, unsigned acquisitions) {
  return fmt::format("usher check {}{} --client {} --threads {}{} --replay {}", p.what->name,
                     q.weakened ? " --weaken-at " + q.weakened->text : "", p.client, p.threads,
                     acquisitions == usual_acquisitions ? "" : fmt::format(" --acquisitions {}", acquisitions),
                     v.state);
}

class checking {
 public:
  checking(const check_options& o, std::string checker, std::vector<checkable> all)
      : options_(o), checker_(std::move(checker)), all_(std::move(all)) {}

  /// False after a complaint.
  bool choose();
  bool find_sites();
  void cut();
  void run();
  /// Executions that failed, as people read them.
  std::string interleavings(std::size_t width);
  std::string table(std::size_t width) const;
  std::string summary() const;
  nlohmann::ordered_json as_json() const;
  /// Whether all was as it should be.
  bool good() const;
  int replay(std::size_t width);

  bool empty() const { return questions_.empty(); }

 private:
  std::vector<const checkable*> named(const std::string& name) const;
  /// The name that a misspelt one may mean; empty if none is near.
  std::string_view nearest(std::string_view name) const;
  std::string form_with_same_states(const lock_table* lock) const;
  bool refuse(const std::string& name) const;
  std::vector<part> parts_of(const std::vector<const checkable*>& forms) const;
  std::vector<std::string> command(const part& p, const std::optional<site>& weakened) const;
  std::vector<step> steps(const question& q, const part& p, const verdict& v) const;
  bool is_over(const question& q, const chunk& c) const;
  void done(question& q, std::size_t c, const ended_run& run);
  /// All chunks of a part up to the first that failed, if any did.
  struct sum {
    std::uint64_t executions = 0, programs = 0, seeds = 0;
    double seconds = 0;
    bool complete = true;
    const verdict* failure = nullptr;
  };
  sum sum_of(const question& q, std::size_t part) const;
  sum sum_of(const question& q) const;
  /// Whether all was gone through that was asked for: of programs, not where executions ran out before.
  bool is_complete(const sum& s) const { return options_.programs == 0 || s.programs >= options_.programs; }
  std::string table_of_verdicts(std::size_t width) const;
  std::string table_of_mistakes(std::size_t width) const;
  std::string seeds(std::uint64_t count) const {
    return fmt::format("{}–{}", options_.seed, options_.seed + std::max<std::uint64_t>(count, 1) - 1);
  }
  /// Seconds after which a run hangs. Long ones are for programs.
  double limit(std::uint64_t executions) const {
    return 120 + 0.02 * static_cast<double>(std::min<std::uint64_t>(executions, most_in_a_run)) +
           0.0005 * static_cast<double>(executions);
  }

  const check_options& options_;
  std::string checker_;
  std::vector<checkable> all_;
  std::vector<std::vector<const checkable*>> families_;
  std::vector<question> questions_;
  bool broken_ = false;  ///< the checker itself did not work
};

// ---- what is asked ----------------------------------------------------------------------------------------------

std::vector<const checkable*> checking::named(const std::string& name) const {
  std::vector<const checkable*> forms;
  for (const checkable& c : all_)
    if (c.name == name) forms.push_back(&c);
  if (!forms.empty() && forms[0]->name != forms[0]->family) return forms;  // one form
  forms.clear();
  for (const checkable& c : all_)
    if (c.family == name) forms.push_back(&c);
  return forms;
}

std::string_view checking::nearest(std::string_view name) const {
  nearest_name near(name);
  for (const checkable& c : all_) near.consider(c.name);
  return near.best();
}

/// The form of a lock that stands for this one in the checker, to which some ways of waiting are one; empty if that is not why the
/// checker does not have it.
std::string checking::form_with_same_states(const lock_table* lock) const {
  if (lock == nullptr) return {};
  const waiting_kind kind = first_with_states_of(lock->kind);
  const std::string form = std::string(lock->family) + way_of(kind).suffix;
  return kind != lock->kind && !named(form).empty() ? form : std::string();
}

/// Says why there is no such lock here; false, always.
bool checking::refuse(const std::string& name) const {
  const lock_table* const lock = find_lock(name);
  if (lock != nullptr && !lock->traits->excludes)
    complain("check: {} excludes nobody: there is nothing to check", name);
  else if (lock != nullptr && lock->traits->native_only)
    complain("check: {} is the C library's own mutex, and only locks of ours can be compiled for the checker", name);
  else if (const std::string form = form_with_same_states(lock); !form.empty())
    complain("check: to the checker {} waits as {} does: check that", name, form);
  else if (lock != nullptr)
    complain("check: {} was built without the lock {}: build it again", checker_, name);
  else
    complain("check: unknown lock '{}'{} (usher check --list shows all{})", name, did_you_mean(nearest(name)),
             has_all_mistakes(checker_) ? "" : "; most seeded mistakes are not built: make mutants");
  return false;
}

bool checking::choose() {
  std::vector<std::string> names;
  bool every_bug = options_.bugs;
  for (const std::string& n : options_.locks) {
    if (n == "wrong")
      every_bug = true;
    else
      names.emplace_back(without_default_suffix(n));
  }
  const bool must_be_caught = every_bug;
  if (every_bug && !names.empty()) {
    if (options_.locks.size() != names.size()) {
      complain("check: 'wrong' is all of the seeded mistakes: no names beside it");
      return false;
    }
    every_bug = false;
  }
  if (options_.all || every_bug) {
    for (const checkable& c : all_)
      if (c.bug.empty() != every_bug && (names.empty() || names.back() != c.family)) names.push_back(c.family);
  }
  std::set<std::string> seen;
  for (const std::string& name : names) {
    auto forms = named(name);
    if (forms.empty()) return refuse(name);
    if (must_be_caught && forms[0]->bug.empty()) {
      complain("check: --bugs: no mistake was put into {} (usher check --list shows those with one)", name);
      return false;
    }
    std::erase_if(forms, [&](const checkable* c) {
      const bool other = !options_.forms.empty() &&
                         std::find(options_.forms.begin(), options_.forms.end(), form_of(*c)) == options_.forms.end();
      return other || !seen.insert(c->name).second;
    });
    if (forms.empty()) continue;
    question q;
    q.family = forms[0]->family;
    q.bug = forms[0]->bug;
    q.must_fail = must_be_caught;
    q.parts = parts_of(forms);
    if (!q.parts.empty()) questions_.push_back(std::move(q));
  }
  if (questions_.empty()) {
    if (!options_.client.empty())
      complain("check: no client '{}' for what is to be checked (usher check --list shows which there are)",
               options_.client);
    else
      complain("check: nothing is left to check: no such form of what is named");
    return false;
  }
  return true;
}

std::vector<part> checking::parts_of(const std::vector<const checkable*>& forms) const {
  std::vector<part> parts;
  for (const checkable* c : forms)
    for (const unsigned t : options_.threads.empty() ? std::vector{c->usual_threads} : options_.threads)
      for (const std::string& client : c->clients) {
        const bool other = !options_.client.empty() && options_.client != client;
        // Their schedules are fair ones, which are drawn.
        const bool fair = client == "progress" || client == "served";
        const bool drawn = !options_.random() && fair && options_.client.empty();
        if (!other && !drawn) parts.push_back({c, client, t});
      }
  return parts;
}

std::vector<std::string> checking::command(const part& p, const std::optional<site>& weakened) const {
  std::vector<std::string> words = {
      p.what->checker, "--lock", p.what->name, "--scenario", p.client, "--threads", std::to_string(p.threads), "--lines"};
  if (weakened) words.insert(words.end(), {"--weaken-at", weakened->text});
  if (options_.acquisitions != usual_acquisitions)
    words.insert(words.end(), {"--acquisitions", std::to_string(options_.acquisitions)});
  return words;
}

/// One question for each place where a lock orders memory, and each way to weaken that.
bool checking::find_sites() {
  struct form_of_lock {
    std::size_t question;
    const checkable* what;
    std::vector<std::string> sites;
  };
  std::vector<form_of_lock> forms;
  for (std::size_t i = 0; i < questions_.size(); ++i)
    for (const part& p : questions_[i].parts)
      if (forms.empty() || forms.back().what != p.what) forms.push_back({i, p.what, {}});
  progress bar(forms.size(), options_.quiet);
  bool all_said = true;
  std::size_t next = 0;
  run_side_by_side(
      options_.jobs,
      [&]() -> std::optional<command_to_run> {
        if (next == forms.size()) return std::nullopt;
        bar.show("looking for orders: " + forms[next].what->name);
        const std::size_t id = next++;
        std::vector<std::string> words = {forms[id].what->checker, "--lock", forms[id].what->name, "--sites",
                                          "--executions",          "1000"};
        if (!options_.client.empty()) words.insert(words.end(), {"--scenario", options_.client});
        return command_to_run{words, limit(100000), id};
      },
      [&](std::size_t id, const ended_run& run) {
        bar.one_done();
        all_said = all_said && run.end.way == ended::how::exited && run.end.status == 0;
        forms[id].sites = understand(run, limit(100000)).other;
      });
  bar.clear();
  if (interrupted() == 0 && !all_said) {
    complain("check: {} does not say which orders a lock has", checker_);
    return false;
  }
  std::vector<question> asked;
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    // In the order of the source.
    std::map<std::tuple<std::string, unsigned, unsigned, std::string>, std::string> sites;
    for (const form_of_lock& f : forms)
      if (f.question == i)
        for (const std::string& s : f.sites) {
          const site place = site_from(s);
          sites[{short_name(place.file), place.line, place.column, place.made}] = s;
        }
    for (const auto& [key, text] : sites) {
      question q;
      q.family = questions_[i].family;
      q.bug = questions_[i].bug;
      q.weakened = site_from(text);
      q.must_fail = true;
      for (const part& p : questions_[i].parts)
        for (const form_of_lock& f : forms)
          if (f.what == p.what && std::find(f.sites.begin(), f.sites.end(), text) != f.sites.end())
            q.parts.push_back(p);
      asked.push_back(std::move(q));
    }
  }
  questions_ = std::move(asked);
  return true;
}

/// Where all parts must pass, one after the other. Where one must fail, all of them a little first.
void checking::cut() {
  const std::uint64_t all = options_.executions;
  for (question& q : questions_) {
    std::vector<std::uint64_t> ends = {all};
    if (q.must_fail) ends = {std::min<std::uint64_t>(all, 500), std::min<std::uint64_t>(all, 5000), all};
    if (!options_.random()) ends = {all};  // programs take as many executions as they take
    std::uint64_t begin = 0;
    for (const std::uint64_t end : ends) {
      for (std::size_t p = 0; p < q.parts.size(); ++p)
        for (std::uint64_t at = begin; at < end;) {
          const std::uint64_t n = options_.random() ? std::min(end - at, most_in_a_run) : end - at;
          q.chunks.push_back({p, options_.seed + at, n, {}});
          at += n;
        }
      begin = end;
    }
  }
}

// ---- runs -------------------------------------------------------------------------------------------------------

bool checking::is_over(const question& q, const chunk& c) const {
  if (q.must_fail) return q.first_failure != ~std::size_t{0};
  return std::any_of(q.chunks.begin(), q.chunks.end(), [&](const chunk& other) {
    return other.part == c.part && other.seed < c.seed && failure_in(other) != nullptr;
  });
}

void checking::done(question& q, std::size_t c, const ended_run& run) {
  chunk& of = q.chunks[c];
  of.said = understand(run, limit(of.count));
  if (of.said->verdicts.empty() || of.said->verdicts.back().way == verdict::kind::broken) broken_ = true;
  // In order: what has begun before goes on to its end, so that the first one is always the same.
  if (failure_in(of) != nullptr) q.first_failure = std::min(q.first_failure, c);
}

void checking::run() {
  std::size_t count = 0;
  for (const question& q : questions_) count += q.chunks.size();
  progress bar(count, options_.quiet);
  std::vector<std::pair<std::size_t, std::size_t>> started;
  std::size_t question_at = 0, chunk_at = 0;
  run_side_by_side(
      options_.jobs,
      [&]() -> std::optional<command_to_run> {
        for (; question_at < questions_.size() && !broken_; ++question_at, chunk_at = 0) {
          question& q = questions_[question_at];
          for (; chunk_at < q.chunks.size(); ++chunk_at) {
            const chunk& c = q.chunks[chunk_at];
            if (is_over(q, c)) {
              bar.skip(1);
              continue;
            }
            const part& p = q.parts[c.part];
            bar.show(q.weakened ? q.family + " " + name_of(*q.weakened) : p.what->name + " " + p.client);
            auto words = command(p, q.weakened);
            words.insert(words.end(), {"--no-history", "--executions", std::to_string(c.count), "--seed",
                                       std::to_string(c.seed), "--scheduler", options_.scheduler});
            if (options_.scheduler == "bound")
              words.insert(words.end(), {"--differences", std::to_string(options_.differences)});
            if (!options_.random() && options_.programs != 0)
              words.insert(words.end(), {"--programs", std::to_string(options_.programs)});
            started.emplace_back(question_at, chunk_at++);
            return command_to_run{words, limit(c.count), started.size() - 1};
          }
        }
        return std::nullopt;
      },
      [&](std::size_t id, const ended_run& run) {
        bar.one_done();
        done(questions_[started[id].first], started[id].second, run);
      });
}

// ---- what came of it --------------------------------------------------------------------------------------------

checking::sum checking::sum_of(const question& q, std::size_t part) const {
  sum s;
  for (std::size_t i = 0; i < q.chunks.size(); ++i) {
    const chunk& c = q.chunks[i];
    if (c.part != part || (q.must_fail && i > q.first_failure)) continue;
    s.seconds += seconds_of(c);
    s.executions += executions_of(c);
    if (!c.said) {
      s.complete = false;
      continue;
    }
    for (const verdict& v : c.said->verdicts) s.programs += v.programs;
    s.failure = failure_in(c);
    if (s.failure != nullptr) break;
  }
  return s;
}

checking::sum checking::sum_of(const question& q) const {
  sum s;
  for (std::size_t p = 0; p < q.parts.size(); ++p) {
    const sum one = sum_of(q, p);
    s.executions += one.executions;
    s.seconds += one.seconds;
    s.complete = s.complete && one.complete;
    if (one.failure != nullptr && s.failure == nullptr) s.failure = one.failure;
  }
  if (q.must_fail && s.failure != nullptr) s.complete = true;
  return s;
}

bool checking::good() const {
  if (broken_) return false;
  return std::all_of(questions_.begin(), questions_.end(), [&](const question& q) {
    const sum s = sum_of(q);
    return q.weakened || (s.failure != nullptr) == q.must_fail || may_escape(q);
  });
}

std::string checking::table_of_verdicts(std::size_t width) const {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const part& p, const std::string& clients, const std::string& verdict, const sum& s) {
    rows.push_back({p.what->name, std::to_string(p.threads), clients, verdict, std::to_string(s.executions),
                    s.executions == 0 ? "" : seeds(s.seeds), fmt::format("{:.1f}", s.seconds)});
  };
  for (const question& q : questions_) {
    // One row for all clients that passed, one for each that did not.
    for (std::size_t p = 0; p < q.parts.size();) {
      std::size_t end = p;
      // Of programs: those whose search was complete, and those that had no time for it.
      std::array<sum, 2> passed;
      std::array<std::string, 2> clients;
      std::vector<std::pair<std::size_t, sum>> others;
      for (; end < q.parts.size() && q.parts[end].what == q.parts[p].what && q.parts[end].threads == q.parts[p].threads;
           ++end) {
        sum s = sum_of(q, end);
        s.seeds = options_.random() ? s.executions : s.programs + (is_complete(s) ? 0 : 1);
        if (s.failure != nullptr || !s.complete) {
          others.emplace_back(end, s);
          continue;
        }
        const std::size_t k = is_complete(s) ? 0 : 1;
        clients[k] += (clients[k].empty() ? "" : " ") + q.parts[end].client;
        passed[k].executions += s.executions;
        passed[k].seconds += s.seconds;
        passed[k].seeds = std::max(passed[k].seeds, s.seeds);
      }
      for (std::size_t k = 0; k < passed.size(); ++k)
        if (!clients[k].empty()) row(q.parts[p], clients[k], k == 0 ? "pass" : "pass, not complete", passed[k]);
      for (const auto& [at, s] : others) {
        const part& one = q.parts[at];
        row(one, one.client, s.failure != nullptr ? "FAIL: " + s.failure->why : "not finished", s);
      }
      p = end;
    }
  }
  return format_table({{"lock"},
                       {"threads", true},
                       {"clients", false, 18},
                       {"verdict", false, 20},
                       {"executions", true},
                       {options_.random() ? "seeds" : "programs"},
                       {"seconds", true}},
                      rows, width);
}

std::string checking::table_of_mistakes(std::size_t width) const {
  const bool weakened = options_.weaken;
  std::vector<std::vector<std::string>> rows;
  for (const question& q : questions_) {
    const sum s = sum_of(q);
    std::string verdict = s.failure == nullptr ? (weakened        ? "survives"
                                                  : may_escape(q) ? "not caught"
                                                                  : "NOT CAUGHT")
                                               : "caught";
    if (!s.complete) verdict = "not finished";
    std::string by, state;
    if (s.failure != nullptr) {
      const part& p = q.parts[q.chunks[q.first_failure].part];
      by = fmt::format("{} {}, {} threads", p.what->name, p.client, p.threads);
      state = s.failure->state;
    }
    if (weakened)
      rows.push_back({q.family, name_of(*q.weakened), q.weakened->made, source_line(q.weakened->file, q.weakened->line),
                      verdict, by, state, std::to_string(s.executions)});
    else
      rows.push_back({q.family, q.bug, verdict, by, state, std::to_string(s.executions)});
  }
  std::vector<column> columns = {{"lock"}, {"what is wrong", false, 24}};
  if (weakened) columns = {{"lock"}, {"order at"}, {"made"}, {"code", false, 24}};
  for (const column& c :
       {column{"verdict"}, column{"caught by", false, 16}, column{"seed", true}, column{"executions", true}})
    columns.push_back(c);
  return format_table(columns, rows, width);
}

std::string checking::table(std::size_t width) const {
  return options_.weaken || questions_.front().must_fail ? table_of_mistakes(width) : table_of_verdicts(width);
}

std::string checking::summary() const {
  std::size_t failed = 0, parts = 0, survives = 0, open = 0, complete = 0;
  std::uint64_t executions = 0;
  for (const question& q : questions_) {
    const sum whole = sum_of(q);
    executions += whole.executions;
    open += whole.complete ? 0 : 1;
    if (q.must_fail) {
      survives += whole.complete && whole.failure == nullptr ? 1 : 0;
      continue;
    }
    for (std::size_t p = 0; p < q.parts.size(); ++p, ++parts) {
      const sum one = sum_of(q, p);
      failed += one.failure != nullptr ? 1 : 0;
      complete += one.failure == nullptr && one.complete && is_complete(one) ? 1 : 0;
    }
  }
  const std::size_t n = questions_.size();
  if (options_.weaken)
    return fmt::format("{} orders weakened, one at a time: {} caught, {} survive, in {} executions.", n,
                       n - survives - open, survives, executions);
  if (questions_.front().must_fail)
    return fmt::format("{} seeded mistakes, {} of them caught, in {} executions.", n, n - survives - open, executions);
  std::string text = fmt::format("{} lock{}, {} client runs in {} executions: {}.", n, n == 1 ? "" : "s", parts,
                                 executions, failed == 0 ? "all pass" : fmt::format("{} fail", failed));
  if (!options_.random() && options_.programs != 0)
    text += fmt::format("\n{} of {} searches were complete: {} of {} program{}.", complete, parts,
                        options_.scheduler == "full"
                            ? std::string("all executions")
                            : fmt::format("all executions with at most {} difference{}", options_.differences,
                                          options_.differences == 1 ? "" : "s"),
                        options_.programs, options_.programs == 1 ? "" : "s");
  return text;
}

/// The execution once more, for its steps. One that crashes says them only as they happen.
std::vector<step> checking::steps(const question& q, const part& p, const verdict& v) const {
  if (v.state.empty()) return {};
  auto words = command(p, q.weakened);
  words.insert(words.end(), {"--replay", v.state});
  if (v.way != verdict::kind::fail) words.emplace_back("--at-once");
  const double patience = v.way == verdict::kind::hung ? 5 : 60;
  answer a = understand(run_command(words, patience), patience);
  if (v.way != verdict::kind::fail && !a.steps.empty()) {
    const unsigned thread = a.steps.back().thread;
    a.steps.push_back({thread, "", 0, v.why});
  }
  return a.steps;
}

std::string checking::interleavings(std::size_t width) {
  std::string text;
  std::size_t shown = 0;
  for (const question& q : questions_) {
    if (q.must_fail) continue;
    bool first = true;  // of a lock, one is shown
    for (std::size_t p = 0; p < q.parts.size(); ++p) {
      const verdict* const v = sum_of(q, p).failure;
      if (v == nullptr) continue;
      const part& one = q.parts[p];
      text += fmt::format("\n{}, {}, {} threads{}: {}\n", one.what->name, one.client, one.threads,
                          v->state.empty() ? "" : ", seed " + v->state, v->why);
      if (first && shown < most_interleavings && interrupted() == 0) {
        text += format_interleaving(steps(q, one, *v), width, most_steps);
        ++shown;
      }
      first = false;
      if (!v->state.empty()) text += "Again: " + replay_command(q, one, *v, options_.acquisitions) + "\n";
    }
  }
  return text;
}

/// One execution: what happens in it, and what is wrong.
int checking::replay(std::size_t width) {
  question& q = questions_.front();
  if (questions_.size() != 1 || q.parts.size() != 1) {
    complain(
        "check: --replay is about one lock in one form, one client and one number of threads: name them "
        "(usher check twa-spin --client plain --threads 3 --replay {})",
        options_.replay);
    return bad_usage;
  }
  const part& p = q.parts.front();
  if (!options_.weaken_at.empty()) q.weakened = site_from(options_.weaken_at);
  auto words = command(p, q.weakened);
  words.insert(words.end(), {"--replay", options_.replay, "--no-history"});
  const ended_run run = run_command(words, limit(1));
  if (interrupted() != 0) return 128 + interrupted();
  answer a = understand(run, limit(1));
  if (a.verdicts.empty() || a.verdicts.back().way == verdict::kind::broken) {
    complain("check: {}", a.verdicts.empty() ? checker_ + " does not answer" : a.verdicts.back().why);
    return cannot_start;
  }
  verdict v = a.verdicts.back();
  v.state = options_.replay;
  const std::string head = fmt::format("{}, {}, {} threads, seed {}", p.what->name, p.client, p.threads, v.state);
  if (!is_failure(v)) {
    fmt::print("{}: pass\n", head);
    return 0;
  }
  fmt::print("{}: {}\n{}", head, v.why, format_interleaving(steps(q, p, v), width, ~std::size_t{0}));
  return 1;
}

nlohmann::ordered_json checking::as_json() const {
  nlohmann::ordered_json all;
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
  all["usher"] = USHER_VERSION;
  all["date"] = date;
  all["scheduler"] = options_.scheduler;
  if (options_.scheduler == "bound") all["differences"] = options_.differences;
  if (!options_.random() && options_.programs != 0) all["programs"] = options_.programs;
  all["acquisitions"] = options_.acquisitions;
  all["seed"] = options_.seed;
  all["executions"] = options_.executions;
  all["interrupted"] = interrupted() != 0;
  all["good"] = good();
  const auto failure = [](nlohmann::ordered_json& to, const part& p, const verdict& v) {
    to["by"] = {{"lock", p.what->name}, {"client", p.client}, {"threads", p.threads}};
    to["why"] = v.why;
    to["replay"] = v.state;
  };
  for (const char* list : {"parts", "mistakes", "orders"}) all[list] = nlohmann::ordered_json::array();
  for (const question& q : questions_) {
    if (!q.must_fail) {
      for (std::size_t i = 0; i < q.parts.size(); ++i) {
        const part& p = q.parts[i];
        const sum s = sum_of(q, i);
        nlohmann::ordered_json one = {{"lock", p.what->name},  {"family", q.family},  {"client", p.client},
                                      {"threads", p.threads},  {"passed", nullptr},   {"executions", s.executions},
                                      {"seed", options_.seed}, {"seconds", s.seconds}};
        if (s.failure != nullptr || s.complete) one["passed"] = s.failure == nullptr;
        if (!options_.random()) one["programs"] = s.programs;
        if (s.failure != nullptr) failure(one, p, *s.failure);
        all["parts"].push_back(std::move(one));
      }
      continue;
    }
    const sum s = sum_of(q);
    nlohmann::ordered_json one = {{"lock", q.family}};
    if (!q.bug.empty()) one["bug"] = q.bug;
    if (q.weakened) {
      one["file"] = short_name(q.weakened->file);
      one["line"] = q.weakened->line;
      one["column"] = q.weakened->column;
      one["made"] = q.weakened->made;
      one["code"] = source_line(q.weakened->file, q.weakened->line);
    }
    one["forms"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < q.parts.size(); ++i)
      if (i == 0 || q.parts[i].what != q.parts[i - 1].what) one["forms"].push_back(q.parts[i].what->name);
    one["caught"] = nullptr;
    if (s.failure != nullptr || s.complete) one["caught"] = s.failure != nullptr;
    one["executions"] = s.executions;
    one["seconds"] = s.seconds;
    if (s.failure != nullptr) failure(one, q.parts[q.chunks[q.first_failure].part], *s.failure);
    all[q.weakened ? "orders" : "mistakes"].push_back(std::move(one));
  }
  return all;
}

// ---- the command ------------------------------------------------------------------------------------------------

std::string list_of(const std::vector<checkable>& all, std::size_t width) {
  std::vector<std::vector<std::string>> rows;
  for (const checkable& c : all) {
    std::string clients;
    for (const std::string& client : c.clients) clients += (clients.empty() ? "" : " ") + client;
    rows.push_back({c.name, clients, c.bug});
  }
  return format_table({{"lock"}, {"clients", false, 24}, {"seeded mistake", false, 24}}, rows, width);
}

/// False after a complaint.
bool makes_sense(const check_options& o) {
  static const std::regex state("[0-9]{1,18}(:[0-9]{1,18}(:[0-9]{1,6}\\.[0-9]{1,3})*)?");
  if (o.locks.empty() && !o.all && !o.bugs && !o.list) {
    complain(
        "check: which locks? usher check LOCK..., --all, or --bugs for the seeded mistakes (see usher check --help)");
    return false;
  }
  if (o.all && (o.bugs || !o.locks.empty())) {
    complain("check: --all is every lock without a seeded mistake: no {} beside it", o.bugs ? "--bugs" : "names");
    return false;
  }
  if (o.weaken && (o.bugs || !o.replay.empty())) {
    complain("check: --weaken does not go with {}", o.bugs ? "--bugs" : "--replay");
    return false;
  }
  if (!o.weaken_at.empty() && o.replay.empty()) {
    complain("check: --weaken-at is for --replay; --weaken goes through all places");
    return false;
  }
  if (!o.weaken_at.empty() && site_from(o.weaken_at).file.empty()) {
    complain("check: --weaken-at takes FILE:LINE:COLUMN or FILE:LINE:COLUMN:ORDER, where ORDER is one of {}",
             fmt::join(orders, ", "));
    return false;
  }
  if (o.programs != 0 && o.random()) {
    complain("check: --programs goes with --scheduler bound or full");
    return false;
  }
  if (!o.replay.empty() && !std::regex_match(o.replay, state)) {
    complain("check: --replay takes what a failure has said, as 4711 or 7:3:12.1, not '{}'", o.replay);
    return false;
  }
  return true;
}

int carry_out(check_options o) {
  if (!makes_sense(o)) return bad_usage;
  const auto found = find_checker();
  if (const auto* none = std::get_if<no_checker>(&found)) {
    complain("{}", none->reason);
    return cannot_start;
  }
  const std::string checker = std::get<std::string>(found);
  watch_for_interruption();
  auto all = what_can_be_checked(checker);
  if (o.list) {
    fmt::print("{}", list_of(all, terminal_width()));
    return 0;
  }
  // A mistake may need all of them to show.
  const bool wrong = o.bugs || std::find(o.locks.begin(), o.locks.end(), "wrong") != o.locks.end();
  if (o.threads.empty() && wrong)
    for (unsigned t = least_threads; t <= most_threads; ++t) o.threads.push_back(t);
  if (wrong && o.locks.empty() && !has_all_mistakes(checker))
    complain("check: only a few of the seeded mistakes are built; for all of them: make mutants");
  checking c(o, checker, std::move(all));
  if (!c.choose()) return bad_usage;
  if (!o.replay.empty()) return c.replay(terminal_width());
  output_file json;
  if (!json.open(o.json)) return cannot_start;
  if (o.weaken) {
    if (!c.find_sites()) return cannot_start;
    if (interrupted() != 0) return 128 + interrupted();
    if (c.empty()) {
      complain("check: no order but relaxed in what is named");
      return bad_usage;
    }
  }
  c.cut();
  c.run();
  fmt::print("{}", c.table(terminal_width()));
  std::fflush(stdout);
  fmt::print("{}\n{}{}\n", c.interleavings(terminal_width()), interrupted() != 0 ? "Interrupted. So far: " : "",
             c.summary());
  const auto lenient = nlohmann::ordered_json::error_handler_t::replace;
  const bool written = !json.wanted() || json.write(c.as_json().dump(1, ' ', false, lenient) + "\n");
  if (interrupted() != 0) return 128 + interrupted();
  if (!written) return cannot_start;
  return c.good() ? 0 : 1;
}

constexpr const char* check_notes =
    R"text(Each lock is compiled, from the header that programs use, against a simulated memory
that returns every value that the C++ memory model allows, and driven by several
clients in random executions. An execution is drawn from its number, the seed, and so
can be replayed. A lock's name stands for its forms: mcs is mcs, mcs-spin, mcs-park.
Passing is evidence, and no proof.

Examples:
  usher check twa
  usher check --all --threads 4 --executions 5000
  usher check wrong                        # are all seeded mistakes caught?
  usher check mcs-relaxed-hand-over        # how one of them fails
  usher check --weaken mcs                 # which memory orders are needed?

Exit status: 0 if all pass (wrong, --bugs: if all are caught); 1 if something fails;
2 for bad usage or an unknown lock; 125 if there is no checker; 130 if interrupted.)text";

}  // namespace

subcommand check(CLI::App& app) {
  auto* sub = app.add_subcommand("check", "Look for mistakes in locks, under a relaxed-memory checker");
  auto o = std::make_shared<check_options>();
  constexpr auto many = ~std::uint64_t{0} / 4;
  sub->add_option("locks", o->locks, "Locks (twa), forms of them (twa-spin), others that --list shows; wrong")
      ->type_name("LOCK");
  sub->add_flag("--all", o->all, "All locks, and what else there is");
  sub->add_flag("--bugs", o->bugs, "The seeded mistakes named, or all (as 'wrong'): each must be caught");
  sub->add_flag("--list", o->list, "Show what can be checked, with its clients");
  sub->add_option("--threads", o->threads,
                  "2, 3, 4, or several of them (default: 4 for locks with lists of waiters, else 3; --bugs: 2,3,4)")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(least_threads, most_threads));
  sub->add_option("--executions", o->executions, "Of each client, for each number of threads (default: 20000)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, many));
  sub->add_option("--seed", o->seed, "The number of the first execution (default: 1)")
      ->type_name("S")
      ->check(CLI::Range(std::uint64_t{1}, many));
  sub->add_option("--client", o->client, "This client alone")->type_name("CLIENT");
  sub->add_option("--forms", o->forms, "These forms alone: plain, spin, park")
      ->type_name("F,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"plain", "spin", "park"}));
  sub->add_option("--replay", o->replay,
                  "One execution, as a failure has named it: of one lock, client and number of threads")
      ->type_name("STATE");
  sub->add_option("--scheduler", o->scheduler,
                  "random, or bound: all executions of a program with few differences from the plain one, then of the "
                  "next program; full: all executions of a program (default: random)")
      ->type_name("random|bound|full")
      ->check(CLI::IsMember({"random", "bound", "full"}));
  sub->add_option("--differences", o->differences, "bound: at most so many (default: 2)")
      ->type_name("N")
      ->check(CLI::Range(0u, 8u));
  sub->add_option("--programs", o->programs, "bound, full: the end after so many (default: --executions says)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, many));
  sub->add_option("--acquisitions", o->acquisitions, "Of each thread, for clients of locks (default: 2)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_flag("--weaken", o->weaken,
                "Weaken each memory order, each half of one by itself, and leave each fence out: is that caught?");
  sub->add_option("--weaken-at", o->weaken_at, "With --replay: this order is weakened")
      ->type_name("FILE:LINE:COLUMN:ORDER");
  sub->add_option("--jobs", o->jobs, "Processes side by side (default: one for each CPU)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
  sub->add_option("--json", o->json, "Write all verdicts to this file")->type_name("FILE");
  sub->add_flag("--quiet", o->quiet, "No progress bar");
  sub->formatter(std::make_shared<help>("usher check [OPTIONS] [LOCK...]"));
  sub->footer(check_notes);
  return {sub, [o](char**) { return carry_out(*o); }};
}

}  // namespace usher::cli
