#include "watch/reader/judge/stat_quantities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "support/text/utf8.hpp"
#include "support/text/words.hpp"

namespace usher::reader {
namespace {

/// The number with three significant digits, without an exponent below a million.
std::string three_digits(double v) {
  const int decimals = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
  return v < 999.5 ? fmt::format("{:.{}f}", v, decimals) : exact_count(static_cast<std::uint64_t>(std::llround(v)));
}

bool is_operator_sign(char c) {
  return std::string_view("<>=+-*/%^&|~!,[]").find(c) != std::string_view::npos;
}

void remove_all(std::string& text, std::string_view what) {
  for (std::size_t at; (at = text.find(what)) != std::string::npos;) text.erase(at, what.size());
}

/// If the name of an operator ("operator<=") begins at `at`, the position after it; else `at`.
std::size_t after_operator(std::string_view text, std::size_t at) {
  constexpr std::string_view word = "operator";
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (text.substr(at, word.size()) != word || (at > 0 && is_name(text[at - 1]))) return at;
  std::size_t end = at + word.size();
  if (end < text.size() && is_name(text[end])) return at;
  if (text.substr(end, 2) == "()") return end + 2;
  while (end < text.size() && is_operator_sign(text[end])) end++;
  if (end < text.size() && text[end] == ' ') {  // a conversion operator, new or delete
    end++;
    while (end < text.size() && text[end] != '(') end++;
  }
  return end;
}

}  // namespace

std::string exact_count(std::uint64_t n) {
  std::string text = std::to_string(n);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string count_text(std::uint64_t n) {
  const auto v = static_cast<double>(n);
  if (n < 1'000'000) return exact_count(n);
  if (v < 999.5e6) return three_digits(v / 1e6) + " M";
  return three_digits(v / 1e9) + " G";
}

std::string time_text(double seconds) {
  if (!(seconds > 0)) return "0 s";
  if (seconds < 999.5e-9) return fmt::format("{:.0f} ns", std::max(1.0, seconds * 1e9));
  if (seconds < 999.5e-6) return three_digits(seconds * 1e6) + " µs";
  if (seconds < 999.5e-3) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds) + " s";
}

std::string share_text(double share) {
  const double percent = share * 100;
  if (!(percent > 0)) return "0 %";
  if (percent < 0.1) return "< 0.1 %";
  return fmt::format("{:.{}f} %", percent, percent < 9.95 ? 1 : 0);
}

std::string small_share_text(double share) {
  const double percent = share * 100;
  if (!(percent > 0) || percent >= 0.995) return share_text(share);
  if (percent < 0.0001) return "less than 0.0001 %";
  const int decimals = 1 - static_cast<int>(std::floor(std::log10(percent)));
  std::string text = fmt::format("{:.{}f}", percent, decimals);
  text.erase(text.find_last_not_of('0') + 1);
  return text + " %";
}

std::string with_noun(std::uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", exact_count(n), noun, n == 1 ? "" : "s");
}

std::string hexadecimal(std::uint64_t n) {
  return fmt::format("{:#x}", n);
}

std::string short_name(std::string_view demangled) {
  std::string all(demangled);
  remove_all(all, "(anonymous namespace)::");
  remove_all(all, "[abi:cxx11]");
  for (std::size_t at; (at = all.find("std::__cxx11::")) != std::string::npos;) all.erase(at + 5, 9);
  if (const std::size_t at = all.find(" [clone"); at != std::string::npos) all.erase(at);

  // Collects the function's name: the text between the return type, if any, and the parameters.
  std::string name, bare;  // `bare`: without template arguments
  int angles = 0, braces = 0;
  for (std::size_t i = 0; i < all.size(); i++) {
    if (const std::size_t end = after_operator(all, i); end != i) {
      name += all.substr(i, end - i);
      if (angles == 0) bare += all.substr(i, end - i);
      i = end - 1;
      continue;
    }
    const char c = all[i];
    if (c == '{') braces++;
    if (c == '}') braces--;
    if (c == '(' && braces == 0 && angles == 0) {
      const std::size_t close = all.find(')', i);
      if (close != std::string::npos && all.substr(close + 1, 2) == "::" && close > i) {  // f(int)::local
        i = close;
        continue;
      }
      if (!name.empty()) break;
    }
    if (c == '(' && braces > 0) {  // the parameters of a lambda
      int depth = 0;
      std::size_t j = i;
      for (; j < all.size(); j++) {
        if (all[j] == '(') depth++;
        if (all[j] == ')' && --depth == 0) break;
      }
      i = std::min(j, all.size() - 1);
      continue;
    }
    if (c == ' ' && angles == 0 && braces == 0) {
      const std::string_view first(bare);
      const bool is_phrase = first.starts_with("guard") || first.starts_with("vtable") || first.starts_with("TLS") ||
                             first.starts_with("non-virtual") || first.starts_with("virtual");
      if (!is_phrase) {
        name.clear();
        bare.clear();
        continue;
      }
    }
    if (c == '<') {
      if (angles++ == 0) bare += "<…>";
    }
    name += c;
    if (angles == 0) bare += c;
    if (c == '>' && angles > 0) angles--;
  }
  constexpr std::size_t long_name = 40;
  const std::string& chosen = width_of(name) > long_name ? bare : name;
  return chosen.empty() ? std::string(demangled) : chosen;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string shortened(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) return text;
  if (width < 3) return text.substr(0, width);
  // Keeps more of the end than of the beginning, since the end distinguishes names better.
  std::vector<std::string> characters;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80 && !characters.empty())
      characters.back() += c;
    else
      characters.emplace_back(1, c);
  }
  const std::size_t tail = width * 3 / 5, head = width - 1 - tail;
  std::string all;
  for (std::size_t i = 0; i < head; i++) all += characters[i];
  all += "…";
  for (std::size_t i = characters.size() - tail; i < characters.size(); i++) all += characters[i];
  return all;
}

}  // namespace usher::reader
