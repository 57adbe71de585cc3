// Starts a run, and reports an execution that has failed.
#include "check/engine/explore.hpp"

#include <charconv>
#include <csignal>
#include <cstdio>

namespace usher::check {

// ---- the state of an execution ----------------------------------------------------------------------------------

void search::write(char* buffer, std::size_t size) const {
  int n = std::snprintf(buffer, size, "%llu", static_cast<unsigned long long>(number));
  if (!bounded) return;
  n += std::snprintf(buffer + n, size - std::size_t(n), ":%llu", static_cast<unsigned long long>(program));
  for (unsigned i = 0; i < made && std::size_t(n) < size; i++)
    if (choices[i].taken != 0)
      n += std::snprintf(buffer + n, size - std::size_t(n), ":%u.%u", i, unsigned(choices[i].taken));
}

void search::read(std::istream& s) {
  char c;
  if (!(s >> c) || c != ':') return;
  s >> program;
  replays = true;
  to_replay = 0;
  while (to_replay < replayed.size() && s >> c && c == ':') {
    difference d{};
    if (s >> d.at >> c >> d.taken) replayed[to_replay++] = d;
  }
}

// ---- runs -------------------------------------------------------------------------------------------------------

namespace {

std::string_view plain(rl::test_result_e r) {
  switch (r) {
    case rl::test_result_deadlock:
      return "deadlock: every thread waits, and no thread is left to wake them";
    case rl::test_result_livelock:
      return "livelock: no end in sight";
    case rl::test_result_data_race:
      return "data race: an access that is not ordered after a write by another thread";
    case rl::test_result_unitialized_access:
      return "a word is read that has no value yet";
    default:
      return rl::test_result_str(r);
  }
}

/// Called after a crash or when the time limit is over. Prints the state of the present execution.
void report_end(int signal) {
  char state[2048], text[2100];
  the_search.write(state, sizeof state);
  const int n = std::snprintf(text, sizeof text, "\nended\t%d\t%s\n", signal, state);
  if (write(STDOUT_FILENO, text, std::size_t(n)) < 0) _exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void report_ends() {
  static char stack[1 << 16];  // the crash may be an overflow of a fiber's own stack
  const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = report_end;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM}) sigaction(s, &action, nullptr);
}

void prepare(rl::test_params& p, const options& o) {
  p.execution_depth_limit = 20000;
  the_search.fair = o.fair;
  the_search.bounded = o.bounded && !o.fair;
  the_search.differences = o.differences;
  the_search.programs = o.programs;
  the_search.made = the_search.known = 0;
  the_search.programs_done = 0;
  the_search.replays = false;
  last_reason = nullptr;
  if (the_search.bounded) {
    the_search.program = o.seed;
    p.iteration_count = o.executions;
    p.initial_state = "1";
  } else {
    p.iteration_count = o.seed + o.executions - 1;
    p.initial_state = std::to_string(o.seed).c_str();
  }
}

void prepare_for_history(rl::test_params& p, const options& o, const std::string& state) {
  p.collect_history = o.history;
  p.output_history = o.at_once;
  p.initial_state = state.c_str();
  std::uint64_t number = 0;
  std::from_chars(state.data(), state.data() + state.size(), number);
  p.iteration_count = number;
  constructed.count = 0;
  last_reason = nullptr;
}

outcome failure(const rl::test_params& p, const options& o) {
  outcome r;
  r.passed = false;
  r.why = last_reason != nullptr ? last_reason : plain(p.test_result);
  r.executions = the_search.bounded ? p.stop_iteration : p.stop_iteration - o.seed + 1;
  r.programs = the_search.programs_done;
  char state[2048];
  the_search.write(state, sizeof state);
  r.state = state;
  return r;
}

// ---- histories --------------------------------------------------------------------------------------------------

namespace {

/// A number in a line of a history, printed in decimal below 65536 and otherwise in hexadecimal.
struct number {
  char text[24];
  explicit number(std::string_view s) {
    unsigned long long v = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (error != std::errc() || end != s.data() + s.size() || v < 65536)
      std::snprintf(text, sizeof text, "%.*s", int(s.size()), s.data());
    else
      std::snprintf(text, sizeof text, "0x%llx", v);
  }
};

/// Returns the text after "key=", up to the next comma or blank.
std::string_view after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find_first_of(", )"));
}

