#include "support/text/input_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace usher::support {

std::string reason_of(const nlohmann::json::exception& e) {
  constexpr int wrong_type = 302, wrong_kind_first = 303, wrong_kind_last = 315, no_index = 401, no_key = 403;
  const std::string_view what = e.what();  // "[json.exception.type_error.302] type must be string, but is number"
  const std::string_view words = what.substr(std::min(what.size(), what.find("] ") + 2));
  if (e.id == wrong_type) return fmt::format("a value's {}", words);
  if (e.id >= wrong_kind_first && e.id <= wrong_kind_last) return "a value has the wrong type";
  if (e.id == no_index) return "a list is too short";
  if (e.id == no_key)
    return fmt::format("it has no {}", words.substr(0, words.find(" not found")));  // key 'lock' not found
  return "it is no JSON";
}

std::string read_input(const std::string& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "re"), &std::fclose);
  if (!in) throw bad_input(std::strerror(errno));
  std::string text;
  char part[65536];
  while (const std::size_t n = std::fread(part, 1, sizeof part, in.get())) {
    if (text.size() + n > largest_input) throw bad_input(fmt::format("it has more than {} MiB", largest_input >> 20));
    text.append(part, n);
  }
  if (std::ferror(in.get()) != 0) throw bad_input(std::strerror(errno));
  return text;
}

const char* objection_to_json(std::string_view text) {
  if (text.size() > largest_input) return "it has more than 64 MiB";
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (in_text && c == '\\')
      i++;
    else if (c == '"')
      in_text = !in_text;
    else if (!in_text && (c == '[' || c == '{') && ++depth > deepest_json)
      return "its values are nested in more than 64 others";
    else if (!in_text && (c == ']' || c == '}'))
      depth--;
  }
  return nullptr;
}

}  // namespace usher::support
