// What a simulated run does, step by step, for somebody who wants to read it: each access with what it cost and where the line
// came from, who is told, who gets in and leaves, who sleeps, wakes, and has which CPU. Whoever looks on costs no simulated time
// and changes nothing.
//
// An access stands at the time at which it takes effect, with what it took from beginning to end. So the log is in the order
// in which values were read and written, and a read may stand before a write that is done earlier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/machine.hpp"

namespace usher::sim {

class arena;
struct line;

class trace {
 public:
  enum class what : std::uint8_t {
    // around a lock of the program
    arrives,
    enters,
    leaves,
    // accesses
    reads,
    writes,    ///< others see it from now on
    buffers,   ///< a store that waits in the thread's store buffer: its `writes` comes later
    fetches,   ///< the line of such a store, before its turn to be written
    modifies,  ///< a read-modify-write; also one that changes nothing
    spins,     ///< begins to watch the word
    looks,     ///< at a word that it watches
    gives_up,  ///< has watched for as long as it wanted
    // threads and CPUs
    sleeps,
    naps,  ///< sleeps for a time, and nobody can wake it
    wakes,
    ready,  ///< it was woken, and wants a CPU
    gets_cpu,
    loses_cpu,
    moves,
    ends,
  };

  /// Who had the line before an access.
  struct supply {
    enum class from : std::uint8_t {
      none,
      own_copy,
      attempt,  ///< it is still here after a compare-and-swap that failed
      cache,
      memory
    } where = from::none;
    int writer = -1;        ///< the core that had written it and had it alone, else
    bool alone = false;     ///< of own_copy: nobody else can have had one
    unsigned here = 0;      ///< caches of the own complex, and …
    unsigned others = 0;    ///< … of other complexes that had it, the own one left out
    unsigned distance = 0;  ///< to the nearest
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
    bool goes_on = false;             ///< of looks: what the thread waits for is so
    unsigned cpu = 0;                 ///< of gets_cpu, loses_cpu, moves
    std::vector<unsigned> to_others;  ///< who watches the line that is written, who is woken

    /// In words, without the time and the thread.
    std::string text(const machine& m) const;
  };

  /// The first so many nanoseconds of the measured time.
  explicit trace(std::uint64_t ns) : ns_(ns) {}
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;

  /// In the order of time. After the run.
  const std::vector<entry>& entries() const { return entries_; }
  /// What each thread did when the traced time began.
  const std::vector<std::string>& at_first() const { return at_first_; }
  cycles begin() const { return begin_; }

  // ---- for who carries the run out ----

  void follow(const arena& a, const machine& m, cycles begin);
  void begins_with(std::vector<std::string> threads) { at_first_ = std::move(threads); }
  void over();

  // ---- from within the run ----

  /// A core is about to get the line, or to hit it. What is told of the access itself comes next.
  void at_line(const line& l, unsigned core, cycles time);
  void at_line_again(const line& l, cycles time);

  struct access {
    unsigned thread;
    const void* word;
    unsigned size;
    cycles took;
  };
  void reads(const access& a);
  /// What waits in its store buffer (none), or what its compare-and-swap has just found (attempt).
  void reads_forwarded(const access& a, cycles time, std::uint64_t value, supply::from where);
  /// The caller modifies the word when it has said so.
  void modifies(const access& a);
  /// Before the word has the value.
  void writes(const access& a, std::uint64_t value);
  void buffers(const access& a, cycles time, std::uint64_t value);
  /// A store's line is here, and an older store is not yet written.
  void fetches_ahead(const access& a);
  void looks(const access& a, bool goes_on);
  /// By the `wakes` that was noted last.
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
  cycles time_ = 0;  ///< of the access at a line
  const line* line_ = nullptr;
  supply from_;
  /// What was noted last, if it was wanted.
  static constexpr std::size_t nothing = ~std::size_t{0};
  std::size_t last_ = nothing;
  /// A word that is modified after it was noted: its value is seen when the next thing happens.
  std::size_t modified_ = nothing;
  const void* modified_word_ = nullptr;
  unsigned modified_size_ = 0;
};

}  // namespace usher::sim
