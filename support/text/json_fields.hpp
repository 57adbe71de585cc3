// JSON of structs. A table of a struct's fields defines both its writing and its reading:
//
//   constexpr auto json_fields(const step*) {
//     return std::tuple(field("thread", &step::thread), field("file", &step::file, or_null));
//   }
//
// The function is in the struct's namespace. The rows have the order of the JSON; the member's type defines how its value
// is written and read. An enumeration has json_names(E), an array of pairs of value and name. A row of another kind is a
// class with write(ordered_json& to, const S&) and, if the struct is read, read(const nlohmann::json& from, S&).
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <type_traits>

#include "support/text/input_file.hpp"

namespace usher::support {

template <class S>
concept with_fields = requires(const S* s) { json_fields(s); };
template <class E>
concept with_names = requires(E e) { json_names(e); };

template <class S>
void add_fields(nlohmann::ordered_json& to, const S& s) {
  std::apply([&](const auto&... row) { (row.write(to, s), ...); }, json_fields(&s));
}

/// Throws bad_input or nlohmann::json::exception.
template <class S>
void read_fields(const nlohmann::json& from, S& s) {
  std::apply([&](const auto&... row) { (row.read(from, s), ...); }, json_fields(static_cast<const S*>(&s)));
}

template <class V>
nlohmann::ordered_json json_value(const V& v) {
  nlohmann::ordered_json j;
  if constexpr (requires { to_json(v); }) {
    j = to_json(v);
  } else if constexpr (with_fields<V>) {
    add_fields(j, v);
  } else if constexpr (with_names<V>) {
    for (const auto& [value, name] : json_names(v))
      if (value == v) j = name;
  } else if constexpr (requires { v.has_value(); }) {
    if (v) j = json_value(*v);
  } else if constexpr (requires(V other) { other.emplace_back(); }) {
    j = nlohmann::ordered_json::array();
    for (const auto& each : v) j.push_back(json_value(each));
  } else {
    static_assert(!std::is_enum_v<V>, "json_names() of an enumeration must be in its namespace");
    j = v;
  }
  return j;
}

template <class V>
void read_value(const nlohmann::json& from, V& to, const char* key) {
  if constexpr (with_fields<V>) {
    read_fields(from, to);
  } else if constexpr (with_names<V>) {
    const auto said = from.get<std::string>();
    std::string all;
    for (const auto& [value, name] : json_names(to)) {
      if (said == name) return void(to = value);
      all += std::string(all.empty() ? "" : ", ") + name;
    }
    throw bad_input(fmt::format("its {} '{}' is none of {}", key, said, all));
  } else if constexpr (requires { to.has_value(); }) {
    to.reset();
    if (!from.is_null()) read_value(from, to.emplace(), key);
  } else if constexpr (requires { to.emplace_back(); }) {
    for (const auto& each : from.get_ref<const nlohmann::json::array_t&>()) read_value(each, to.emplace_back(), key);
  } else if constexpr (std::integral<V> && !std::same_as<V, bool>) {
    to = whole(from);
  } else {
    static_assert(!std::is_enum_v<V>, "json_names() of an enumeration must be in its namespace");
    from.get_to(to);
  }
}

/// Whether a value is empty: an empty text or list, 0, false, or a number that is not finite.
template <class V>
bool is_empty(const V& v) {
  if constexpr (std::floating_point<V>)
    return !std::isfinite(v);
  else if constexpr (std::is_arithmetic_v<V>)
    return v == 0;
  else if constexpr (requires { v.empty(); })
    return v.empty();
  else
    return json_value(v).is_null();
}

/// How an empty value is written. With or_null, reading a null leaves the member unchanged, and the key must exist.
/// With or_absent, an absent key leaves the member unchanged.
enum class if_empty { as_it_is, null, absent };
inline constexpr if_empty or_null = if_empty::null, or_absent = if_empty::absent;

template <class S, class V>
struct field {
  using condition = bool (*)(const std::type_identity_t<S>&);

  constexpr field(const char* its_key, V S::*its_member, if_empty when_empty = if_empty::as_it_is)
      : key(its_key), member(its_member), empty(when_empty) {}
  /// The key is written only if the condition is true.
  constexpr field(const char* its_key, V S::*its_member, condition only_if)
      : key(its_key), member(its_member), empty(or_absent), present(only_if) {}

  void write(nlohmann::ordered_json& to, const S& s) const {
    const bool left_out = empty == or_absent && (present != nullptr ? !present(s) : is_empty(s.*member));
    if (!left_out) to[key] = empty == or_null && is_empty(s.*member) ? nlohmann::ordered_json() : json_value(s.*member);
  }
  void read(const nlohmann::json& from, S& s) const {
    if (empty == or_absent && !from.contains(key)) return;
    if (const nlohmann::json& value = from.at(key); empty != or_null || !value.is_null())
      read_value(value, s.*member, key);
  }

  const char* key;
  V S::*member;
  if_empty empty;
  condition present = nullptr;
};

/// A row for a member that is a struct with a table of its own. The keys of that struct are in the same JSON object,
/// not in an object of their own.
template <class S, class V>
struct flat {
  constexpr explicit flat(V S::*its_member) : member(its_member) {}
  void write(nlohmann::ordered_json& to, const S& s) const { add_fields(to, s.*member); }
  void read(const nlohmann::json& from, S& s) const { read_fields(from, s.*member); }

  V S::*member;
};

/// A row whose value is converted by functions. `Write` takes the struct and returns the value; `Read` is called as
/// void(const nlohmann::json&, S&).
template <class Write, class Read = std::nullptr_t>
struct computed {
  constexpr computed(const char* its_key, Write its_writer, Read its_reader = {})
      : key(its_key), written(its_writer), read_from(its_reader) {}
  void write(nlohmann::ordered_json& to, const auto& s) const { to[key] = written(s); }
  void read(const nlohmann::json& from, auto& s) const { read_from(from.at(key), s); }

  const char* key;
  Write written;
  Read read_from;
};

/// Makes the JSON of a result file; S::format is its format.
template <with_fields S>
nlohmann::ordered_json json_of_results(const S& s) {
  nlohmann::ordered_json j = {{"format", S::format}};
  add_fields(j, s);
  return j;
}

/// Reads the JSON of a result file. Throws bad_input, whose text names the schema, docs/schema/SCHEMA.json.
template <with_fields S>
S read_results(const nlohmann::json& j, const char* schema) {
  if (const int format = whole_or(j, "format", 1); format != S::format)
    throw bad_input(fmt::format("it has format {}, and this usher reads format {}", format, S::format));
  try {
    S s;
    read_fields(j, s);
    return s;
  } catch (const nlohmann::json::exception& e) {
    throw bad_input(fmt::format("it is not as docs/schema/{}.json says: {}", schema, reason_of(e)));
  }
}

}  // namespace usher::support
