#include "stat/profile.hpp"

namespace usher::cli::stat {

std::string as_pprof(const report&) {
  return {};
}
std::string as_folded(const report&) {
  return {};
}

}  // namespace usher::cli::stat
