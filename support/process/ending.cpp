#include "support/process/ending.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <cstring>

#include "support/text/utf8.hpp"
#include "support/text/words.hpp"

namespace usher::support {

std::string words_of(const ended& e) {
  switch (e.way) {
    case ended::how::exited:
      return fmt::format("exit status {}", e.status);
    case ended::how::signalled:
      return fmt::format("died of signal {} ({})", e.status, strsignal(e.status));
    case ended::how::timed_out:
      return "hung";
    case ended::how::not_started:
      return fmt::format("cannot be started: {}", std::strerror(e.status));
    case ended::how::interrupted:
      return "interrupted";
    case ended::how::stopped:
      if (e.status == SIGTTIN || e.status == SIGTTOU) return "stopped: it wants the terminal";
      return fmt::format("stopped by signal {} ({})", e.status, strsignal(e.status));
  }
  return "";
}

std::string last_words(const process& p, bool also_of_output) {
  std::string message = last_line(p.err().tail(most_read));
  if (message.empty() && also_of_output) message = last_line(p.out().tail(most_read));
  return printable(message, 120);
}

std::string with_words(const std::string& error, const std::string& message) {
  return message.empty() ? error : error + ": " + message;
}

}  // namespace usher::support
