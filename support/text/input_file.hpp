// Text files that a user names and that any other user may have written: results that are shown again or merged.
//
// The attacker is the file's author. Sizes are limited before the text is parsed: the JSON library's writer, copies and
// comparisons are recursive, and a parsed file takes ten times its size in memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace usher::support {

inline constexpr std::size_t largest_input = std::size_t{64} << 20;
inline constexpr int deepest_json = 64;

/// The message is one line, without the file's name.
struct bad_input : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The message for an error that was found while values of parsed JSON were read, without the library's error codes.
std::string reason_of(const nlohmann::json::exception& e);

/// Reads a file. Throws bad_input if that is not possible or the file is larger than `largest_input`.
std::string read_input(const std::string& file);

/// The reason why a text, although it may be valid JSON, must not be parsed; null if it may be.
const char* objection_to_json(std::string_view text);

/// Parses a text. Throws bad_input if it is not JSON, or JSON that must not be parsed (objection_to_json()).
template <class Json = nlohmann::json>
Json parsed_json(std::string_view text) {
  if (const char* const why = objection_to_json(text)) throw bad_input(why);
  Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) throw bad_input("it is no JSON");
  return j;
}

/// Converts a JSON number to an integer type, or throws bad_input if the type does not have the value. nlohmann's own
/// conversion of 1e300 is undefined behaviour.
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

/// The integer at the key, or `otherwise` if there is no such key. Throws bad_input.
template <std::integral T, class Json>
T whole_or(const Json& j, const char* key, T otherwise) {
  const auto at = j.find(key);
  return at == j.end() ? otherwise : static_cast<T>(whole(*at));
}

}  // namespace usher::support
