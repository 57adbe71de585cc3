#include "watch/reader/look/look_names.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "watch/contract/format.hpp"

namespace usher::reader {

/// A private record that has only modules, for `symbols`.
struct look_names::record {
  static constexpr std::uint32_t most_modules = 1024, text_size = 1 << 20;

  record() {
    room.objects = room.details = room.threads = room.processes = room.windows = 1;
    room.chains = room.charges = 1;
    room.modules = most_modules;
    room.text = text_size;
    const std::uint64_t size = contract::view::size_for(room);
    memory.reset(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096));
    if (memory) std::memset(memory.get(), 0, size);
  }
  contract::view view() const { return {memory.get(), room}; }

  contract::capacities room;
  std::unique_ptr<void, decltype(&std::free)> memory{nullptr, &std::free};
  std::map<std::uint64_t, std::uint32_t> numbers;  ///< of modules, by begin; + 1
};

look_names::look_names(process_place place, bool opens_files)
    : place_(std::move(place)), opens_files_(opens_files), budget_(std::make_shared<name_budget>()) {
  budget_->seconds_a_file = 10;  // chosen: for a command that somebody waits for
}

look_names::~look_names() = default;

void look_names::set_modules(const std::vector<target_module>& modules) {
  std::vector<target_module> sorted = modules;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  const auto is_same = [](const target_module& a, const target_module& b) {
    return a.begin == b.begin && a.end <= b.end && a.bias == b.bias && a.identity == b.identity && a.path == b.path;
  };
  const bool has_all = record_ && std::all_of(sorted.begin(), sorted.end(), [&](const target_module& m) {
                         return std::any_of(modules_.begin(), modules_.end(),
                                            [&](const target_module& known) { return is_same(m, known); });
                       });
  if (has_all) return;
  modules_ = std::move(sorted);
  symbols_.reset();
  record_ = std::make_unique<record>();
  if (!record_->memory) return;
  const contract::view v = record_->view();
  std::uint32_t text = 0, n = 0;
  for (const target_module& m : modules_) {
    const auto length = static_cast<std::uint32_t>(m.path.size());
    if (n >= record::most_modules || length > record::text_size - text) break;
    contract::module_slot& slot = v.module(n);
    slot.begin = m.begin;
    slot.end = m.end;
    slot.bias = m.bias;
    slot.identity = m.identity;
    slot.path = text;
    slot.path_length = length;
    std::memcpy(v.text() + text, m.path.data(), length);
    text += length;
    slot.ready.store(1);
    record_->numbers[m.begin] = ++n;
  }
  v.head().modules.store(n);
  v.head().processes.store(1);
  if (opens_files_)
    symbols_ = names_of(v, {}, place_, budget_);
  else
    symbols_ = std::make_unique<symbols>(v, file_reading{.opens_files = false});
}

const target_module* look_names::module_of(std::uint64_t address) const {
  auto after = std::upper_bound(modules_.begin(), modules_.end(), address,
                                [](std::uint64_t a, const target_module& m) { return a < m.begin; });
  if (after == modules_.begin() || (--after)->end <= address) return nullptr;
  return &*after;
}

std::optional<look_names::key> look_names::key_at(std::uint64_t address) const {
  const target_module* const m = module_of(address);
  return m != nullptr ? std::optional(key{m->path, m->identity, address - m->bias}) : std::nullopt;
}

std::optional<std::uint64_t> look_names::word_at(std::uint64_t address) const {
  const target_module* const m = module_of(address);
  if (m == nullptr || !record_ || !symbols_) return std::nullopt;
  const auto n = record_->numbers.find(m->begin);
  return n != record_->numbers.end() ? std::optional(contract::word_of(address, n->second)) : std::nullopt;
}

void look_names::prepare(const sighting& s) {
  set_modules(s.modules);
  std::vector<query> all;
  const auto add = [&](const target_chain& c) {
    for (const std::uint64_t pc : c.pc)
      if (const auto k = key_at(pc - 1); k && !code_.contains(*k))
        if (const auto word = word_at(pc - 1)) all.push_back({query::what::code, 0, *word + 1});
  };
  for (const sighted_thread& t : s.threads) add(t.stack);
  for (const sighted_key& k : s.keys) add(k.stack);
  if (symbols_ && !all.empty()) symbols_->prepare(all);
}

const std::vector<frame>& look_names::code(std::uint64_t return_address) {
  const auto k = key_at(return_address - 1);
  const auto word = word_at(return_address - 1);
  if (!k || !word) {
    bare_.assign(1, frame{});
    bare_.front().address = return_address - 1;
    return bare_;
  }
  const auto [at, is_new] = code_.try_emplace(*k);
  if (is_new) at->second = symbols_->resolve(0, *word + 1).frames;
  for (frame& f : at->second) f.address = return_address - 1;
  return at->second;
}

std::optional<symbols::static_object> look_names::object(std::uint64_t address) {
  const auto k = key_at(address);
  const auto word = word_at(address);
  if (!k || !word) return std::nullopt;
  const auto [at, is_new] = objects_.try_emplace(*k);
  if (is_new) at->second = symbols_->object_at(0, *word);
  return at->second;
}

std::vector<std::string> look_names::remarks() const {
  return symbols_ ? symbols_->remarks() : std::vector<std::string>();
}

}  // namespace usher::reader