/// Translates an event of relacy or a note() into the words of the report.
void say(std::string_view event, char* text, std::size_t size) {
  const auto copy = [&](std::string_view s) { std::snprintf(text, size, "%.*s", int(s.size()), s.data()); };
  if (event == "[THREAD FINISHED]") return copy("ends");
  if (event.starts_with("yield")) return copy("pauses");
  if (event.starts_with("unblocking thread ")) {
    std::snprintf(text, size, "thread %.*s may go on", int(event.size() - 18), event.data() + 18);
    return;
  }
  if (!event.starts_with("<")) return copy(event);
  const std::size_t end = event.find('>');
  unsigned long long address = 0;
  const char* digits = event.data() + (event.starts_with("<0x") ? 3 : 1);
  std::from_chars(digits, event.data() + end, address, 16);
  const std::string_view what = event.substr(end + 2);
  char name[64];
  execution::current().describe(reinterpret_cast<const void*>(address), name, sizeof name);
  const std::string_view order = after(what, "order=");
  const auto print = [&](const char* format, auto... args) {
    int n = std::snprintf(text, size, format, args...);
    if (!order.empty() && n > 0 && std::size_t(n) < size)
      std::snprintf(text + n, size - std::size_t(n), " (%.*s)", int(order.size()), order.data());
  };
  if (what.starts_with("atomic load") || what.starts_with("load"))
    print("reads %s: %s%s", name, number(after(what, "value=")).text,
          what.find("[NOT CURRENT]") != std::string_view::npos ? ", old" : "");
  else if (what.starts_with("atomic store") || what.starts_with("store"))
    print("%s := %s", name, number(after(what, "value=")).text);
  else if (what.starts_with("CAS succ"))
    print("%s: %s → %s", name, number(after(what, "orig=")).text, number(after(what, "xchg=")).text);
  else if (what.starts_with("CAS fail [SPURIOUSLY]"))
    print("%s: %s, fails spuriously", name, number(after(what, "orig=")).text);
  else if (what.starts_with("CAS fail"))
    print("%s is %s, not %s", name, number(after(what, "orig=")).text, number(after(what, "cmp=")).text);
  else if (what.find("prev=") != std::string_view::npos)
    print("%s: %s → %s", name, number(after(what, "prev=")).text, number(after(what, "new=")).text);
  else if (what.starts_with("sleeps"))
    print("sleeps on %s", name);
  else if (what.starts_with("wakes"))
    print("wakes sleepers on %s", name);
  else if (what.starts_with("forks"))
    copy("forks: the others vanish");
  else if (what.starts_with("waits until"))
    print("waits for a write to %s", name);
  else
    std::snprintf(text, size, "%.*s (%s)", int(std::min(what.find(", mask="), what.size())), what.data(), name);
}

}  // namespace

int history_output::overflow(int c) {
  if (c == '\n' || length_ == sizeof line_) {
    show(std::string_view(line_, length_));
    length_ = 0;
  }
  if (c != '\n') line_[length_++] = char(c);
  return c;
}

void history_output::show(std::string_view line) {
  if (line.starts_with("thread 0:")) over_ = true;
  if (over_ || !line.starts_with("[")) return;
  // The line's form is "[step] thread: event, in function, file(line)".
  const std::size_t thread_at = line.find("] ") + 2, event_at = line.find(": ", thread_at) + 2;
  const std::size_t place_at = line.rfind(", in ");
  if (place_at == std::string_view::npos || event_at > place_at) return;
  const std::string_view event = line.substr(event_at, place_at - event_at);
  if (event == "[BEFORE END]") within_ = true;
  if (event == "[AFTER BEGIN]") within_ = false;
  const bool reason = event.find(" (") != std::string_view::npos && !event.starts_with("<");
  if ((!within_ && !reason) || event.starts_with("[BEFORE") || event.starts_with("blocking current")) return;
  std::string_view at = line.substr(place_at + 5);
  at.remove_prefix(std::min(at.find(", ") + 2, at.size()));
  const std::size_t paren = at.rfind('(');
  unsigned line_number = 0, thread = 0;
  std::from_chars(at.data() + paren + 1, at.data() + at.size(), line_number);
  std::from_chars(line.data() + thread_at, line.data() + event_at, thread);
  std::string_view file = at.substr(0, paren);
  if (file.find("/relacy/") != std::string_view::npos) file = "";
  char text[512];
  if (reason)
    std::snprintf(text, sizeof text, "%.*s", int(event.size()), event.data());
  else
    say(event, text, sizeof text);
  show_step(thread, text, file, line_number);
}

void history_output::show_step(unsigned thread, std::string_view what, std::string_view file, unsigned line) {
  if (lines_) {
    std::printf("step\t%u\t%.*s\t%u\t%.*s\n", thread, int(file.size()), file.data(), line, int(what.size()),
                what.data());
    std::fflush(stdout);
    return;
  }
  const std::string_view name = file.substr(file.rfind('/') + 1);
  std::printf("    %*s%u  %.*s", int(thread) * 4, "", thread, int(what.size()), what.data());
  if (!name.empty()) std::printf("   %.*s:%u", int(name.size()), name.data(), line);
  std::printf("\n");
}

}  // namespace usher::check
