// usher_check: runs every target against every scenario under relacy. `usher check` starts one process for each part (a
// target, a scenario, a number of threads). usher_check can also be used by itself.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <map>
#include <string_view>

#include "check/engine/explore.hpp"

namespace usher::check {
namespace {

int usage() {
  std::fputs(
      "usage: usher_check [--lock L|mutants] [--scenario S] [--threads 2|3|4] [--acquisitions A] [--executions K]\n"
      "                   [--seed N] [--scheduler random|bound|full] [--differences D] [--programs P]\n"
      "                   [--replay STATE] [--no-history] [--weaken]\n"
      "       usher_check --list\n"
      "--weaken: weakens each order in turn, each half separately. --weaken-at: weakens one order for the run.\n"
      "L: a lock of the catalogue, or a form of it (twa, twa-spin); wait-queue, condition-variable, semaphore; "
      "phase-fair,\n"
      "phase-fair-recursive, bravo, bravo-recursive; a "
      "mutant.\n"
      "Runs executions N, N+1, … (random), or those of programs N, N+1, … (bound, full). "
      "For usher check: --lines, --at-once, --sites,\n"
      "--weaken-at FILE:LINE:COLUMN[:ORDER].\n",
      stderr);
  return 2;
}

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

using site = ordered_sites::site;

/// The text is FILE:LINE:COLUMN:ORDER. Without ORDER every operation at that place becomes relaxed.
std::string to_string(const site& s) {
  return std::string(s.file) + ":" + std::to_string(s.line) + ":" + std::to_string(s.column) + ":" +
         names_of_made[unsigned(s.way)];
}
bool read(std::string_view text, site& to) {
  const auto last = [&](unsigned& number) {
    const std::size_t colon = std::min(text.rfind(':'), text.size());
    const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), number);
    const bool good = colon != text.size() && error == std::errc() && end == text.data() + text.size();
    text = text.substr(0, colon);
    return good;
  };
  to.way = made::all_relaxed;
  for (unsigned i = 1; i < names_of_made.size(); i++)
    if (const std::string_view name = names_of_made[i]; text.ends_with(std::string(":").append(name))) {
      to.way = made(i);
      text.remove_suffix(name.size() + 1);
      break;
    }
  const bool good = last(to.column) && last(to.line);
  to.file = text;
  return good;
}

/// Calls `each(scenario, threads)` for each part that the options select, until it returns false.
template <class Each>
bool for_each_part(const target& s, const options& o, Each each) {
  for (unsigned threads = 2; threads <= execution::most_threads; threads++) {
    if (o.threads != 0 && o.threads != threads) continue;
    for (unsigned c = 0; c < s.scenarios.size(); c++)
      if ((o.scenario.empty() || o.scenario == s.scenarios[c]) && !each(c, threads)) return false;
  }
  return true;
}

/// Returns the memory orders that a short run executes. A few thousand executions reach every operation.
std::vector<site> find_sites(const target& s, options o) {
  o.history = false;
  o.executions = std::min<std::uint64_t>(o.executions, 2000);
  sites.count = 0;
  sites.only = s.header;
  recording_sites = true;
  for_each_part(s, o, [&](unsigned c, unsigned threads) { return s.explore(c, threads, o), true; });
  recording_sites = false;
  std::vector<site> found;
  for (unsigned i = 0; i < sites.count; i++)
    for (unsigned way = 0; way < names_of_made.size(); way++)
      if (const place& at = sites.seen[i].at; (sites.seen[i].ways >> way & 1) != 0)
        found.push_back({at.file_name(), at.line(), at.column(), made(way)});
  return found;
}

/// Prints whether one weakened order is caught.
void weaken(const target& s, options o, const site& where) {
  o.history = false;
  sites.weakened = where;
  const bool survives =
      for_each_part(s, o, [&](unsigned c, unsigned threads) { return s.explore(c, threads, o).passed; });
  std::printf("%-24s %s: %s\n", s.name.c_str(),
              to_string({base_name(where.file.data()), where.line, where.column, where.way}).c_str(),
              survives ? "survives" : "caught");
  std::fflush(stdout);
  sites.weakened.reset();
}

std::vector<target> every_target() {
  std::vector<target> all = all_targets();
  for (target& s : all)
    if (s.family.empty()) s.family = s.name;
  return all;
}

void list(const std::vector<target>& all) {
  for (const target& s : all) {
    std::printf("%s\t%s\t%s\t", s.name.c_str(), s.family.c_str(), s.mutation.c_str());
    for (std::size_t c = 0; c < s.scenarios.size(); c++) std::printf("%s%s", c == 0 ? "" : ",", s.scenarios[c]);
    std::printf("\t%u\n", s.usual_threads);
  }
}

/// Returns false if the text is not a number within the limits.
template <class T>
bool number(const char* text, T& to, T least, T most) {
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, to);
  return error == std::errc() && stop == end && to >= least && to <= most;
}

struct request {
  options o;
  bool list = false, sites = false;
  std::string weaken_at;
};

