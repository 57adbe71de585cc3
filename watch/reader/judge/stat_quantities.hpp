// Counts, times, shares and names as text, for the verdicts and the table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/process/files.hpp"
#include "support/text/words.hpp"

namespace usher::reader {

inline constexpr const char* unknown_text = "–";

/// A count as text: "12,345"; with three significant digits from a million: "1.23 M".
std::string count_text(std::uint64_t n);
/// All digits, with commas.
std::string exact_count(std::uint64_t n);
/// A time as text with three significant digits: "850 ns", "12.3 µs", "4.56 ms", "1.23 s".
std::string time_text(double seconds);
/// A share (0–1) as text: "< 0.1 %", "1.5 %", "93 %".
std::string share_text(double share);
/// Like share_text(), but with two significant digits for small shares: "0.012 %". Used in sentences.
std::string small_share_text(double share);
/// "1 thread", "3 threads".
std::string with_noun(std::uint64_t n, std::string_view noun);

/// A C++ function's or object's name without parameters, return type and unnamed namespaces; if still long, also
/// without template arguments.
std::string short_name(std::string_view demangled);
std::string hexadecimal(std::uint64_t n);

/// The width of UTF-8 text on a terminal: its number of characters, not of bytes.
std::size_t width_of(std::string_view text);
/// The text; if wider than `width`, with "…" in place of its middle.
std::string shortened(const std::string& text, std::size_t width);

}  // namespace usher::reader
