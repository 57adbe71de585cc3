// One client against one subject in many executions, and what is known of all subjects: main.cpp goes through them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "check/relacy_platform.hpp"
#include "check/scheduler.hpp"

namespace usher::check {

struct outcome {
  bool passed;
  std::string why;
  std::uint64_t executions;
};

struct options {
  std::string_view lock, client;
  unsigned threads = 0;
  std::uint64_t executions = 20000, seed = 1;
  bool history = true;
  bool weaken = false;
};

inline unsigned acquisitions = 2;  ///< of each thread, where a client has so many as one likes

/// A lock, or what else is checked, with the clients that drive it.
struct subject {
  std::string name;
  std::string bug;          ///< what is wrong with it, if it must fail
  std::string_view header;  ///< whose memory orders are its own; empty: all
  std::size_t size;
  std::vector<const char*> clients;
  std::function<outcome(unsigned client, unsigned threads, const options&)> explore;
};

constexpr std::size_t room_for_subject = 2048;

std::vector<subject> lock_subjects();
std::vector<subject> queue_subjects();
std::vector<subject> condition_subjects();
std::vector<subject> semaphore_subjects();

/// Passes relacy's history on as far as it is in order of time; relacy repeats it by thread. No memory of its
/// own, because relacy replaces the allocator.
class history_output : public std::streambuf {
  int overflow(int c) override {
    if (c == '\n' || length_ == sizeof line_) {
      const std::string_view line(line_, length_);
      if (line.starts_with("thread 0:")) over_ = true;
      if (!over_ && !line.empty()) std::printf("    %.*s\n", int(line.size()), line.data());
      length_ = 0;
    }
    if (c != '\n') line_[length_++] = char(c);
    return c;
  }
  char line_[1024];
  std::size_t length_ = 0;
  bool over_ = false;
};

template <class Suite, rl::thread_id_t Threads>
outcome explore(const options& o) {
  struct : std::streambuf {
    int overflow(int c) override { return c; }
  } nowhere;
  std::ostream silent(&nowhere);
  rl::test_params p;
  p.output_stream = p.progress_stream = &silent;
  p.execution_depth_limit = 20000;
  p.iteration_count = o.seed + o.executions - 1;
  p.initial_state = std::to_string(o.seed).c_str();
  rl::ostringstream where;
  using machine = scheduler<Threads>;
  if (rl::run_test<Suite, machine>(p, where, false) == rl::test_result_success) return {true, {}, o.executions};
  const outcome failed{false, rl::test_result_str(p.test_result), p.stop_iteration - o.seed + 1};
  if (o.history) {
    history_output printer;
    std::ostream out(&printer);
    rl::test_params again = p;
    again.output_stream = &out;
    again.collect_history = true;
    again.initial_state = where.str();
    rl::ostringstream unused;
    rl::run_test<Suite, machine>(again, unused, true);
  }
  return failed;
}

template <template <rl::thread_id_t> class Suite>
outcome explore(unsigned threads, const options& o) {
  switch (threads) {
    case 2:
      return explore<Suite<2>, 2>(o);
    case 3:
      return explore<Suite<3>, 3>(o);
    default:
      return explore<Suite<4>, 4>(o);
  }
}

[[noreturn]] inline void wrong(const char* why, place p = place::current()) {
  fail(why, rl::test_result_user_assert_failed, p);
}

}  // namespace usher::check
