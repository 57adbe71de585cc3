#include "tool/trial/output_pattern.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

namespace usher::tool {
namespace {

constexpr char number_mark = '\1';

bool is(std::string_view text, std::size_t at, int (*kind)(int)) {
  return at < text.size() && kind(static_cast<unsigned char>(text[at])) != 0;
}

struct number {
  std::size_t end;
  bool measured;  ///< not a whole number
};

/// The end of a hexadecimal word with both decimal digits and letters, such as an address or a hash; 0 if there is none
/// at this place.
std::size_t end_of_hexadecimal(std::string_view line, std::size_t at) {
  constexpr std::size_t shortest = 6;
  const bool prefixed = line[at] == '0' && at + 2 < line.size() && (line[at + 1] == 'x' || line[at + 1] == 'X');
  const std::size_t begin = prefixed ? at + 2 : at;
  std::size_t end = begin;
  bool decimal = false, letter = false;
  while (is(line, end, std::isxdigit)) {
    (is(line, end, std::isdigit) ? decimal : letter) = true;
    ++end;
  }
  if (prefixed) return end > begin ? end : 0;
  return decimal && letter && end - begin >= shortest && !is(line, end, std::isalnum) ? end : 0;
}

/// Reads the number at this place, which is a decimal digit or a sign before one.
number number_at(std::string_view line, std::size_t at) {
  bool measured = false;
  if (line[at] == '-' || line[at] == '+') ++at;
  while (is(line, at, std::isdigit) ||
         (at < line.size() && (line[at] == '.' || line[at] == ',') && is(line, at + 1, std::isdigit))) {
    measured = measured || line[at] == '.';
    ++at;
  }
  if (at < line.size() && (line[at] == 'e' || line[at] == 'E')) {
    const std::size_t digits = at + 1 < line.size() && (line[at + 1] == '-' || line[at + 1] == '+') ? at + 2 : at + 1;
    std::size_t end = digits;
    while (is(line, end, std::isdigit)) ++end;
    if (end > digits && !is(line, end, std::isalpha)) return {end, true};
  }
  return {at, measured};
}

bool has_sign_at(std::string_view line, std::size_t at) {
  if ((line[at] != '-' && line[at] != '+') || !is(line, at + 1, std::isdigit)) return false;
  return at == 0 || is(line, at - 1, std::isspace) ||
         std::string_view("([{=:,;<>|").find(line[at - 1]) != std::string_view::npos;
}

template <std::size_t N>
bool one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The end of a unit of time after a number, or of the prefix of another unit (k, M): these change with the size of the
/// number, as in 950 ms and 1.2 s, or 900k and 3.1M. A number with such a unit is a measurement. Returns `at` if there
/// is none.
std::size_t unit_at(std::string_view line, std::size_t at) {
  static constexpr std::array<std::string_view, 20> times = {
      "ns",  "us",   "µs",     "μs",      "ms", "s", "sec",  "secs",  "second", "seconds",
      "min", "mins", "minute", "minutes", "m",  "h", "hour", "hours", "msec",   "usec"};
  static constexpr std::array<std::string_view, 18> what = {"",     "i",    "B",   "iB",   "b",   "bit",
                                                            "bits", "Hz",   "bps", "Bps",  "op",  "ops",
                                                            "iops", "IOPS", "req", "reqs", "tps", "qps"};
  std::size_t begin = at;
  while (begin < line.size() && line[begin] == ' ') ++begin;
  std::size_t end = begin;
  while (is(line, end, std::isalpha) || (end < line.size() && (line[end] & 0x80) != 0)) ++end;
  const std::string_view word = line.substr(begin, end - begin);
  if (word.empty()) return at;
  if (one_of(word, times)) return end;
  if (std::string_view("kKMGTP").find(word.front()) != std::string_view::npos && one_of(word.substr(1), what))
    return begin + 1 + (word.substr(1, 1) == "i" ? 1 : 0);
  return at;
}

std::uint64_t hash_of(std::string_view text) {
  return std::max<std::uint64_t>(std::hash<std::string_view>{}(text), 1);
}

/// The part of a line after its last carriage return. On a terminal it overwrites the part before.
std::string_view last_shown(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line.substr(line.rfind('\r') + 1);
}

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || (c & 0x80) != 0;
}

/// The words of a line with a mark in place of each number. Blanks are merged, and so are repeated punctuation marks,
/// since the widths of columns and bars depend on the numbers. Adds a hash of each number to `numbers`, 0 for
/// measurements.
std::string words_of(std::string_view line, std::vector<std::uint64_t>& numbers) {
  std::string words;
  bool blank = false;
  for (std::size_t i = 0; i < line.size();) {
    const bool in_word = i > 0 && is(line, i - 1, std::isalnum);
    const std::size_t hexadecimal = is(line, i, std::isxdigit) && !in_word ? end_of_hexadecimal(line, i) : 0;
    if (hexadecimal != 0 || is(line, i, std::isdigit) || has_sign_at(line, i)) {
      const number n = hexadecimal != 0 ? number{hexadecimal, false} : number_at(line, i);
      const std::size_t unit = unit_at(line, n.end);
      words += number_mark;
      numbers.push_back(n.measured || unit != n.end ? 0 : hash_of(line.substr(i, n.end - i)));
      i = unit;
      blank = false;
    } else if (is(line, i, std::isspace)) {
      blank = true;
      ++i;
    } else {
      const char c = line[i++];
      const char last = words.empty() ? number_mark : words.back();
      if (blank && is_letter(c) && is_letter(last)) words += ' ';
      if (c != last || is_letter(c)) words += c;
      blank = false;
    }
  }
  return words;
}

}  // namespace

