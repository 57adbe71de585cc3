#include "check/command/checker.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "support/command/components.hpp"
#include "support/process/near.hpp"
#include "support/text/words.hpp"

namespace usher::check::command {
namespace {

namespace fs = std::filesystem;

constexpr const char* mutants_name = "usher_check_mutants";
constexpr const char* installed_helpers = USHER_LIBEXECDIR "/usher";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(at, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

unsigned number(const std::string& text) {
  return static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 10));
}

/// The last line of the checker's error output, at most 200 bytes of it.
std::string last_words(const support::ended_run& run) {
  return support::last_line(run.err).substr(0, 200);
}

/// Finds a source file, which may have moved since the build; empty: not found.
fs::path find_source(const std::string& file) {
  if (support::is_file(file)) return file;
  const fs::path tree = support::own_tree();
  for (const auto& [mark, folder] : {std::pair<const char*, fs::path>{"/include/usher/", tree / "include" / "usher"},
                                     {"/check/engine/mutants/", tree / installed_helpers / "mutants"}})
    if (const std::size_t at = file.rfind(mark); at != std::string::npos)
      if (fs::path moved = folder / file.substr(at + std::strlen(mark)); support::is_file(moved)) return moved;
  return {};
}

std::string mutants_beside(const std::string& checker) {
  return (fs::path(checker).parent_path() / mutants_name).native();
}

std::vector<target> listed_by(const std::string& checker) {
  const support::ended_run run = support::run_command({checker, "--list"}, 60);
  std::vector<target> all;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);)
    if (auto fields = split(line, '\t'); fields.size() == 5)
      all.push_back({fields[0], fields[1], fields[2], split(fields[3], ','), number(fields[4]), checker});
  if (run.end.way != support::ended::how::exited || run.end.status != 0 || all.empty())
    throw std::runtime_error(fmt::format("{} does not work: {}", checker, last_words(run)));
  return all;
}

/// Parses a line `result`: lock, scenario, threads, pass or fail, executions, programs, seconds, why, state.
verdict verdict_from(const std::vector<std::string>& f) {
  verdict v;
  v.way = f[4] == "pass" ? verdict::kind::pass : verdict::kind::fail;
  v.executions = std::strtoull(f[5].c_str(), nullptr, 10);
  v.programs = std::strtoull(f[6].c_str(), nullptr, 10);
  v.seconds = std::strtod(f[7].c_str(), nullptr);
  v.why = f[8];
  v.state = f[9];
  return v;
}

/// Parses a line `step`: thread, file, line, action.
step step_from(const std::vector<std::string>& f) {
  const unsigned line = number(f[3]);
  return {number(f[1]), f[2].empty() ? "" : short_name(f[2]), line, f[4], source_line(f[2], line)};
}

/// The verdict of a run that did not end with status 0 (all pass) or 1 (some fail).
std::optional<verdict> abnormal_end(const support::ended_run& run, double limit) {
  verdict bad;
  bad.seconds = run.end.seconds;
  if (run.timed_out) {
    bad.way = verdict::kind::hung;
    bad.why = fmt::format("hung: no end after {:.0f} s", limit);
  } else if (run.end.way == support::ended::how::signalled) {
    bad.way = verdict::kind::crashed;
    bad.why = fmt::format("crashed: signal {} ({})", run.end.status, strsignal(run.end.status));
  } else if (run.end.way != support::ended::how::exited || run.end.status > 1) {
    bad.way = verdict::kind::broken;
    bad.why = fmt::format("the checker ended with status {}: {}", run.end.status, last_words(run));
  } else {
    return std::nullopt;
  }
  return bad;
}

}  // namespace

std::variant<std::string, no_checker> find_checker() {
  if (const std::string named = support::environment("USHER_CHECKER"); !named.empty()) {
    if (support::is_file(named)) return named;
    return no_checker{fmt::format("USHER_CHECKER names no file: {}", named)};
  }
  if (const fs::path found = support::helper_near_us(support::checker.executable); !found.empty())
    return found.native();
  return no_checker{"check: " + support::why_missing(support::checker)};
}

std::string source_line(const std::string& file, unsigned line) {
  static std::map<std::string, std::vector<std::string>> read;
  auto at = read.find(file);
  if (at == read.end()) {
    std::vector<std::string> lines;
    if (const fs::path path = find_source(file); !path.empty()) {
      std::ifstream in(path);
      for (std::string text; std::getline(in, text);) lines.push_back(text);
    }
    at = read.emplace(file, std::move(lines)).first;
  }
  if (line == 0 || line > at->second.size()) return "";
  const std::string& text = at->second[line - 1];
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin);
}

std::string short_name(const std::string& file) {
  for (const std::string_view mark : {"/include/", "/mutants/"})
    if (const std::size_t at = file.rfind(mark); at != std::string::npos)
      return file.substr(at + (mark == "/include/" ? mark.size() : 1));
  return file.substr(file.rfind('/') + 1);
}

bool has_all_mutants(const std::string& checker) {
  return support::is_file(mutants_beside(checker));
}

std::vector<target> all_targets(const std::string& checker) {
  std::vector<target> all = listed_by(checker);
  if (!has_all_mutants(checker)) return all;
  // usher_check_mutants lists the locks, too, because its scenarios of condition variables use them as mutexes. Locks
  // that usher_check has listed are not added again.
  std::set<std::string> known;
  for (const target& t : all) known.insert(t.name);
  for (target& t : listed_by(mutants_beside(checker)))
    if (!known.contains(t.name)) all.push_back(std::move(t));
  return all;
}

reply reply_of(const support::ended_run& run, double limit) {
  reply r;
  std::string state;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    const auto f = split(line, '\t');
    if (f[0] == "result" && f.size() == 10)
      r.verdicts.push_back(verdict_from(f));
    else if (f[0] == "step" && f.size() == 5)
      r.steps.push_back(step_from(f));
    else if (f[0] == "ended" && f.size() == 3)
      state = f[2];
    else if (!line.empty())
      r.other.push_back(line);
  }
  if (auto failure = abnormal_end(run, limit)) {
    failure->state = state;
    r.verdicts.push_back(*failure);
  }
  return r;
}

}  // namespace usher::check::command
