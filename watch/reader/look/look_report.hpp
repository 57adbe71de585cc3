// What `usher top` says about a process that it looked at from outside: the model that top_text.hpp and top_json.hpp
// write, and that a screen may draw. look_assembly.hpp makes it from the sightings of the passes and from names.
//
// "At least" is meant wherever a time is: a wait is known from the first pass that saw it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// The kind of object that a thread waits for.
enum class awaited : std::uint8_t {
  mutex,
  condition,
  semaphore,
  rwlock,
  barrier,
  join,
  once,
  internal_lock,  ///< of the C library: malloc's, standard I/O's
  futex,          ///< an object that is not known more exactly
  file_lock,
  call,     ///< another system call
  unknown,  ///< the kernel shows neither the call nor its place
};
/// "mutex", "condition"; as in JSON.
const char* name_of(awaited what);

/// The side of a read-write lock that a waiter wants.
enum class wanted_side : std::uint8_t { none, reading, writing };

/// How deep a stack can be trusted.
struct looked_stack {
  stack where;
  /// From this frame on the stack was found by frame pointers or return addresses on it, not by unwind tables.
  std::optional<std::uint32_t> uncertain_from;
};

/// The first frame outside of the C and C++ libraries and Usher's; without one, of stack::place(). Null: no frames.
const frame* own_place(const stack& s);

struct looked_waiter {
  shown_id tid;
  std::string thread;  ///< its name
  wanted_side side = wanted_side::none;
  double waited = 0;            ///< seconds, at least
  bool has_time_limit = false;  ///< the call ends by itself
  bool is_confirmed = false;    ///< a second reading found the same call and the same word, and the thread had not run
  looked_stack where;
};

/// The thread that a word names as the holder.
struct looked_holder {
  shown_id tid;
  shown_id pid;        ///< of another process; 0: of this one
  std::string thread;  ///< its name
  char state = '?';    ///< as in /proc/PID/stat
  bool is_running = false;
  std::string does;  ///< "runs", "waits for mutex b", "in read of a pipe"
  bool is_confirmed = false;
  double waited = 0;  ///< seconds for which it has been asleep itself
  looked_stack where;
};

/// An object, or a system call with its descriptor, for which threads wait.
struct looked_wait {
  awaited what = awaited::unknown;
  std::string library;  ///< "glibc", "musl", "Rust std", "Go"; empty: not known
  std::string kind;  ///< "recursive", "robust", "priority-inheriting"; of a descriptor: "pipe"; empty: the normal one
  std::string name;  ///< "counter_lock", "read of a pipe (descriptor 5)"
  std::uint64_t address = 0;
  std::string module;  ///< of a static object, or of the caller; empty: not known
  std::uint64_t offset = 0;
  std::string known_by;  ///< what the verdict is based on
  std::string call;      ///< the system call
  std::int64_t descriptor = -1;
  std::string seen;             ///< the words, for a reader who doubts: "word 2, owner 7, users 1"
  std::optional<bool> is_free;  ///< the word says that nobody holds it
  double unchanged = 0;         ///< seconds, at least, for which the word has not changed
  std::optional<looked_holder> holder;
  std::vector<looked_waiter> waiters;  ///< now; the longest wait first
  std::uint64_t samples = 0;           ///< times that a thread was found waiting, in all passes
  double waited = 0;                   ///< seconds that threads waited, estimated from the samples
  std::uint32_t most_waiting = 0;      ///< at once
  stack place;                         ///< the caller of the wait that was seen most often
};

/// One thread of the process.
struct looked_thread {
  shown_id tid;
  std::string name;
  char state = '?';
  std::string does;                   ///< "runs", "waits for mutex a"
  std::optional<std::uint32_t> wait;  ///< index in look_report::waits
  double waited = 0;
  double cpu_seconds = 0;  ///< while it was looked at
};

struct chain_link {
  shown_id tid;
  std::string thread, does;
  std::optional<std::uint32_t> wait;  ///< index in look_report::waits
  std::uint64_t address = 0;
};

/// Threads of which each waits for the next.
struct looked_chain {
  bool is_circle = false;
  double seconds = 0;  ///< for which all of its links have been seen
  std::vector<chain_link> links;
};

struct looked_finding {
  std::string what;  ///< "circle", "lost_wake_up", "holder_ended", "chain"
  std::string text;
  double seconds = 0;
  std::vector<shown_id> threads;
  std::vector<std::uint32_t> waits;  ///< indices in look_report::waits
};

struct doing {
  std::string does;
  std::uint64_t threads = 0;
};

struct look_report {
  std::string usher;
  std::vector<std::string> command;
  std::string process;  ///< its name
  shown_id pid;
  std::string looked;    ///< "from outside", "recorded"
  std::string lock;      ///< under Usher: the lock's name
  std::string libc;      ///< "glibc 2.36"; empty: not known
  std::string date;      ///< ISO 8601
  std::string machine;   ///< "Linux 6.1.0, 2 CPUs"
  double seconds = 0;    ///< of looking
  double period = 0.05;  ///< of passes
  std::uint64_t passes = 0;
  std::uint64_t threads_seen = 0;
  bool is_of_a_part = false;  ///< passes looked at a random part of the threads
  double cost = 0;            ///< CPU seconds of the passes
  std::uint64_t stacks_left_out = 0;
  std::vector<looked_finding> findings;
  std::vector<looked_chain> chains;
  std::vector<looked_wait> waits;
  std::vector<looked_thread> threads;
  std::vector<doing> doings;
  std::vector<std::string> remarks;
};

}  // namespace usher::reader