printed::printed(std::string_view text, const std::function<void(std::string&)>& mask) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string shown(last_shown(text.substr(0, end)));
    if (mask) mask(shown);
    const std::string words = words_of(shown, numbers_);
    lines_.push_back({hash_of(words), numbers_.size()});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

bool printed::same_numbers(std::size_t i, const printed& other, std::size_t j) const {
  const std::size_t n = lines_[i].end - begin_of(i), from = begin_of(i), others = other.begin_of(j);
  if (other.lines_[j].end - others != n) return false;
  for (std::size_t k = 0; k < n; ++k) {
    const std::uint64_t mine = numbers_[from + k], theirs = other.numbers_[others + k];
    if (mine != 0 && theirs != 0 && mine != theirs) return false;
  }
  return true;
}

void output_pattern::learn(const printed& output) {
  if (learned_++ == 0) {
    first_ = output;
    lines_.resize(output.size());
    return;
  }
  lost_ = lost_ || output.size() != first_.size();
  if (lost_) return;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    line& known = lines_[i];
    known.same_words = known.same_words && first_.lines_[i].words == output.lines_[i].words;
    known.same_numbers = known.same_numbers && known.same_words && first_.same_numbers(i, output, i);
  }
}

bool output_pattern::fits(std::size_t i, const printed& output, std::size_t j) const {
  const line& known = lines_[i];
  if (!known.same_words) return true;
  if (first_.lines_[i].words != output.lines_[j].words) return false;
  return !is_settled() || !known.same_numbers || first_.same_numbers(i, output, j);
}

/// Compares an output that has another number of lines than the pattern. Returns the number (from 1) of the first line whose
/// words the pattern does not have, or whose count differs from the pattern's; counts may differ for lines with numbers, and
/// for lines that the reference repeated. Else the number, in the pattern, of a line that is missing; 0 if none is.
std::size_t output_pattern::first_foreign_line(const printed& output) const {
  std::unordered_map<std::uint64_t, kind> ours, theirs;
  bool anything = false;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    anything = anything || !lines_[i].same_words;
    kind& k = ours[first_.lines_[i].words];
    ++k.times;
    k.at = i;
  }
  for (std::size_t j = 0; j < output.size(); ++j) {
    kind& k = theirs[output.lines_[j].words];
    ++k.times;
    k.at = j;
  }
  for (std::size_t j = 0; j < output.size(); ++j) {
    const auto mine = ours.find(output.lines_[j].words);
    if (mine == ours.end()) {
      if (anything) continue;
      return j + 1;
    }
    const kind& here = theirs[output.lines_[j].words];
    const bool repeats = output.has_numbers(j) || mine->second.times > 1;
    if (here.times != mine->second.times && !repeats) return here.at + 1;
    if (here.times == 1 && mine->second.times == 1 && !fits(mine->second.at, output, j)) return j + 1;
  }
  for (std::size_t i = 0; i < lines_.size(); ++i)
    if (lines_[i].same_words && !theirs.contains(first_.lines_[i].words)) return std::min(i, output.size()) + 1;
  return 0;
}

std::size_t output_pattern::first_difference(const printed& output) const {
  if (learned_ == 0 || lost_) return 0;
  if (output.size() != lines_.size()) return first_foreign_line(output);
  for (std::size_t i = 0; i < lines_.size(); ++i)
    if (!fits(i, output, i)) return i + 1;
  return 0;
}

}  // namespace usher::tool
