#include "stat/json.hpp"

namespace usher::cli::stat {

nlohmann::ordered_json as_json(const report&) {
  return {};
}

}  // namespace usher::cli::stat
