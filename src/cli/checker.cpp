#include "checker.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "cli/commands/components.hpp"
#include "cli/process/near.hpp"
#include "cli/text/words.hpp"

namespace usher::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* mistakes_name = "usher_check_mutants";
constexpr const char* room = USHER_LIBEXECDIR "/usher";  // of an installed tree

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(at, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

/// What it printed last, cut: a program that fails may print anything.
std::string last_words(const ended_run& run) {
  return last_line(run.err).substr(0, 200);
}

/// Where the file is now, or nowhere.
fs::path find_source(const std::string& file) {
  if (is_file(file)) return file;
  const fs::path tree = own_tree();
  for (const auto& [mark, folder] : {std::pair<const char*, fs::path>{"/include/usher/", tree / "include" / "usher"},
                                     {"/check/mutants/", tree / room / "mutants"}})
    if (const std::size_t at = file.rfind(mark); at != std::string::npos)
      if (fs::path moved = folder / file.substr(at + std::strlen(mark)); is_file(moved)) return moved;
  return {};
}

std::string mistakes_beside(const std::string& checker) {
  return (fs::path(checker).parent_path() / mistakes_name).native();
}

std::vector<checkable> listed_by(const std::string& checker) {
  const ended_run run = run_command({checker, "--list"}, 60);
  std::vector<checkable> all;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);)
    if (auto fields = split(line, '\t'); fields.size() == 5)
      all.push_back({fields[0], fields[1], fields[2], split(fields[3], ','),
                     static_cast<unsigned>(std::strtoul(fields[4].c_str(), nullptr, 10)), checker});
  if (run.end.way != ended::how::exited || run.end.status != 0 || all.empty())
    throw std::runtime_error(fmt::format("{} does not work: {}", checker, last_words(run)));
  return all;
}

}  // namespace

std::variant<std::string, no_checker> find_checker() {
  if (const std::string named = environment("USHER_CHECKER"); !named.empty()) {
    if (is_file(named)) return named;
    return no_checker{fmt::format("USHER_CHECKER names no file: {}", named)};
  }
  if (const fs::path found = helper_near_us(checker.executable); !found.empty()) return found.native();
  return no_checker{"check: " + why_missing(checker)};
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

bool has_all_mistakes(const std::string& checker) {
  return is_file(mistakes_beside(checker));
}

std::vector<checkable> what_can_be_checked(const std::string& checker) {
  std::vector<checkable> all = listed_by(checker);
  if (!has_all_mistakes(checker)) return all;
  // It has the locks, too, which the scenarios of condition variables need.
  std::set<std::string> known;
  for (const checkable& c : all) known.insert(c.name);
  for (checkable& c : listed_by(mistakes_beside(checker)))
    if (!known.contains(c.name)) all.push_back(std::move(c));
  return all;
}

answer understand(const ended_run& run, double limit) {
  answer a;
  std::string state;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    const auto f = split(line, '\t');
    if (f[0] == "result" && f.size() == 10) {
      a.verdicts.push_back({f[4] == "pass" ? verdict::kind::pass : verdict::kind::fail, f[2],
                            static_cast<unsigned>(std::strtoul(f[3].c_str(), nullptr, 10)), f[8],
                            std::strtoull(f[5].c_str(), nullptr, 10), std::strtoull(f[6].c_str(), nullptr, 10),
                            std::strtod(f[7].c_str(), nullptr), f[9]});
    } else if (f[0] == "step" && f.size() == 5) {
      a.steps.push_back({static_cast<unsigned>(std::strtoul(f[1].c_str(), nullptr, 10)), f[2],
                         static_cast<unsigned>(std::strtoul(f[3].c_str(), nullptr, 10)), f[4]});
    } else if (f[0] == "ended" && f.size() == 3) {
      state = f[2];
    } else if (!line.empty()) {
      a.other.push_back(line);
    }
  }
  verdict bad;
  bad.state = state;
  bad.seconds = run.end.seconds;
  if (run.timed_out) {
    bad.way = verdict::kind::hung;
    bad.why = fmt::format("hung: no end after {:.0f} s", limit);
  } else if (run.end.way == ended::how::signalled) {
    bad.way = verdict::kind::crashed;
    bad.why = fmt::format("crashed: signal {} ({})", run.end.status, strsignal(run.end.status));
  } else if (run.end.way != ended::how::exited || run.end.status > 1) {
    bad.way = verdict::kind::broken;
    bad.why = fmt::format("the checker ended with status {}: {}", run.end.status, last_words(run));
  } else {
    return a;
  }
  a.verdicts.push_back(bad);
  return a;
}

}  // namespace usher::cli
