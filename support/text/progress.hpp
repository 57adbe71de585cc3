// A progress bar.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "support/process/process.hpp"
#include "support/text/utf8.hpp"

namespace usher::support {

/// Shows progress on standard error, if that is a terminal.
class progress {
 public:
  progress(std::size_t runs, bool quiet) : runs_(runs), shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
  ~progress() { clear(); }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void show(const std::string& what) const {
    if (!shown_) return;
    constexpr std::size_t width = 24;
    const std::size_t full = runs_ == 0 ? width : std::min(width, done_ * width / runs_);
    std::string left;
    if (done_ > 0) {
      const double passed = std::chrono::duration<double>(steady::now() - start_).count();
      const auto s = static_cast<long>(passed / static_cast<double>(done_) * static_cast<double>(runs_ - done_));
      left = s >= 60 ? fmt::format(", {} min {} s left", s / 60, s % 60) : fmt::format(", {} s left", s);
    }
    fmt::print(stderr, "\r\033[K[{}{}] {}/{} {}{}", std::string(full, '#'), std::string(width - full, '.'), done_,
               runs_, printable_line(what), left);
    std::fflush(stderr);
  }
  void one_done() { ++done_; }
  void more(std::size_t runs) { runs_ += runs; }
  void expect(std::size_t more) { runs_ = done_ + more; }
  void skip(std::size_t runs) { runs_ -= std::min(runs, runs_ - done_); }
  void clear() const {
    if (shown_) std::fputs("\r\033[K", stderr), std::fflush(stderr);
  }

 private:
  std::size_t runs_, done_ = 0;
  bool shown_;
  steady::time_point start_ = steady::now();
};

}  // namespace usher::support
