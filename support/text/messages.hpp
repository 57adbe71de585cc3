// Error messages and warnings of the command: one line each on stderr, never on stdout.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace usher::support {

/// Exit statuses of the command itself, the same as those of `env` and `timeout`. All others are those of the started program.
enum exit_status : int {
  bad_usage = 2,
  cannot_start = 125,  ///< a part of Usher is missing or broken
  not_executable = 126,
  not_found = 127,
};

/// Prints a message as one line by one call, so that the lines of several processes do not mix. Messages may contain names and paths
/// of other processes: control characters in them are shown by printable_line().
void print_message(std::string_view kind, const std::string& text);

template <class... Args>
void report_error(fmt::format_string<Args...> format, Args&&... args) {
  print_message("", fmt::format(format, std::forward<Args>(args)...));
}

/// Prints a sentence that is neither an error nor a warning. It is printed as by print_message(), but in several lines
/// on a narrow terminal.
void print_note(const std::string& sentence);

template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  print_message("warning: ", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace usher::support
