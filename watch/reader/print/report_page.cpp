#include "watch/reader/print/report_page.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "support/text/input_file.hpp"
#include "support/text/utf8.hpp"
#include "usher/version.h"
#include "watch/reader/judge/rules.hpp"

namespace usher::reader {
namespace {

// std::map behind its objects: a file with a million keys in one takes no quadratic time.
using json = nlohmann::json;

/// How much of each list and text a page has. Chosen: the first limits keep everything that `usher stat` writes.
struct limits {
  std::size_t objects, stacks, frames, rows, text;
};
constexpr std::array<limits, 6> levels = {{{2500, 2000, 300, 100'000, 10'000},
                                           {64, 64, 128, 2000, 4000},
                                           {16, 16, 64, 500, 1000},
                                           {4, 8, 48, 150, 400},
                                           {1, 4, 32, 50, 200},
                                           {0, 2, 16, 15, 120}}};

/// Keys of an object; ours have fewer than half as many.
constexpr std::size_t most_keys = 100, longest_key = 60;

std::size_t most_of(const limits& l, std::string_view key) {
  if (key == "each") return l.objects;
  if (key == "holders" || key == "waiters" || key == "places") return l.stacks;
  if (key == "frames") return l.frames;
  return l.rows;
}

/// The beginning of a text, whole characters of it.
std::string cut(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) end--;
  return text.substr(0, end) + "…";
}

/// A number with six digits, which takes a third of the room.
json rounded(double value) {
  return json::parse(fmt::format("{:.6g}", value), nullptr, false);
}

/// Copies a file's JSON within limits. Frames, most of which occur in many stacks, go into one table; a stack gets their
/// numbers. A copy that has become larger than its room is given up.
class reducer {
 public:
  reducer(const limits& l, std::size_t room) : limits_(l), room_(room) {}

  /// `key`: of the value in its object. The recursion is as deep as parsed_json() permits.
  json reduced(const json& value, std::string_view key) {
    if (value.is_array()) return list(value, key);
    if (value.is_object()) return object(value);
    if (value.is_string()) {
      std::string text = cut(value.get_ref<const std::string&>(), limits_.text);
      size_ += text.size();
      return text;
    }
    size_++;
    if (value.is_number_float()) return rounded(value.get<double>());
    return value;
  }
  json& frames() { return frames_; }
  bool is_full() const { return size_ > room_; }

 private:
  json list(const json& value, std::string_view key) {
    json to = json::array();
    const std::size_t n = std::min(value.size(), most_of(limits_, key));
    for (std::size_t i = 0; i < n && !is_full(); i++)
      to.push_back(key == "frames" && value[i].is_object() ? json(number_of_frame(value[i])) : reduced(value[i], ""));
    return to;
  }

  json object(const json& value) {
    json to = json::object();
    for (const auto& [key, part] : value.items()) {
      if (part.is_null() || key.size() > longest_key) continue;
      if (to.size() >= most_keys || is_full()) break;
      size_ += key.size();
      to[key] = reduced(part, key);
      if (part.is_array() && to[key].size() < part.size()) to[key + "_left_out"] = part.size() - to[key].size();
    }
    return to;
  }

  std::size_t number_of_frame(const json& value) {
    const std::size_t before = size_;
    json frame = object(value);
    frame.erase("address");
    const auto [at, is_new] =
        numbers_.emplace(frame.dump(-1, ' ', false, json::error_handler_t::replace), frames_.size());
    if (is_new) frames_.push_back(std::move(frame));
    size_ = before + (is_new ? at->first.size() : 1);
    return at->second;
  }

  limits limits_;
  std::size_t room_, size_ = 0;  ///< bytes; the size is at most that of the text
  json frames_ = json::array();
  std::map<std::string, std::size_t> numbers_;
};

/// Text of JSON that ends no element of HTML and contains neither invisible nor reordered characters.
std::string escaped(const json& value) {
  std::string to;
  for (const char c : value.dump(-1, ' ', true, json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&')
      to += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      to += c;
  }
  return to;
}

bool has_list(const json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_array();
}

void require_version(const json& j, const char* key, int version, const char* command) {
  if (const int is = support::whole_or(j, key, 0); is != version)
    throw support::bad_input(
        fmt::format("it has {} {} of usher {} --json, and this usher reads {}", key, is, command, version));
}

/// The command that wrote the JSON. Throws bad_input.
const char* kind_of(const json& j) {
  const char* const none =
      "it is none of the files that usher stat --json, usher top --json and usher try --json write";
  if (!j.is_object()) throw support::bad_input(none);
  const auto format = j.find("format");
  if (format != j.end() && *format == "usher_top") {
    require_version(j, "version", 1, "top");
    if (!has_list(j, "waits") || !has_list(j, "threads"))
      throw support::bad_input("it is not as docs/schema/top.json says: it has no list of waits or threads");
    return "top";
  }
  if (format != j.end() && has_list(j, "candidates") && j.contains("conclusion")) {
    require_version(j, "format", 2, "try");
    return "try";
  }
  if (format == j.end() && has_list(j, "rows") && has_list(j, "deadlocks") && j.contains("version")) {
    require_version(j, "version", 1, "stat");
    return "stat";
  }
  throw support::bad_input(none);
}

}  // namespace

std::string page_entry(const page_file& file, std::size_t room) {
  const json all = support::parsed_json(file.text);
  const char* const kind = kind_of(all);
  for (const limits& l : levels) {
    reducer to(l, room);
    json entry = {
        {"name", cut(support::printable_line(file.name), l.text)}, {"kind", kind}, {"report", to.reduced(all, "")}};
    if (to.is_full()) continue;
    entry["frames"] = std::move(to.frames());
    if (std::string text = escaped(entry); text.size() <= room) return text;
  }
  throw support::bad_input(fmt::format("it has too much for a page, in which {} bytes are left for it", room));
}

std::string filled_page(const std::string& page_template, const std::vector<std::string>& entries) {
  const std::size_t at = page_template.find(data_mark);
  if (at == std::string::npos || page_template.find(data_mark, at + data_mark.size()) != std::string::npos)
    throw std::runtime_error("the template has no place for the data");
  json words = json::object();
  for (const auto& rules : {rules_of_rows(), rules_of_programs()})
    for (const rule& r : rules)
      if (r.in_table != nullptr && *r.in_table != '\0') words[r.name] = r.in_table;
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::string data = fmt::format(R"({{"usher":{},"made":"{:%Y-%m-%d %H:%M} UTC","rules":{},"files":[)",
                                 escaped(USHER_VERSION), fmt::gmtime(now), escaped(words));
  for (std::size_t i = 0; i < entries.size(); i++) data += (i == 0 ? "" : ",\n") + entries[i];
  return page_template.substr(0, at) + data + "]}" + page_template.substr(at + data_mark.size());
}

}  // namespace usher::reader
