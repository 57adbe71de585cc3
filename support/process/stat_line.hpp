// The line of a process or thread in /proc: /proc/PID/stat, /proc/PID/task/TID/stat (proc(5)).
//
// Attacker: the process, which chooses its name. The kernel writes the name between brackets as it is: with blanks,
// brackets and line ends. No field after the name has a bracket, so fields are counted from the last one.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "support/process/files.hpp"

namespace usher::support {

class stat_line {
 public:
  /// `text`: the content of the file. An empty or broken one has no fields.
  explicit stat_line(std::string text) : text_(std::move(text)) {
    const std::size_t begin = text_.find('('), end = text_.rfind(')');
    if (begin == std::string::npos || end == std::string::npos || begin > end) return;
    name_begin_ = begin + 1;
    name_end_ = end;
  }

  static stat_line of_process(pid_t pid) { return in("/proc/" + std::to_string(pid)); }
  static stat_line of_thread(pid_t pid, pid_t tid) {
    return in("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid));
  }

  std::string_view name() const { return std::string_view(text_).substr(name_begin_, name_end_ - name_begin_); }

  /// The letter of the third field; '?': there is no such field, since the process or thread has ended.
  char state() const {
    const std::string_view letter = field(3);
    return letter.empty() ? '?' : letter.front();
  }

  /// The number in a field, as proc(5) counts the fields; nullopt: no such field, or not a number from 0 to 2^64 - 1.
  std::optional<std::uint64_t> number(unsigned of_field) const {
    const std::string_view text = field(of_field);
    std::uint64_t n = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
    return n;
  }

 private:
  static stat_line in(const std::string& folder) { return stat_line(content_of(AT_FDCWD, folder + "/stat", 4096)); }

  /// Empty: there is no such field.
  std::string_view field(unsigned wanted) const {
    constexpr std::string_view blank = " \n";
    if (name_end_ == 0) return {};
    std::string_view rest = std::string_view(text_).substr(name_end_ + 1);
    for (unsigned at = 3;; at++) {
      const std::size_t begin = rest.find_first_not_of(blank);
      if (begin == std::string_view::npos) return {};
      rest.remove_prefix(begin);
      const std::size_t end = std::min(rest.find_first_of(blank), rest.size());
      if (at == wanted) return rest.substr(0, end);
      rest.remove_prefix(end);
    }
  }

  std::string text_;
  std::size_t name_begin_ = 0, name_end_ = 0;  ///< both 0: a broken line
};

}  // namespace usher::support
