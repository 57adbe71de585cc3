// Tests the reading of untrusted result files: input that is refused before it is parsed, and numbers that do not fit.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "support/text/input_file.hpp"

namespace usher::support {
namespace {

using nlohmann::json;

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(input, depth) {
  EXPECT_EQ(parsed_json(nested(64)).dump(), nested(64));
  EXPECT_THROW(parsed_json(nested(65)), bad_input);
  // If this input were parsed, the JSON library (nlohmann's) would overflow the stack when it copies or prints the
  // result.
  EXPECT_THROW(parsed_json("{\"x\":" + nested(300'000) + "}"), bad_input);
  std::string objects;
  for (int i = 0; i < 1000; i++) objects += "{\"a\":";
  EXPECT_THROW(parsed_json(objects), bad_input);
  // Brackets inside strings do not count as nesting.
  EXPECT_EQ(
      parsed_json("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"").get<std::string>().size(),
      2001u);
}

TEST(input, size) {
  EXPECT_THROW(parsed_json(std::string(largest_input + 1, ' ')), bad_input);
  EXPECT_THROW(read_input("/dev/zero"), bad_input);
  EXPECT_THROW(read_input("/nowhere"), bad_input);
  EXPECT_EQ(read_input("/dev/null"), "");
}

TEST(input, no_json) {
  for (const char* text : {"", "{", "[1,]", "nan", "\xff"}) EXPECT_THROW(parsed_json(text), bad_input) << text;
}

TEST(input, whole_numbers) {
  EXPECT_EQ(std::uint64_t(whole(json(18446744073709551615u))), 18446744073709551615u);
  EXPECT_EQ(long(whole(json(-5))), -5);
  EXPECT_EQ(whole_or(json::object(), "x", 7u), 7u);
  for (const char* text : {"1e300", "1.5", "-1e99", "4294967296", "-1", "\"5\"", "null", "[]", "true"})
    EXPECT_THROW(static_cast<void>(unsigned(whole(json::parse(text)))), bad_input) << text;
}

}  // namespace
}  // namespace usher::support
