// A log of a simulated run, step by step: each access with its cost and the supplier of the line, the watchers that it
// notifies, arrivals, admissions and releases, sleeping and waking, CPUs. Tracing costs no simulated time and does not
// change the run.
//
// An access is logged at the time at which it takes effect, with its duration from beginning to end. So the log is in
// the order in which values were read and written, not in the order in which accesses ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/sim/machine.hpp"

namespace usher::sim {

class arena;
struct line;

class trace {
 public:
  enum class what : std::uint8_t {
    // calls of lock() and unlock() by the program
    arrives,
    enters,
    leaves,
    // accesses
    reads,
    writes,    ///< from now on visible to other cores
    buffers,   ///< a store enters the thread's store buffer: its `writes` comes later
    fetches,   ///< the line of such a store arrives before the store's turn to be written
    modifies,  ///< a read-modify-write, even one that changes nothing
    spins,     ///< begins to watch the word
    polls,     ///< loads a word that it watches
    gives_up,  ///< its time limit for watching is over
    // threads and CPUs
    sleeps,
    naps,  ///< sleeps for a fixed time
    wakes,
    ready,  ///< was woken and needs a CPU
    gets_cpu,
    loses_cpu,
    moves,
    ends,
  };

  /// Which caches had a line before an access to it.
  struct supply {
    enum class from : std::uint8_t {
      none,
      own_copy,
      attempt,  ///< kept since the thread's compare-and-swap failed
      cache,
      home,  ///< no core has a copy since an atomic operation was executed at the home
      memory
    } where = from::none;
    int writer = -1;        ///< the core that owned the line; below 0: none, and the fields below count
    bool alone = false;     ///< for own_copy: no other cache had a copy
    unsigned here = 0;      ///< caches with a copy in the own complex, without the own one, and …
    unsigned others = 0;    ///< … in other complexes
    unsigned distance = 0;  ///< to the nearest of them, or to the home
  };

  struct entry {
    cycles time = 0;
    unsigned thread = 0;
    what does = what::reads;
    std::string place;  ///< of the word or lock: "lock+4", "array[508]", "T3's node.flag"
    std::uint64_t line = 0;
    std::uint64_t before = 0, after = 0;
    cycles took = 0;
    supply from;
    bool goes_on = false;             ///< for polls: the condition holds
    unsigned cpu = 0;                 ///< for gets_cpu, loses_cpu, moves
    std::vector<unsigned> to_others;  ///< the threads that watch the written line, or that are woken

    /// The step in words, without the time and the thread.
    std::string text(const machine& m) const;
  };

  /// Traces the first `ns` nanoseconds of the measured time.
  explicit trace(std::uint64_t ns) : ns_(ns) {}
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;

  /// The steps in order of time. To be called after the run.
  const std::vector<entry>& entries() const { return entries_; }
  /// What each thread did when the traced time began, in words.
  const std::vector<std::string>& at_first() const { return at_first_; }
  cycles begin() const { return begin_; }

  // ---- called by run_point() ----

  void follow(const arena& a, const machine& m, cycles begin);
  void begins_with(std::vector<std::string> threads) { at_first_ = std::move(threads); }
  void over();

  // ---- called during the run ----

  /// Records which caches have the line that a core is about to access. The next call on this object reports the access
  /// itself.
  void at_line(const line& l, unsigned core, cycles time);
  void at_line_again(const line& l, cycles time);

  struct access {
    unsigned thread;
    const void* word;
    unsigned size;
    cycles took;
  };
  void reads(const access& a);
  /// Records a load whose value is forwarded: from the store buffer (`none`), or from the thread's last
  /// compare-and-swap, which failed (`attempt`).
  void reads_forwarded(const access& a, cycles time, std::uint64_t value, supply::from where);
  /// Records a read-modify-write. The caller modifies the word after this call.
  void modifies(const access& a);
  /// Records a write. To be called before the word has the new value.
  void writes(const access& a, std::uint64_t value);
  void buffers(const access& a, cycles time, std::uint64_t value);
  /// Records that a store's line has arrived before the store's turn: an older store of the core is not written yet.
  void fetches_ahead(const access& a);
  void polls(const access& a, bool goes_on);
  /// Adds this thread to the threads that the last recorded `wakes` wakes.
  void wakes(unsigned other);

  void notes(what w, unsigned thread, cycles time, const void* word, cycles took = 0);
  void notes_cpu(what w, unsigned thread, cycles time, unsigned cpu, cycles took = 0);

 private:
  static supply supply_of(const line& l, unsigned core, const machine& m);
  bool wanted(cycles time) const { return time >= begin_ && time < end_; }
  entry* add(what w, unsigned thread, cycles time, const void* word);
  entry* add(what w, const access& a, cycles time);
  void complete();

  std::uint64_t ns_;
  const arena* arena_ = nullptr;
  const machine* machine_ = nullptr;
  cycles begin_ = 0, end_ = 0;
  std::vector<entry> entries_;
  std::vector<std::string> at_first_;
  cycles time_ = 0;  ///< of the access that at_line() announced
  const line* line_ = nullptr;
  supply from_;
  /// The index of the step that was recorded last; `nothing` if it is outside the traced time.
  static constexpr std::size_t nothing = ~std::size_t{0};
  std::size_t last_ = nothing;
  /// The index of a read-modify-write whose new value is not known yet: the next call on this object reads it from the
  /// word.
  std::size_t modified_ = nothing;
  const void* modified_word_ = nullptr;
  unsigned modified_size_ = 0;
};

}  // namespace usher::sim
