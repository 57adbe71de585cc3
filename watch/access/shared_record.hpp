// The observer's side of a record's file: the live tables, and private copies of them.
//
// The attacker is the recorded program: it may forge the whole content of the file, truncate it, or pass a descriptor
// of something else. Only a memory file that is sealed against shrinking is mapped, because an access beyond the end of
// a file raises SIGBUS.
#pragma once

#include <cstdint>
#include <memory>

#include "support/process/owned_descriptor.hpp"
#include "watch/contract/format.hpp"
#include "watch/contract/live.hpp"

namespace usher::access {

/// Memory that the destructor unmaps.
class mapped_memory {
 public:
  /// Private memory of zeros, whose pages are allocated when they are written.
  static mapped_memory zeros(std::uint64_t size);
  /// A shared mapping of a file's pages.
  static mapped_memory of_file(int descriptor, std::uint64_t size);
  mapped_memory(mapped_memory&& other) noexcept : begin_(other.begin_), size_(other.size_) { other.begin_ = nullptr; }
  mapped_memory& operator=(mapped_memory&&) = delete;
  ~mapped_memory();
  void* begin() const { return begin_; }
  std::uint64_t size() const { return size_; }

 private:
  mapped_memory(void* begin, std::uint64_t size) : begin_(begin), size_(size) {}
  void* begin_;
  std::uint64_t size_;
};

/// A copy of a record that no other process can change. Counts are within the capacities, texts are terminated, and
/// call chains have a limited length; indices are unchecked. A mutex's acquisitions include those from the threads'
/// slots.
class record_copy {
 public:
  /// Copies the written parts of the file, without its holes. The capacities must pass is_possible(). Throws
  /// std::runtime_error.
  record_copy(int descriptor, const contract::capacities& room);

  contract::view view() const { return {memory_.begin(), room_}; }

 private:
  contract::capacities room_;
  mapped_memory memory_;
};

/// Limits the values as described at record_copy. Also for a record from another source than a file.
void make_safe(const contract::view& copy);
/// Adds the acquisitions in the threads' slots to the counts of the mutexes.
void add_thread_counts(const contract::view& copy);

/// A record's mapped file.
class shared_record {
 public:
  /// Makes a memory file whose header has only the capacities. Throws std::runtime_error.
  static shared_record made(const contract::capacities& room);
  /// Takes over a file that the recorded program has made or passes on; always closes the descriptor at the end. A
  /// header of zeros gets these capacities. Throws std::runtime_error with one line that says why the file is refused.
  static shared_record taken(int descriptor, const contract::capacities& if_empty);

  int descriptor() const { return descriptor_.get(); }
  std::uint64_t size() const { return memory_.size(); }
  contract::live live() const { return contract::view(memory_.begin(), room_); }
  bool was_empty() const { return was_empty_; }          ///< the header was all zeros
  bool ticks_are_tsc() const { return ticks_are_tsc_; }  ///< as in that header
  record_copy copy() const { return {descriptor(), room_}; }

 private:
  shared_record(support::owned_descriptor descriptor, const contract::capacities& room, bool was_empty,
                bool ticks_are_tsc);

  support::owned_descriptor descriptor_;
  contract::capacities room_;
  bool was_empty_, ticks_are_tsc_;
  mapped_memory memory_;
};

}  // namespace usher::access
