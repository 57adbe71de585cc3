// JSON of ids, frames and stacks, which the files of `usher stat` and `usher top` have in common.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "support/text/json_fields.hpp"
#include "support/text/utf8.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

using json = nlohmann::ordered_json;

/// Writes an id: "tid", which is null if it is not known, and "own_tid" if the id in its own PID namespace differs.
template <class S>
struct id_keys {
  constexpr id_keys(const char* its_key, shown_id S::*its_member) : key(its_key), member(its_member) {}
  void write(json& to, const S& s) const {
    const shown_id& id = s.*member;
    to[key] = id.seen != 0 ? json(id.seen) : json();
    if (id.own != 0) to[std::string("own_") + key] = id.own;
  }

  const char* key;
  shown_id S::*member;
};

constexpr auto json_fields(const frame*) {
  using f = frame;
  return std::tuple(
      support::field("function", &f::function, support::or_null), support::field("file", &f::file, support::or_null),
      support::field("line", &f::line, support::or_null), support::field("module", &f::module, support::or_null),
      support::computed("offset", [](const f& s) { return s.module.empty() ? json() : json(hexadecimal(s.offset)); }),
      support::computed("address", [](const f& s) { return hexadecimal(s.address); }),
      support::field("inlined", &f::is_inlined));
}

constexpr auto json_fields(const stack*) {
  return std::tuple(support::field("frames", &stack::frames), support::field("cut", &stack::is_cut));
}

/// The JSON writer refuses text that is not UTF-8, so such bytes become question marks. It escapes control characters
/// itself.
inline void make_valid(json& j) {
  if (j.is_structured()) {
    for (json& part : j) make_valid(part);
  } else if (j.is_string()) {
    std::string valid;
    for (std::string_view text = j.get_ref<const std::string&>(); !text.empty();) {
      const std::size_t length = support::utf8_length(text);
      valid += length == 0 ? "?" : text.substr(0, length);
      text.remove_prefix(length == 0 ? 1 : length);
    }
    j = std::move(valid);
  }
}

}  // namespace usher::reader
