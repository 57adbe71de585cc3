// Builds recordings in memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lab/recordings/recording.hpp"

namespace usher::predict {

using contract::kind;
using contract::verb;

class made_recording {
 public:
  std::uint32_t add(kind kind, std::uint32_t site = 0, std::string name = {}) {
    recording::object o;
    o.kind = kind;
    o.site = site;
    o.name = std::move(name);
    made_.objects.push_back(std::move(o));
    return std::uint32_t(made_.objects.size() - 1);
  }
  std::uint32_t mutex(std::uint32_t site = 0) { return add(kind::mutex, site); }

  /// Begins the next window, with a length in ns. Threads and events are added to the last window.
  made_recording& window(std::uint64_t length = 1000000) {
    made_.windows.emplace_back().length = length;
    return *this;
  }
  /// Begins the next thread of the last window.
  made_recording& thread(std::uint32_t number, const std::string& role = "all") {
    made_.roles.push_back({number, role});
    made_.windows.back().streams.emplace_back().thread = number;
    return *this;
  }
  made_recording& event(verb what, std::uint32_t object = 0, std::uint64_t work = 0, std::uint64_t wait = 0,
                        std::uint32_t other = 0, std::uint64_t away = 0) {
    recording::event e;
    e.what = what;
    e.object = object;
    e.other = other;
    e.work = work;
    e.away = away;
    e.wait = wait;
    made_.windows.back().streams.back().events.push_back(e);
    return *this;
  }
  /// Adds `times` critical sections of a mutex, with `outside` ns of work before and `inside` ns of work in each.
  made_recording& sections(std::uint32_t mutex, unsigned times, std::uint64_t outside, std::uint64_t inside) {
    for (unsigned i = 0; i < times; i++) event(verb::lock, mutex, outside).event(verb::unlock, mutex, inside);
    return *this;
  }

  recording::recording& get() { return made_; }

 private:
  recording::recording made_;
};

}  // namespace usher::predict
