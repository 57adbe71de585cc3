#include "stat/symbols.hpp"

namespace usher::cli::stat {

struct symbols::state {};
symbols::symbols(record::view) : state_(std::make_unique<state>()) {}
symbols::~symbols() = default;
stack symbols::resolve(const record::chain&) {
  return {};
}
stack symbols::resolve(std::uint32_t, std::uint64_t) {
  return {};
}
std::optional<symbols::static_object> symbols::object_at(std::uint32_t, std::uint64_t) {
  return std::nullopt;
}

}  // namespace usher::cli::stat
