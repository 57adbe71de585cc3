// A report as text: a table of at most 80 columns, followed by stacks and verdicts of the hottest rows.
#pragma once

#include <cstddef>
#include <string>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

struct text_options {
  std::size_t top = 10;  ///< number of rows
  bool details = false;  ///< all counts, stacks and objects of each row
};
std::string as_text(const report& r, const text_options& o);
/// A deadlock as one line, for stderr while the program hangs; as_text() also has the stacks.
std::string as_line(const deadlock& d);
std::string as_text(const deadlock& d);
/// The line and the remark for a reported deadlock whose threads have continued.
struct ended_circle {
  std::string line, remark;
};
ended_circle as_ended(const deadlock& d);

}  // namespace usher::reader
