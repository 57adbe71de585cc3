#include "watch/reader/compare/compared_run.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "support/process/files.hpp"
#include "support/text/input_file.hpp"
#include "support/text/words.hpp"

namespace usher::reader {
namespace {

using nlohmann::json;
using support::bad_input;

// Limits on a file; chosen.
constexpr std::size_t most_objects = 4096;  // the hottest
constexpr std::size_t most_stacks = 32, most_frames = 64;
constexpr std::size_t most_windows = 4096;
constexpr double largest_number = 1e15;

double number(const json& j, const char* key) {
  const json& value = j.at(key);
  if (!value.is_number()) throw bad_input(fmt::format("its {} is no number", key));
  const double v = value.get<double>();
  if (!(v >= 0 && v <= largest_number)) throw bad_input(fmt::format("its {} is out of range", key));
  return v;
}

double count(const json& j, const char* key) {
  return static_cast<double>(static_cast<std::uint64_t>(support::whole(j.at(key))));
}

std::string text_or_empty(const json& j, const char* key) {
  const auto at = j.find(key);
  return at == j.end() || at->is_null() ? "" : at->get<std::string>();
}

std::vector<double> numbers(const json& list, const char* what) {
  std::vector<double> all;
  for (const json& one : list.get_ref<const json::array_t&>()) {
    if (all.size() == most_windows) throw bad_input(fmt::format("it has more than {} {}", most_windows, what));
    const double v = one.is_number() ? one.get<double>() : -1;
    if (!(v >= 0 && v <= largest_number)) throw bad_input(fmt::format("one of its {} is out of range", what));
    all.push_back(v);
  }
  return all;
}

std::optional<std::uint64_t> number_of(std::string_view text, int base) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

/// The text before "+0x28", and the offset.
std::optional<std::pair<std::string_view, std::uint64_t>> with_offset(std::string_view text) {
  const std::size_t at = text.rfind("+0x");
  if (at == std::string_view::npos) return std::nullopt;
  const auto offset = number_of(text.substr(at + 3), 16);
  if (!offset) return std::nullopt;
  return std::pair(text.substr(0, at), *offset);
}

/// A symbol without the suffixes that a compiler makes from the source's hash or by numbering.
std::string lasting_symbol(std::string_view symbol) {
  static const RE2 suffix(
      R"((::h[0-9a-f]{16}|\.llvm\.\d+|\.(lto_priv|constprop|isra|part|cold|clone)(\.\d+)*|\.\d+)+$)");
  std::string name(symbol);
  RE2::Replace(&name, suffix, "");
  return name.empty() ? std::string(symbol) : name;
}

/// The functions of some stacks, and how much waiting each is charged with.
void add_code(const json& row, const char* key, std::map<std::string, double>& code) {
  const auto stacks = row.find(key);
  if (stacks == row.end()) return;
  std::size_t n = 0;
  for (const json& one : stacks->get_ref<const json::array_t&>()) {
    if (n++ == most_stacks) break;
    stack s;
    for (const json& f : one.at("frames").get_ref<const json::array_t&>()) {
      if (s.frames.size() == most_frames) break;
      frame& to = s.frames.emplace_back();
      to.function = text_or_empty(f, "function");
      to.file = text_or_empty(f, "file");
      to.module = text_or_empty(f, "module");
    }
    const frame* const place = s.place();
    if (place == nullptr || place->function.empty()) continue;
    code[place->function + "\n" + std::string(support::file_name(place->file))] += number(one, "waited");
  }
}

void make_shares(std::map<std::string, double>& code) {
  double all = 0;
  for (const auto& [function, waited] : code) all += waited;
  if (!(all > 0)) return code.clear();
  for (auto& [function, waited] : code) waited /= all;
}

kind kind_named(const std::string& name) {
  for (int k = 1; k <= contract::kinds; k++)
    if (name == contract::kind_names[k]) return kind(k);
  return kind::none;
}

compared_object object_of(const json& row, kind what) {
  compared_object o;
  o.what = what;
  o.name = row.at("name").get<std::string>();
  const std::string module = text_or_empty(row, "module"), first = text_or_empty(row, "first_locked");
  o.is_static = !module.empty();
  o.place = place_of(first.empty() ? o.name : first, module);
  o.acquisitions = count(row, "acquisitions");
  if (const auto waiting = row.find("waiting"); waiting != row.end()) o.waited = number(*waiting, "total");
  o.has_contended = row.contains("contended");
  if (o.has_contended) o.contended = count(row, "contended");
  if (const auto held = row.find("held_share"); held != row.end() && !held->is_null())
    o.held_share = number(row, "held_share");
  if (const auto windows = row.find("windows"); windows != row.end() && !windows->is_null())
    o.windows = numbers(*windows, "windows");
  if (!o.is_static) {
    add_code(row, "waiters", o.code);
    add_code(row, "holders", o.code);
    make_shares(o.code);
  }
  return o;
}

void read_rows(const json& rows, compared_run& r) {
  std::vector<std::pair<double, const json*>> hottest;
  for (const json& row : rows.get_ref<const json::array_t&>()) {
    const kind what = kind_named(row.at("kind").get<std::string>());
    if (what == kind::none || what == kind::join) continue;
    const auto waiting = row.find("waiting");
    hottest.emplace_back(waiting != row.end() ? number(*waiting, "total") : 0, &row);
  }
  std::stable_sort(hottest.begin(), hottest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (hottest.size() > most_objects) hottest.resize(most_objects);
  for (const auto& [waited, row] : hottest)
    r.objects.push_back(object_of(*row, kind_named(row->at("kind").get<std::string>())));
}

/// Computes compared_run::late from the windows' ends, without the last window.
double late_share(const std::vector<double>& ends) {
  if (ends.size() < 3) return 0;
  double shortest = ends[0], before = 0;
  for (std::size_t i = 0; i + 1 < ends.size(); i++)
    shortest = std::min(shortest, ends[i] - std::exchange(before, ends[i]));
  const double all = ends[ends.size() - 2];
  return all > 0 ? std::clamp(1 - static_cast<double>(ends.size() - 1) * shortest / all, 0.0, 1.0) : 0;
}

void check(const compared_run& r) {
  constexpr double shortest = 1e-6;
  if (r.thread_seconds < shortest || r.seconds < shortest) throw bad_input("nothing was recorded in it");
  for (const compared_object& o : r.objects)
    if (!o.windows.empty() && o.windows.size() != r.window_threads.size())
      throw bad_input("a row has another number of windows than the recording");
}

}  // namespace

std::string lasting_name(std::string_view module) {
  static const RE2 so_version(R"(\.so[.\d]+$)"), hash(R"([-_.]h?[0-9a-f]{8,64}(\.so|\.exe)?$)"),
      version(R"([-_.]?v?\d+(\.\d+)*(\.so|\.exe)?$)");
  const std::string name(support::file_name(module));
  std::string rest = name;
  RE2::Replace(&rest, so_version, ".so");
  RE2::Replace(&rest, hash, R"(\1)");
  RE2::Replace(&rest, version, R"(\2)");
  return rest.empty() || rest == ".so" ? name : rest;
}

object_place place_of(std::string_view name, std::string_view module) {
  if (!module.empty()) {  // "pool", "pool+0x28", "buckets[]", or "libpool.so+0x4028"
    const auto offset = with_offset(name);
    std::string_view symbol = offset ? offset->first : name;
    if (symbol.ends_with("[]")) symbol.remove_suffix(2);
    if (symbol == support::file_name(module)) symbol = "";
    return {fmt::format("static\n{}\n{}", lasting_name(module), lasting_symbol(symbol)), offset ? offset->second : 0};
  }
  const std::size_t blank = name.rfind(' ');
  const std::string_view function = name.substr(0, blank == std::string_view::npos ? 0 : blank);
  const std::string_view where = blank == std::string_view::npos ? name : name.substr(blank + 1);
  if (const std::size_t colon = where.rfind(':'); colon != std::string_view::npos)
    if (const auto line = number_of(where.substr(colon + 1), 10))
      return {fmt::format("line\n{}\n{}", lasting_symbol(function), where.substr(0, colon)), *line};
  if (const auto offset = with_offset(where))
    return {fmt::format("offset\n{}\n{}", lasting_symbol(function), lasting_name(offset->first)), offset->second};
  return {};  // an address, which the next run does not have
}

compared_run run_of(const json& j) {
  if (!j.is_object() || !j.contains("rows") || !j.contains("thread_seconds"))
    throw bad_input("it is no file of usher stat --json");
  if (const int version = support::whole_or(j, "version", 1); version != 1)
    throw bad_input(fmt::format("it has version {}, and this usher reads version 1", version));
  try {
    compared_run r;
    for (const json& word : j.at("command").get_ref<const json::array_t&>()) {
      r.command += (r.command.empty() ? "" : " ") + word.get_ref<const std::string&>();
      if (r.command.size() > 200) break;
    }
    r.lock = j.at("lock").get<std::string>();
    r.seconds = number(j, "seconds");
    r.thread_seconds = number(j, "thread_seconds");
    r.threads = support::whole_or(j, "threads", std::uint64_t{0});
    if (const auto others = j.find("others_cpu_share"); others != j.end() && !others->is_null())
      r.others_cpu_share = number(j, "others_cpu_share");
    if (const auto cpu = j.find("cpu"); cpu != j.end() && !cpu->is_null() && r.thread_seconds > 0)
      r.ready = std::min(1.0, number(*cpu, "waiting") * r.seconds / r.thread_seconds);
    if (const auto windows = j.find("windows"); windows != j.end() && !windows->is_null()) {
      r.window_threads = numbers(windows->at("thread_seconds"), "windows");
      r.late = late_share(numbers(windows->at("ends"), "windows"));
    }
    read_rows(j.at("rows"), r);
    check(r);
    return r;
  } catch (const json::exception& e) {
    throw bad_input(fmt::format("it is not as docs/schema/stat.json says: {}", support::reason_of(e)));
  }
}

compared_run read_run(const std::string& file) {
  compared_run r = run_of(support::parsed_json(support::read_input(file)));
  r.file = file;
  return r;
}

}  // namespace usher::reader
