#include "lab/sim/runtime.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>

namespace usher::sim {
namespace {

constexpr std::size_t line_bytes = 64, sector_bytes = 128, word_bytes = sizeof(simulated_atomic<std::uint32_t>);

// Names of the tables, in the order of table_kind.
constexpr std::array<const char*, 3> table_names{"array", "identities", "chains"};

std::string thread_name(std::size_t n) {
  std::string name = "T";
  return name += std::to_string(n);
}

constexpr std::size_t rounded(std::size_t bytes) {
  return (bytes + line_bytes - 1) & ~(line_bytes - 1);
}

}  // namespace

/// Names the node after its first user, since queue locks pass nodes from thread to thread.
std::string runtime::name_in_node(std::size_t offset) {
  using node = queue_node<simulated>;
  const std::size_t slot = offset / line_bytes, at = offset % line_bytes, nth = slot % nodes_a_thread;
  std::string name = thread_name(slot / nodes_a_thread) + "'s node";
  if (nth != 0) name += std::to_string(nth + 1);
  switch (at) {
    case offsetof(node, next):
      return name += ".next";
    case offsetof(node, flag):
      return name += ".flag";
    case offsetof(node, newer):
      return name += ".newer";
    case offsetof(node, older):
      return name += ".older";
    default:
      return name += ".mark";
  }
}

runtime::runtime(simulation& s, unsigned threads)
    : arena_(s.shared()), spread_(threads * nodes_a_thread), kept_(threads), locals_used_(threads) {
  arena& a = arena_;
  for (unsigned i = 0; i < threads * nodes_a_thread; i++)
    slots_.push_back({::new (a.allocate(sizeof(queue_node<simulated>), line_bytes)) queue_node<simulated>(), false});
  if (threads != 0) a.name(slots_.front().node, slots_.size() * line_bytes, name_in_node);
  static_assert(sizeof(queue_node<simulated>) <= line_bytes);
  for (std::size_t k = 0; k < tables_.size(); k++) {
    tables_[k] = a.make_array<simulated_atomic<std::uint32_t>>(table_words, sector_bytes);
    a.name(tables_[k], table_words * word_bytes,
           [k](std::size_t at) { return std::string(table_names[k]) + "[" + std::to_string(at / word_bytes) + "]"; });
  }
  for (unsigned i = 0; i < threads; i++)
    locals_.push_back(static_cast<std::byte*>(a.allocate(local_bytes, line_bytes)));
  if (threads != 0)
    a.name(locals_.front(), threads * local_bytes, [](std::size_t at) {
      return thread_name(at / local_bytes) + "'s stack+" + std::to_string(at % local_bytes);
    });
  current_ = this;
}

runtime::~runtime() {
  current_ = nullptr;
}

spread_node* runtime::make_spread(node_handle h) {
  spread_node* const n = arena_.make_array<spread_node>(1, alignof(spread_node));
  std::string name = thread_name((h - first_node) / nodes_a_thread);
  arena_.name(n, sizeof *n, [name = name += "'s node"](std::size_t at) {
    return name + (at == 0 ? ".next" : at == offsetof(spread_node, flag) ? ".flag" : ".mark");
  });
  return n;
}

void runtime::make_visible_readers() {
  if (visible_readers_ != nullptr) return;
  visible_readers_ = arena_.make_array<simulated_atomic<std::uint64_t>>(simulated::visible_slots, sector_bytes);
  arena_.name(visible_readers_, simulated::visible_slots * sizeof(std::uint64_t),
              [](std::size_t at) { return "readers[" + std::to_string(at / sizeof(std::uint64_t)) + "]"; });
}

node_handle runtime::take_node(unsigned thread) {
  for (unsigned i = thread * nodes_a_thread; i < (thread + 1) * nodes_a_thread; i++)
    if (!slots_[i].used) {
      slots_[i].used = true;
      return first_node + i;
    }
  return no_node;
}

void* runtime::push_local(unsigned thread, std::size_t bytes) {
  const std::size_t at = locals_used_[thread];
  if (at + rounded(bytes) > local_bytes) throw std::length_error("a simulated thread's stack is full");
  locals_used_[thread] = at + rounded(bytes);
  return locals_[thread] + at;
}

void runtime::pop_local(unsigned thread, std::size_t bytes) {
  locals_used_[thread] -= rounded(bytes);
}

node_handle simulated::take_node() {
  return runtime::current().take_node(simulation::current().thread());
}
void simulated::give_node(node_handle h) {
  runtime::current().give_node(h);
}
node_handle simulated::cached_node() {
  node_handle& kept = runtime::current().kept(simulation::current().thread());
  return kept != no_node ? std::exchange(kept, no_node) : take_node();
}
void simulated::cache_node(node_handle h) {
  node_handle& kept = runtime::current().kept(simulation::current().thread());
  if (kept == no_node)
    kept = h;
  else
    give_node(h);
}
queue_node<simulated>& simulated::node(node_handle h) {
  return runtime::current().node(h);
}
simulated_atomic<std::uint32_t>* simulated::table_of(table_kind k) {
  return runtime::current().table(k);
}
simulated_atomic<std::uint64_t>* simulated::visible_readers() {
  return runtime::current().visible_readers();
}
bool simulated::prepare_visible_readers() {
  runtime::current().make_visible_readers();
  return true;
}
std::uint64_t simulated::lock_id(const void* lock) {
  return 1 + simulation::current().shared().offset_of(lock);
}
std::uint32_t simulated::salt(const void* lock) {
  return std::uint32_t(simulation::current().shared().offset_of(lock) >> 3);
}
wait_limits simulated::limits() {
  return runtime::current().limits;
}
void* simulated::push_local(std::size_t bytes) {
  void* const place = runtime::current().push_local(simulation::current().thread(), bytes);
  simulation::current().reuse(place, bytes);
  return place;
}
void simulated::pop_local(std::size_t bytes) {
  runtime::current().pop_local(simulation::current().thread(), bytes);
}
void simulated::doorway(const void* lock) {
  if (observer* const o = runtime::current().watched_by)
    o->doorway(lock, simulation::current().thread(), simulation::current().now());
}
void simulated::leader_too_late() {
  if (observer* const o = runtime::current().watched_by) o->leader_too_late(simulation::current().now());
}

}  // namespace usher::sim
