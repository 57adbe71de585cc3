#include "stat/rules.hpp"

namespace usher::cli::stat {

std::span<const rule> rules_of_rows() {
  return {};
}
std::span<const rule> rules_of_programs() {
  return {};
}
const rule* find_rule(const std::string&) {
  return nullptr;
}
void judge(report&) {}

}  // namespace usher::cli::stat
