#include "watch/reader/name/id_names.hpp"

#include <fmt/format.h>

namespace usher::reader {
namespace {

shown_id shown(std::uint32_t own, std::int64_t seen, bool is_inside) {
  if (seen != 0) return {seen, seen == own ? 0 : std::int64_t{own}};
  return is_inside ? shown_id{0, own} : shown_id{own, 0};
}

}  // namespace

std::string id_text(const shown_id& id) {
  if (id.own == 0) return fmt::format("{}", id.seen);
  return id.seen != 0 ? fmt::format("{} (own {})", id.seen, id.own) : fmt::format("? (own {})", id.own);
}

/// The ids that the census found for the process in this slot of the record; null if it found none.
const access::seen_ids::entry* id_names::seen_process(std::uint32_t slot) const {
  if (ids_ == nullptr || slot >= ids_->processes.size() || slot >= record_.room().processes) return nullptr;
  const access::seen_ids::entry& e = ids_->processes[slot];
  return e.own != 0 && e.own == contract::read(record_.process(slot).pid) ? &e : nullptr;
}

/// Whether the process is in another PID namespace than this command. A process that ended before the census found it
/// counts as in its parent's namespace.
bool id_names::is_inside(std::uint32_t process) const {
  constexpr int most_generations = 64;  // chosen; forged parents may form a circle
  for (int i = 0; i < most_generations && process < record_.room().processes; i++) {
    if (const auto* e = seen_process(process); e != nullptr && e->seen != 0) return e->is_inside;
    process = contract::read(record_.process(process).parent) - 1;
  }
  return false;
}

shown_id id_names::process(std::uint32_t slot) const {
  if (slot >= record_.room().processes) return {};
  const std::uint32_t own = contract::read(record_.process(slot).pid);
  const auto* const e = seen_process(slot);
  return shown(own, e != nullptr ? e->seen : 0, is_inside(slot));
}

shown_id id_names::thread(std::uint32_t slot) const {
  if (slot >= record_.room().threads) return {};
  const std::uint32_t own = contract::read(record_.thread(slot).tid);
  if (own == 0 || ids_ == nullptr || slot >= ids_->threads.size()) return {own, 0};
  const access::seen_ids::entry& e = ids_->threads[slot];
  return shown(own, e.own == own ? e.seen : 0, is_inside(contract::read(record_.thread(slot).process)));
}

bool id_names::is_hidden(std::uint32_t thread) const {
  if (thread >= record_.room().threads) return false;
  const auto* const e = seen_process(contract::read(record_.thread(thread).process));
  return e != nullptr && e->is_hidden;
}

}  // namespace usher::reader
