// Text files that a user names and that any other user may have written: results that are shown again or merged.
//
// The attacker is the file's author. Sizes are limited before the text is parsed: JSON's writer, copies and comparisons are
// recursive, and memory is ten times a file's size.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace usher::cli {

inline constexpr std::size_t largest_input = std::size_t{64} << 20;
inline constexpr int deepest_json = 64;

/// One line, without the file's name.
struct bad_input : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The error in JSON that was read key by key, without the library's codes.
std::string reason_of(const nlohmann::json::exception& e);

/// A file's text. Throws bad_input if it cannot be read or is larger than `largest_input`.
std::string read_input(const std::string& file);

/// The reason why the text is not parsed as JSON although it may be valid; null if it is.
const char* objection_to_json(std::string_view text);

/// Throws bad_input for text that is no JSON, or JSON that is not read.
template <class Json = nlohmann::json>
Json parsed_json(std::string_view text) {
  if (const char* const why = objection_to_json(text)) throw bad_input(why);
  Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) throw bad_input("it is no JSON");
  return j;
}

/// A JSON number that is to become a whole number. nlohmann's own conversion of 1e300 is undefined behaviour. Throws bad_input.
class whole {
 public:
  explicit whole(const nlohmann::json& j) : number_(j) {}
  explicit whole(const nlohmann::ordered_json& j) : number_(j.is_number() ? nlohmann::json(j) : nlohmann::json()) {}

  template <std::integral T>
  operator T() const {  // NOLINT(google-explicit-constructor): as nlohmann's
    if (number_.is_number_unsigned() && std::in_range<T>(number_.get<std::uint64_t>()))
      return static_cast<T>(number_.get<std::uint64_t>());
    if (number_.is_number_integer() && !number_.is_number_unsigned() && std::in_range<T>(number_.get<std::int64_t>()))
      return static_cast<T>(number_.get<std::int64_t>());
    throw bad_input("it has '" + number_.dump().substr(0, 40) + "' where a whole number belongs");
  }

 private:
  nlohmann::json number_;
};

/// The same, or another number if there is no such key.
template <std::integral T, class Json>
T whole_or(const Json& j, const char* key, T otherwise) {
  const auto at = j.find(key);
  return at == j.end() ? otherwise : static_cast<T>(whole(*at));
}

}  // namespace usher::cli
