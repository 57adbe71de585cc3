#include "sim/process.hpp"

#include <stdexcept>

namespace usher::sim {
namespace {

constexpr std::size_t line_bytes = 64, sector_bytes = 128;

constexpr std::size_t rounded(std::size_t bytes) {
  return (bytes + line_bytes - 1) & ~(line_bytes - 1);
}

}  // namespace

process::process(simulation& s, unsigned threads) : kept_(threads), locals_used_(threads) {
  arena& a = s.shared();
  for (unsigned i = 0; i < threads * nodes_a_thread; i++)
    slots_.push_back({::new (a.allocate(sizeof(queue_node<simulated>), line_bytes)) queue_node<simulated>(), false});
  for (auto& t : tables_) t = a.make_array<simulated_atomic<std::uint32_t>>(table_words, sector_bytes);
  for (unsigned i = 0; i < threads; i++)
    locals_.push_back(static_cast<std::byte*>(a.allocate(local_bytes, line_bytes)));
  current_ = this;
}

process::~process() {
  current_ = nullptr;
}

node_handle process::take_node(unsigned thread) {
  for (unsigned i = thread * nodes_a_thread; i < (thread + 1) * nodes_a_thread; i++)
    if (!slots_[i].used) {
      slots_[i].used = true;
      return first_node + i;
    }
  return no_node;
}

void* process::push_local(unsigned thread, std::size_t bytes) {
  const std::size_t at = locals_used_[thread];
  if (at + rounded(bytes) > local_bytes) throw std::length_error("a simulated thread's stack is full");
  locals_used_[thread] = at + rounded(bytes);
  return locals_[thread] + at;
}

void process::pop_local(unsigned thread, std::size_t bytes) {
  locals_used_[thread] -= rounded(bytes);
}

node_handle simulated::take_node() {
  return process::current().take_node(simulation::current().thread());
}
void simulated::give_node(node_handle h) {
  process::current().give_node(h);
}
node_handle simulated::borrow_node() {
  node_handle& kept = process::current().kept(simulation::current().thread());
  return kept != no_node ? std::exchange(kept, no_node) : take_node();
}
void simulated::keep_node(node_handle h) {
  node_handle& kept = process::current().kept(simulation::current().thread());
  if (kept == no_node)
    kept = h;
  else
    give_node(h);
}
queue_node<simulated>& simulated::node(node_handle h) {
  return process::current().node(h);
}
simulated_atomic<std::uint32_t>* simulated::table_of(table_kind k) {
  return process::current().table(k);
}
std::uint32_t simulated::salt(const void* lock) {
  return std::uint32_t(simulation::current().shared().offset_of(lock) >> 3);
}
wait_limits simulated::limits() {
  return process::current().limits;
}
void* simulated::push_local(std::size_t bytes) {
  return process::current().push_local(simulation::current().thread(), bytes);
}
void simulated::pop_local(std::size_t bytes) {
  process::current().pop_local(simulation::current().thread(), bytes);
}
void simulated::doorway(const void* lock) {
  if (observer* const o = process::current().watched_by)
    o->doorway(lock, simulation::current().thread(), simulation::current().now());
}
void simulated::admitted(const void* lock) {
  if (observer* const o = process::current().watched_by)
    o->admitted(lock, simulation::current().thread(), simulation::current().now());
}

}  // namespace usher::sim
