// The passes over the threads of a process, some twenty a second, and the closer looks between them. All of it runs in
// the child of looker.hpp.
//
//     a pass    reads `schedstat` of each thread, by a descriptor that stays open. A thread that has not run since the
//               last pass is in the same wait; of any other, `syscall` is read. Then the words of all futexes are read, many
//               in one call. No thread is stopped, none is attached to.
//     a look    reads for each sleeping thread its call, the words around its futex and its stack, and then the run
//               counts, calls and words once more: a relation counts as confirmed if nothing has changed.
//
// The attacker is the process: it has as many threads as it likes, which run, end and change their names meanwhile. A
// pass takes a limited CPU time: of more threads than can be read in it, a random part is.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "support/process/owned_descriptor.hpp"
#include "watch/reader/look/sighting.hpp"
#include "watch/reader/read/cpu_use.hpp"

namespace usher::reader {

class passes {
 public:
  /// `progress` counts the steps, for the observer. Without `reads_memory` nothing of the process's memory is read.
  passes(pid_t pid, std::chrono::nanoseconds period, std::uint32_t most_threads, bool reads_memory,
         std::atomic<std::uint64_t>& progress);

  void pass();
  sighting look();

 private:
  using clock = std::chrono::steady_clock;
  struct thread {
    std::uint32_t own = 0;
    support::owned_descriptor schedule, call;  ///< its files, which stay open
    bool has_schedule = false;
    std::uint64_t runs = 0, cpu = 0, first_cpu = 0;
    bool is_known = false;  ///< the fields below belong to the present sleep
    bool is_asleep = false;
    std::optional<kernel_entry> entry;
    clock::time_point since{};
    std::uint32_t key = 0;
    std::uint64_t listed = 0;
    char state = '?';
    // Of the closer look, valid while the thread has not run:
    bool has_stack = false;
    target_chain stack;
    std::string kernel_place, file;
  };
  struct key {
    sighted_key seen;
    std::uint64_t now_pass = 0;
    std::uint32_t now = 0;  ///< waiting in that pass
    std::uint32_t word = 0;
    bool has_word = false;
    clock::time_point word_since{};
  };
  using key_id = std::tuple<std::int64_t, std::uint64_t, std::uint64_t>;

  /// Of futexes, by key: the words, and whether any could be read.
  using first_words = std::unordered_map<std::uint32_t, std::pair<futex_words, bool>>;

  void confirm(sighting& s, const first_words& words);
  void add_modules(sighting& s);
  void list_threads();
  void give_back(const thread& t);
  std::optional<kernel_entry> read_call(pid_t tid, thread& t);
  bool read_schedule(pid_t tid, thread& t, std::uint64_t& runs, std::uint64_t& cpu);
  void look_at(pid_t tid, thread& t, clock::time_point now);
  void begin_sleep(pid_t tid, thread& t, clock::time_point now);
  void count(thread& t);
  std::uint32_t key_of(const kernel_entry& e);
  void read_words(clock::time_point now);
  void capture_new();
  futex_words words_at(std::uint64_t address, bool& any);
  void read_stacks(sighting& s, std::vector<std::pair<pid_t, thread*>>& asleep);
  sighted_thread sighted(pid_t tid, thread& t, clock::time_point now);
  std::uint64_t spent() const;
  void refresh_maps();

  pid_t pid_;
  std::chrono::nanoseconds period_;
  std::uint32_t most_threads_;
  std::atomic<std::uint64_t>& progress_;
  bool reads_memory_, is_inside_ = false, shows_no_calls_ = false, shows_no_memory_ = false, has_ended_ = false;
  std::minstd_rand random_;
  target_pages tables_, stack_pages_;
  target_maps maps_;
  target_unwinder unwinder_;
  std::unordered_map<pid_t, thread> threads_;
  std::vector<pid_t> order_;
  std::map<key_id, std::uint32_t> key_numbers_;
  std::vector<key> keys_;
  std::vector<std::uint32_t> new_keys_;
  std::uint64_t pass_ = 0, began_cpu_ = 0;
  double scale_ = 1;  ///< threads for each thread that this pass reads
  clock::time_point began_, last_, maps_read_{};
  double interval_ = 0;
  std::uint64_t links_ = 0;  ///< of the folder of threads
  bool has_calls_ = false;
  std::size_t kept_ = 0, most_kept_ = 0;  ///< descriptors
  bool is_of_a_part_ = false;
};

/// The descriptor that a system call waits for; −1: none.
std::int64_t descriptor_of(const kernel_entry& e);

}  // namespace usher::reader
