// The parts of a simulated process besides its threads: queue nodes, the tables that locks share, the wait limits,
// and the observer of arrivals.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lab/sim/simulated_platform.hpp"

namespace usher::sim {

/// Receives events that only the lock's code can report. This costs no simulated time.
class observer {
 public:
  virtual ~observer() = default;
  virtual void doorway(const void* lock, unsigned thread, cycles now) = 0;
  /// Reports that the leader of a group (MCSg locks) must queue behind another group.
  virtual void leader_too_late(cycles now) = 0;
};

/// A queue node whose link and waiting flag are on different cache lines, 256 bytes apart.
struct spread_node {
  alignas(256) simulated_atomic<node_handle> next;
  alignas(256) simulated_atomic<std::uint32_t> flag;
  simulated_atomic<std::uint32_t> mark;
  simulated_plain<node_handle> newer, older;
};

class runtime {
 public:
  /// Allocates everything in the simulation's arena: nodes for this number of threads, each in a cache line of its own.
  runtime(simulation& s, unsigned threads);
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  static runtime& current() { return *current_; }

  node_handle take_node(unsigned thread);
  void give_node(node_handle h) { slots_[h - first_node].used = false; }
  node_handle& kept(unsigned thread) { return kept_[thread]; }
  queue_node<simulated>& node(node_handle h) { return *slots_[h - first_node].node; }
  /// Returns the node of this handle in the form of a spread_node, which is allocated at the first call.
  spread_node& spread(node_handle h) {
    spread_node*& n = spread_[h - first_node];
    return n != nullptr ? *n : *(n = make_spread(h));
  }

  simulated_atomic<std::uint32_t>* table(table_kind k) { return tables_[std::size_t(k)]; }

  /// The table of visible readers, or null.
  simulated_atomic<std::uint64_t>* visible_readers() { return visible_readers_; }
  /// Allocates the table of visible readers at the first call.
  void make_visible_readers();

  void* push_local(unsigned thread, std::size_t bytes);
  void pop_local(unsigned thread, std::size_t bytes);

  wait_limits limits{5555, 1000000, 50000};  ///< as the native platform's defaults
  observer* watched_by = nullptr;

 private:
  static constexpr unsigned nodes_a_thread = 16;
  static constexpr std::size_t table_words = 4096, local_bytes = 4096;

  struct slot {
    queue_node<simulated>* node;
    bool used;  // not a simulated word: natively it lies in the node's line, which the thread accesses anyway
  };

  static std::string name_in_node(std::size_t offset);
  spread_node* make_spread(node_handle h);

  static inline runtime* current_ = nullptr;

  arena& arena_;
  std::vector<slot> slots_;
  simulated_atomic<std::uint64_t>* visible_readers_ = nullptr;
  std::vector<spread_node*> spread_;
  std::vector<node_handle> kept_;
  std::array<simulated_atomic<std::uint32_t>*, 3> tables_{};
  std::vector<std::byte*> locals_;
  std::vector<std::size_t> locals_used_;
};

}  // namespace usher::sim
