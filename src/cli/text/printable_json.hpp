// The texts of a result file that is read again.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/text/utf8.hpp"

namespace usher::cli {

/// Makes all texts printable, each one line: somebody else may have written the file. Keys stay as they are.
template <class Json>
void make_printable(Json& value) {
  if (value.is_string())
    value = printable_line(value.template get_ref<const std::string&>());
  else if (value.is_structured())
    for (Json& part : value) make_printable(part);
}

}  // namespace usher::cli
