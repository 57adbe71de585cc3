// What the passes saw, before names: the message from the child of looker.hpp to the command.
//
// The attacker is the process that is looked at. The child copies its words and takes addresses from its mappings, so
// nothing in a sighting is trusted: the reader of the message checks every length, and indices are checked where they
// are used.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "watch/reader/look/identify.hpp"
#include "watch/reader/look/target_pages.hpp"
#include "watch/reader/look/target_stack.hpp"

namespace usher::reader {

struct sighted_thread {
  std::int32_t tid = 0;   ///< as this command sees it
  std::uint32_t own = 0;  ///< as the process sees it
  std::string name;
  char state = '?';
  bool has_entry = false;     ///< the kernel shows the system call
  bool is_confirmed = false;  ///< two readings, without a run between them, found the same call and words
  bool has_stack = false;
  kernel_entry entry{};
  std::uint32_t key = 0;  ///< in sighting::keys, + 1; 0: none
  double waited = 0;      ///< seconds, at least
  double cpu_seconds = 0;
  std::string kernel_place;  ///< wchan, where the call is not shown
  std::string file;          ///< of the descriptor that the call waits for; as /proc/PID/fd names it
  std::int64_t descriptor = -1;
  target_chain stack;
};

/// What threads wait for: a futex by its address, or a call by its descriptor and place.
struct sighted_key {
  kernel_entry entry{};  ///< of the first wait
  futex_words words{};
  bool has_words = false;
  std::uint64_t samples = 0;
  double waited = 0;
  std::uint32_t most = 0;  ///< waiting at once
  double unchanged = 0;    ///< seconds for which the futex word has been the same
  target_chain stack;
};

struct sighting {
  std::uint64_t passes = 0, threads_seen = 0, stacks_left_out = 0;
  double seconds = 0, cpu_seconds = 0;
  bool is_of_a_part = false, shows_no_calls = false, shows_no_memory = false, has_ended = false;
  bool is_inside = false;  ///< in another PID namespace than this command
  std::vector<sighted_thread> threads;
  std::vector<sighted_key> keys;
  std::vector<target_module> modules;
  std::vector<std::string> files;  ///< of code
};

// ---- as bytes ------------------------------------------------------------------------------------------------------------

/// Calls to(member) for each member of a struct.
template <class To>
void each_member(To&& to, target_chain& s) {
  to(s.pc), to(s.is_cut), to(s.certain);
}
template <class To>
void each_member(To&& to, target_module& s) {
  to(s.begin), to(s.end), to(s.bias), to(s.identity), to(s.tables), to(s.path);
}
template <class To>
void each_member(To&& to, sighted_thread& s) {
  to(s.tid), to(s.own), to(s.name), to(s.state), to(s.has_entry), to(s.is_confirmed), to(s.has_stack), to(s.entry);
  to(s.key), to(s.waited), to(s.cpu_seconds), to(s.kernel_place), to(s.file), to(s.descriptor), to(s.stack);
}
template <class To>
void each_member(To&& to, sighted_key& s) {
  to(s.entry), to(s.words), to(s.has_words), to(s.samples), to(s.waited), to(s.most), to(s.unchanged), to(s.stack);
}
template <class To>
void each_member(To&& to, sighting& s) {
  to(s.passes), to(s.threads_seen), to(s.stacks_left_out), to(s.seconds), to(s.cpu_seconds), to(s.is_of_a_part);
  to(s.shows_no_calls), to(s.shows_no_memory), to(s.has_ended), to(s.is_inside);
  to(s.threads), to(s.keys), to(s.modules), to(s.files);
}

class byte_writer {
 public:
  std::string bytes;

  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      auto n = static_cast<std::uint32_t>(value.size());
      (*this)(n);
      bytes += value;
    } else if constexpr (requires { value.size(); }) {
      auto n = static_cast<std::uint32_t>(value.size());
      (*this)(n);
      for (auto& one : value) (*this)(one);
    } else {
      each_member(*this, value);
    }
  }
};

/// Reads what byte_writer has written. `ok` is false if the bytes end too soon.
class byte_reader {
 public:
  explicit byte_reader(std::string_view bytes) : rest_(bytes) {}
  bool ok = true;

  bool is_at_end() const { return ok && rest_.empty(); }
  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      char byte = 0;
      (*this)(byte);
      value = byte != 0;
    } else if constexpr (std::is_trivially_copyable_v<T>) {
      if (rest_.size() < sizeof value) ok = false, rest_ = {};
      if (!ok) return;
      std::memcpy(&value, rest_.data(), sizeof value);
      rest_.remove_prefix(sizeof value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      std::uint32_t n = 0;
      (*this)(n);
      if (n > rest_.size()) ok = false, rest_ = {};
      value = rest_.substr(0, ok ? n : 0);
      rest_.remove_prefix(value.size());
    } else if constexpr (requires { value.size(); }) {
      std::uint32_t n = 0;
      (*this)(n);
      if (n > rest_.size()) ok = false;  // each element has a byte at least
      for (std::uint32_t i = 0; ok && i < n; i++) (*this)(value.emplace_back());
    } else {
      each_member(*this, value);
    }
  }

 private:
  std::string_view rest_;
};

}  // namespace usher::reader
