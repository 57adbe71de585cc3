// The JSON of `usher top`: docs/schema/top.json.
#pragma once

#include <nlohmann/json.hpp>

#include "watch/reader/look/look_report.hpp"

namespace usher::reader {

nlohmann::ordered_json as_json(const look_report& r);

}  // namespace usher::reader
