/// Makes a recording from the calls that threads wrote in windows: splits the time between calls into work and time off
/// the CPU, numbers the objects, drops objects that only one thread used, and groups threads into roles.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lab/recordings/raw_window.hpp"
#include "lab/recordings/recording.hpp"

namespace usher::recording {

struct assembling {
  double ns_a_tick = 1;
  /// The time that recording takes between the end of one call and the beginning of the next, in ns. 0: unknown.
  double between_calls_ns = 0;
  /// The time that recording takes between the beginning and the end of a call, in ns.
  double within_call_ns = 0;
  /// Returns the role that the user has given to threads of this name; nullopt: none. May be null.
  std::function<std::optional<std::string>(const std::string& thread)> role;
  /// Returns the name of the instruction that first used an object. Null: the recording gets no names.
  std::function<std::string(std::uint32_t process, std::uint64_t address)> site_name;
};

class assembler {
 public:
  explicit assembler(assembling how) : how_(std::move(how)) {}

  void add(const raw_window& w);
  std::size_t windows() const { return windows_.size(); }
  std::size_t events() const;
  /// Drops every second window. The remaining windows still cover the whole run evenly.
  void thin_out();
  /// Returns the recording. The caller must fill in `machine`.
  recording finish();

 private:
  struct key {
    contract::kind kind;
    std::uint32_t process;
    std::uint64_t address;
    bool operator==(const key&) const = default;
  };
  struct hash {
    std::size_t operator()(const key& k) const {
      return (k.address ^ std::uint64_t{k.process} << 48 ^ std::uint64_t(k.kind) << 40) * 0x9e3779b97f4a7c15u >> 7;
    }
  };
  struct found_object {
    contract::kind kind;
    std::uint32_t process;
    std::uint64_t address;
    std::uint64_t caller = 0;  // the first one seen; 0: none
  };
  class stream_maker;

  std::uint32_t object_of(contract::kind kind, std::uint32_t process, std::uint64_t address, std::uint64_t caller);
  event event_of(const raw_thread& t, const raw_call& c);
  std::uint64_t ns(std::uint64_t ticks) const;
  std::vector<bool> kept_objects() const;
  void name_sites(recording& r, const std::vector<std::uint32_t>& old_index) const;
  void find_roles(recording& r) const;

  assembling how_;
  std::optional<std::uint64_t> first_opened_;
  std::vector<window> windows_;  // events have indices in objects_
  std::vector<found_object> objects_;
  std::unordered_map<key, std::uint32_t, hash> index_;
  std::unordered_map<std::uint32_t, std::string> thread_names_;
  std::unordered_map<std::uint64_t, std::uint32_t> thread_of_self_;  // by process << 48 | self
};

}  // namespace usher::recording
