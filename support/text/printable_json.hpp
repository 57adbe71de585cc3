// The texts of a result file that is read again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "support/text/utf8.hpp"

namespace usher::support {

/// Makes each text and key a printable line, because another user may have written the file.
template <class Json>
void make_printable(Json& value) {
  if (value.is_string()) {
    value = printable_line(value.template get_ref<const std::string&>());
  } else if (value.is_array()) {
    for (Json& part : value) make_printable(part);
  } else if (value.is_object()) {
    Json shown = Json::object();
    for (auto& [key, part] : value.items()) {
      make_printable(part);
      shown[printable_line(key)] = std::move(part);
    }
    value = std::move(shown);
  }
}

}  // namespace usher::support
