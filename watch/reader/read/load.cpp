#include "watch/reader/read/load.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "support/process/ending.hpp"
#include "support/text/messages.hpp"

namespace usher::reader {

load::load(const std::string& command, const support::signal_queue& signals)
    : words_(command), process_(words_.words(), {}, -1, &signals.mask_before()) {}

bool load::is_running() {
  if (ended_ || process_.running()) return !ended_;
  ended_ = true;
  const support::ended e = process_.wait(0);
  fmt::print("{}", process_.out().text());
  std::fflush(stdout);
  if (!support::went_well(e))
    support::report_error("stat: --until: {}",
                          support::with_words(support::words_of(e), support::last_words(process_, false)));
  return false;
}

void load::end_with_program() {
  if (is_running()) support::report_error("stat: the program ended before the load of --until, which is ended, too");
}

}  // namespace usher::reader