bool read(int argc, char** argv, request& r) {
  options& o = r.o;
  constexpr auto many = ~std::uint64_t{0} / 2;
  bool full = false;
  for (int i = 1; i < argc; i++) {
    const std::string_view key = argv[i];
    bool* const flag = key == "--no-history" ? &o.history
                       : key == "--weaken"   ? &o.weaken
                       : key == "--lines"    ? &o.lines
                       : key == "--at-once"  ? &o.at_once
                       : key == "--list"     ? &r.list
                       : key == "--sites"    ? &r.sites
                                             : nullptr;
    if (flag != nullptr) {
      *flag = key != "--no-history";
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    bool good = true;
    if (key == "--lock")
      o.lock = value;
    else if (key == "--scenario")
      o.scenario = value;
    else if (key == "--threads")
      good = number(value, o.threads, 2u, execution::most_threads);
    else if (key == "--executions")
      good = number(value, o.executions, std::uint64_t{1}, many);
    else if (key == "--acquisitions")
      good = number(value, acquisitions, 1u, 1000u);
    else if (key == "--seed")
      good = number(value, o.seed, std::uint64_t{1}, many);
    else if (key == "--scheduler")
      o.bounded = std::string_view(value) != "random", full = std::string_view(value) == "full",
      good = !o.bounded || full || std::string_view(value) == "bound";
    else if (key == "--differences")
      good = number(value, o.differences, 0u, 8u);
    else if (key == "--programs")
      good = number(value, o.programs, std::uint64_t{1}, many);
    else if (key == "--replay")
      o.replay = value;
    else if (key == "--weaken-at")
      r.weaken_at = value;
    else
      good = false;
    if (!good) return false;
  }
  if (full) o.differences = ~0u;
  if (!o.replay.empty()) o.bounded = o.replay.find(':') != std::string::npos;
  return true;
}

void print(const target& s, unsigned c, unsigned threads, const options& o, const outcome& r, double seconds) {
  if (o.lines) {
    std::printf("result\t%s\t%s\t%u\t%s\t%llu\t%llu\t%.3f\t%s\t%s\n", s.name.c_str(), s.scenarios[c], threads,
                r.passed ? "pass" : "fail", static_cast<unsigned long long>(r.executions),
                static_cast<unsigned long long>(r.programs), seconds, r.why.c_str(), r.state.c_str());
  } else {
    std::printf("%-24s %-9s %u threads  %s%s  %llu executions, %.1f s", s.name.c_str(), s.scenarios[c], threads,
                r.passed ? "pass" : "FAIL: ", r.why.c_str(), static_cast<unsigned long long>(r.executions), seconds);
    if (!r.passed) std::printf(", --replay %s", r.state.c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

/// Returns whether --lock selects the target. A family's name selects all its forms, except with options that need one
/// form. Mutants run only if --lock names them.
bool is_selected(const target& s, const request& r) {
  const options& o = r.o;
  if (o.lock.empty()) return s.mutation.empty();
  if (o.lock == "mutants") return !s.mutation.empty();
  const bool all_forms = o.replay.empty() && r.weaken_at.empty() && !r.sites && !o.lines;
  return s.name == o.lock || (all_forms && s.family == o.lock);
}

void print_or_weaken_sites(const target& s, const request& r) {
  for (const site& each : find_sites(s, r.o)) {
    if (r.sites)
      std::printf("%s\n", to_string(each).c_str());
    else
      weaken(s, r.o, each);
  }
}

/// Runs all parts of a target, but the parts of a mutant only up to the first failure. Returns true if a part has
/// failed.
bool fails(const target& s, const options& o) {
  bool failed = false;
  for_each_part(s, o, [&](unsigned c, unsigned threads) {
    const auto begin = std::chrono::steady_clock::now();
    const outcome result = s.explore(c, threads, o);
    print(s, c, threads, o, result, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    failed = failed || !result.passed;
    return s.mutation.empty() || !failed;
  });
  return failed;
}

int run(int argc, char** argv) {
  request r;
  if (!read(argc, argv, r)) return usage();
  const options& o = r.o;
  const std::vector<target> all = every_target();
  if (r.list) return list(all), 0;
  report_ends();
  if (!r.weaken_at.empty()) {
    site where{};
    if (!read(r.weaken_at, where)) return usage();
    sites.weakened = where;
  }

  bool as_expected = true, any = false;
  std::map<std::string, bool> caught;  // by mutation: true if any form of the mutant has failed
  for (const target& s : all) {
    if (!is_selected(s, r)) continue;
    any = true;
    if (s.size > room_for_target) {
      std::fprintf(stderr, "usher_check: %s does not fit into the room for it\n", s.name.c_str());
      return 2;
    }
    if (r.sites || o.weaken)
      print_or_weaken_sites(s, r);
    else if (const bool failed = fails(s, o); s.mutation.empty())
      as_expected = as_expected && !failed;
    else
      caught[s.mutation] = caught[s.mutation] || failed;
  }
  for (const auto& [mutation, found] : caught) {
    if (!o.lines) std::printf("%-10s %s\n", found ? "caught" : "NOT CAUGHT", mutation.c_str());
    as_expected = as_expected && found;
  }
  if (!any) {
    std::fprintf(stderr, "usher_check: no such lock\n");
    return 2;
  }
  return as_expected ? 0 : 1;
}

}  // namespace
}  // namespace usher::check

int main(int argc, char** argv) {
  return usher::check::run(argc, argv);
}
