#include "stat/text.hpp"

namespace usher::cli::stat {

std::string as_text(const report&, const text_options&) {
  return {};
}
std::string as_line(const deadlock&) {
  return {};
}
std::string as_text(const deadlock&) {
  return {};
}

}  // namespace usher::cli::stat
