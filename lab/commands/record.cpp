// usher record: writes down what a program's threads do with their locks in some windows of time, for `usher predict`.
//
// The program's threads write their calls into a file in memory while a window is open (watch/contract/stream_format.hpp).
// This process opens and closes windows, checks and converts what was written, and writes the recording at the end.
#include <re2/re2.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gnu/libc-version.h>

#include "lab/commands/bench_commands.hpp"
#include "lab/commands/call_cost.hpp"
#include "lab/recordings/assemble.hpp"
#include "lab/recordings/file.hpp"
#include "lab/recordings/stream_file.hpp"
#include "lab/recordings/window_trace.hpp"
#include "support/process/files.hpp"
#include "support/process/foreground.hpp"
#include "support/process/launch.hpp"
#include "support/process/preload.hpp"
#include "support/process/running_process.hpp"
#include "support/process/this_computer.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "support/text/words.hpp"

namespace usher::lab {
namespace {

using steady_clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* c_library = "pthread";
constexpr std::chrono::seconds until_killed{10};      // after SIGTERM
constexpr std::size_t most_kept_events = 2'500'000;   // some 12 MB in the file. Chosen
constexpr milliseconds first_window_after{50};        // so that short programs have one. Chosen
constexpr std::chrono::microseconds least_look{500};  // between looks whether a window's room is used. Chosen
constexpr double nearly_all = 0.97;

struct record_command_options {
  CLI::Option* lock_given = nullptr;
  std::string lock;
  std::vector<std::string> threads_are;
  unsigned windows = 20;
  unsigned length_ms = 50, every_ms = 500;
  std::size_t events = 100'000;
  double duration = 0;
  bool names = false;
  bool measure_calls = false;
  std::string output = "usher.recording", trace;
};

struct role_rule {
  std::string role;
  std::unique_ptr<RE2> threads;
};

/// nullopt after an error message.
std::optional<std::vector<role_rule>> rules_of(const std::vector<std::string>& texts) {
  std::vector<role_rule> rules;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      support::report_error("record: --threads-are '{}' is not ROLE=REGEX", text);
      return std::nullopt;
    }
    auto regex = std::make_unique<RE2>(text.substr(equals + 1), RE2::Quiet);
    if (!regex->ok()) {
      support::report_error("record: --threads-are '{}': {}", text, regex->error());
      return std::nullopt;
    }
    rules.push_back({text.substr(0, equals), std::move(regex)});
  }
  return rules;
}

/// The modules of processes, by which the instructions get names. Read while the processes live.
class module_names {
 public:
  void look_at(std::uint32_t process, pid_t pid) {
    constexpr std::size_t most_processes = 64, longest = 1 << 20;
    if (modules_.size() >= most_processes && !modules_.contains(process)) return;
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    std::vector<module> found;
    std::size_t read = 0;
    for (std::string line; read < longest && std::getline(maps, line); read += line.size()) {
      const std::optional<support::mapping> m = support::read_mapping(line);
      if (!m || !m->is_of_file) continue;
      // The process chooses the names of its files.
      const std::string name = recording::plain_name(std::string(support::file_name(m->path)));
      const bool continues = !found.empty() && found.back().name == name;
      found.push_back({m->range, continues ? found.back().base : m->range.begin, name});
    }
    if (!found.empty()) modules_[process] = std::move(found);
  }
  std::string name_of(std::uint32_t process, std::uint64_t address) const {
    const auto at = modules_.find(process);
    if (at == modules_.end()) return "";
    for (const module& m : at->second)
      if (address >= m.range.begin && address < m.range.end) return fmt::format("{}+{:#x}", m.name, address - m.base);
    return "";
  }

 private:
  struct module {
    support::address_range range{};
    std::uint64_t base = 0;
    std::string name;
  };
  std::map<std::uint32_t, std::vector<module>> modules_;
};

/// Decides when windows are open, and collects them.
class windows {
 public:
  windows(const record_command_options& o, recording::stream_file& file, recording::assembler& to, module_names& names)
      : options_(o),
        file_(file),
        to_(to),
        names_(names),
        trace_([&names](std::uint32_t process, std::uint64_t at) { return names.name_of(process, at); }),
        every_(o.every_ms),
        length_(milliseconds(o.length_ms)) {}

  /// Until the next step.
  std::chrono::nanoseconds left() const { return std::min(next_, look_again_) - steady_clock::now(); }
  /// Opens or closes a window if it is time to.
  void step() {
    if (is_open_ && steady_clock::now() >= look_again_) look();
    if (steady_clock::now() < next_) return;
    if (is_open_) {
      close();
    } else {
      file_.open_window();
      is_open_ = true;
      opened_ = steady_clock::now();
      next_ = opened_ + length_;
      look_again_ = opened_ + least_look;
    }
  }
  void finish() {
    if (is_open_) close();
  }
  unsigned dropped() const { return dropped_; }
  std::uint64_t early() const { return early_; }
  std::uint64_t calls() const { return calls_; }
  const recording::window_trace& trace() const { return trace_; }

 private:
  /// Ends the window when its room is used, since the threads' states must be read then. A look costs the program a switch, so there
  /// are few: each halves the time that seems to be left.
  void look() {
    const auto now = steady_clock::now();
    const double used = file_.used();
    if (!file_.is_open() || used >= nearly_all) {
      next_ = now;
      return;
    }
    const auto left = std::chrono::duration_cast<steady_clock::duration>((now - opened_) *
                                                                         ((nearly_all - used) / std::max(used, 1e-6)));
    look_again_ = now + left < next_ ? now + std::max<steady_clock::duration>(left / 2, least_look) : next_;
  }
  void close() {
    is_open_ = false;
    look_again_ = steady_clock::time_point::max();
    const bool was_full = file_.used() >= nearly_all;
    const auto lasted = steady_clock::now() - opened_;
    const std::optional<recording::raw_window> w = file_.close_window();
    // The distance varies, so that windows do not follow a period of the program.
    std::uniform_real_distribution<double> around(0.75, 1.25);
    next_ = std::max(steady_clock::now(),
                     opened_ + std::chrono::duration_cast<steady_clock::duration>(every_ * around(random_)));
    if (!w) {
      dropped_++;
      return;
    }
    if (w->lost != 0 || was_full) {
      early_++;
      // Else windows of busy times would be shorter than others, and the recording would have too little of them.
      length_ = std::clamp<steady_clock::duration>(lasted * 4 / 5, milliseconds(1), length_);
    }
    for (const recording::raw_thread& t : w->threads) calls_ += t.calls.size() + (t.sleeping ? 1 : 0);
    if (options_.names || !options_.trace.empty())
      for (const recording::raw_thread& t : w->threads)
        if (t.is == recording::raw_thread::life::lives) names_.look_at(t.process, t.seen_pid);
    if (!options_.trace.empty()) {
      const double scale = file_.clock().seconds_a_tick();
      trace_.add(*w, [&](std::uint64_t ticks) { return file_.clock().ns_at(ticks, scale); });
    }
    to_.add(*w);
    if (to_.windows() >= 2 * std::size_t{options_.windows} || to_.events() > most_kept_events) {
      to_.thin_out();
      every_ *= 2;
    }
  }

  const record_command_options& options_;
  recording::stream_file& file_;
  recording::assembler& to_;
  module_names& names_;
  recording::window_trace trace_;
  std::chrono::duration<double, std::milli> every_;
  steady_clock::duration length_;
  bool is_open_ = false;
  steady_clock::time_point opened_{}, next_ = steady_clock::now() + first_window_after;
  steady_clock::time_point look_again_ = steady_clock::time_point::max();
  std::minstd_rand random_;
  unsigned dropped_ = 0;
  std::uint64_t early_ = 0, calls_ = 0;
};

/// Waits for the program's end, and records. Returns the exit status.
int await_end(support::foreground_program& program, windows& w, const support::signal_queue& signals, double duration) {
  std::optional<steady_clock::time_point> limit, kill_at;
  if (duration > 0)
    limit = steady_clock::now() +
            std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(duration));
  bool killed = false;
  while (!program.has_ended()) {
    const auto now = steady_clock::now();
    if (!kill_at && limit && now >= *limit) {
      w.finish();
      program.send(SIGTERM);
      program.send(SIGCONT);  // a stopped program would not receive SIGTERM
      kill_at = now + until_killed;
    }
    if (kill_at && !killed && now >= *kill_at) {
      program.send(SIGKILL);
      killed = true;
    }
    if (!kill_at) w.step();
    std::chrono::nanoseconds left = kill_at ? std::chrono::nanoseconds(milliseconds(50)) : w.left();
    if (limit && !kill_at) left = std::min<std::chrono::nanoseconds>(left, *limit - steady_clock::now());
    const auto signal = signals.next(std::max<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0)));
    if (!signal) continue;
    const bool is_ours_alone = signal->si_signo == SIGTERM || (signal->si_signo == SIGHUP && signal->si_code <= 0);
    if (is_ours_alone) program.send(signal->si_signo);
  }
  w.finish();
  const bool by_us = kill_at && (program.died_of() == SIGTERM || (killed && program.died_of() == SIGKILL));
  return by_us ? 0 : program.exit_status();
}

std::string with_unit(double v) {
  return v >= 1e6   ? fmt::format("{:.1f} M", v / 1e6)
         : v >= 1e4 ? fmt::format("{:.0f} k", v / 1e3)
                    : fmt::format("{:.0f}", v);
}

/// What was recorded, in lines on standard error.
void report(const recording::recording& r, const recording::stream_file& file, const windows& w, std::size_t bytes,
            const std::string& output) {
  std::uint64_t length = 0, events = 0;
  for (const recording::window& x : r.windows) {
    length += x.length;
    for (const recording::stream& s : x.streams) events += s.events.size();
  }
  std::vector<std::string> roles;
  for (const recording::thread_role& t : r.roles) roles.push_back(t.role);
  std::sort(roles.begin(), roles.end());
  const auto different = std::unique(roles.begin(), roles.end()) - roles.begin();
  fmt::print(
      stderr,
      "usher record: {} windows, {:.0f} ms in all, {} events; {} threads in {} roles, {} shared objects; {}: {} B\n",
      r.windows.size(), static_cast<double>(length) * 1e-6, with_unit(static_cast<double>(events)), r.roles.size(),
      different, r.objects.size(), output, with_unit(static_cast<double>(bytes)));
  if (w.early() != 0)
    fmt::print(stderr, "usher record: {} windows ended early, when their room was used: --events has more\n",
               w.early());
  if (w.dropped() != 0) support::warn("{} windows were dropped: a thread was stopped while it wrote", w.dropped());
  if (file.without_slot() != 0)
    support::warn("{} threads were not recorded: there is room for 1,024 at a time", file.without_slot());
  if (w.calls() == 0)
    support::warn(
        "no call was recorded: the programs that could open the record made none in its windows. A container that "
        "closes descriptors keeps its programs from opening it: run usher record inside");
  if (file.hidden() != 0)
    support::warn(
        "the CPU time of {} threads is not known, since /proc does not show their processes: run usher record as "
        "root, or inside their container",
        file.hidden());
  if (file.filtered() != 0)
    support::warn(
        "the CPU clocks of {} threads were not read, since a system-call filter of their processes may forbid it: "
        "their sleep between calls counts as work. Record the program without its filter",
        file.filtered());
  if (file.is_partial())
    support::warn("read-write locks, barriers and joins were not recorded: a program ran without libusher-stat.so");
  if (file.has_unrecorded()) support::warn("spin locks were not recorded: their time counts as work");
}

/// `rules` and `names` must outlive the assembler.
recording::assembling assembling_of(const record_command_options& o, const std::vector<role_rule>& rules,
                                    const module_names& names, const lab::call_cost& cost, double ns_a_tick) {
  recording::assembling how;
  how.ns_a_tick = ns_a_tick;
  how.between_calls_ns = cost.between_calls_ns;
  how.within_call_ns = std::max(0.0, cost.call_ns - cost.between_calls_ns);
  if (!rules.empty())
    how.role = [&rules](const std::string& thread) -> std::optional<std::string> {
      for (const role_rule& rule : rules)
        if (RE2::PartialMatch(thread, *rule.threads)) return rule.role;
      return std::nullopt;
    };
  if (o.names)
    how.site_name = [&names](std::uint32_t process, std::uint64_t address) { return names.name_of(process, address); };
  return how;
}

recording::recorded_on this_machine(const lock_table& lock, const lab::call_cost& cost,
                                    const lab::hand_over_cost& hand_over) {
  return {support::usable_cpus(),
          support::cpu_name(),
          std::string("glibc ") + gnu_get_libc_version(),
          lock.name,
          cost.call_ns,
          cost.between_calls_ns,
          hand_over.transfer_ns,
          hand_over.wake_ns};
}

struct record_outputs {
  support::output_file recording, trace;
};

/// Writes the trace. A line says if it is not of all windows.
bool write_trace(const record_command_options& o, const windows& w, support::output_file& file) {
  access::timeline all = w.trace().all();
  all.at = access::timeline::clocks::now();
  if (w.trace().left_out() != 0)
    support::warn("{} has the first {} windows: there was no room for the waits of the later {}", o.trace,
                  all.recorded.size(), w.trace().left_out());
  return file.write(access::as_perfetto(all));
}

/// Runs the command under the lock, and writes the recording into the output file. Returns the exit status.
int run_recorded(const record_command_options& o, const std::vector<role_rule>& rules, const lock_table& lock,
                 const support::preload_library& library, record_outputs& output, char** command) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"USHER_LOCK", lock.name},
      {"LD_PRELOAD", support::preload_list(support::environment("LD_PRELOAD"), library.path, true)}};
  const lab::call_cost cost = lab::measure_call_cost(variables);
  const lab::hand_over_cost hand_over = lab::measure_hand_over();

  const support::signal_queue signals;
  recording::stream_file file(o.events);
  module_names names;
  recording::assembler to(assembling_of(o, rules, names, cost, file.clock().seconds_a_tick() * 1e9));
  variables.emplace_back(contract::stream_variable, file.path());
  support::foreground_program program(command, variables, file.descriptor(), signals);
  if (program.not_started()) return *program.not_started();
  windows w(o, file, to, names);
  const int status = await_end(program, w, signals, o.duration);
  signals.let_go();

  if (file.opened() == 0) {
    support::report_error(
        "record: nothing was recorded: libusher.so was not loaded into {} (a static, Go or set-user-ID program, or "
        "one that clears LD_PRELOAD)",
        command[0]);
    return status == 0 ? int{support::cannot_start} : status;
  }
  recording::recording r = to.finish();
  r.machine = this_machine(lock, cost, hand_over);
  const std::string content = recording::encoded(r);
  bool written = output.recording.write(content);
  if (written) report(r, file, w, content.size(), o.output);
  if (output.trace.wanted()) written = write_trace(o, w, output.trace) && written;
  return !written && status == 0 ? int{support::cannot_start} : status;
}

int carry_out(const record_command_options& o, char** command) {
  if (o.measure_calls) return lab::run_calls();
  if (command[0] == nullptr) {
    support::report_error("record: which command? usher record [OPTIONS] -- CMD [ARGS...] (see usher record --help)");
    return support::bad_usage;
  }
  const std::optional<std::vector<role_rule>> rules = rules_of(o.threads_are);
  if (!rules) return support::bad_usage;
  if (o.length_ms >= o.every_ms) {
    support::report_error("record: windows of {} ms every {} ms overlap", o.length_ms, o.every_ms);
    return support::bad_usage;
  }
  const lock_table* const lock = support::choose_lock(o.lock_given->count() != 0, o.lock, c_library);
  if (lock == nullptr) return support::bad_usage;
  const std::string rwlock = support::environment("USHER_RWLOCK");
  const auto found = support::find_library({lock, rwlock});
  if (const auto* none = std::get_if<support::no_library>(&found)) {
    support::report_error("{}", none->reason);
    return support::cannot_start;
  }
  const auto& library = std::get<support::preload_library>(found);
  if (!o.trace.empty() && support::is_same_file(o.output, o.trace)) {
    support::report_error("record: --output and --trace are to write the same file, {}", o.trace);
    return support::bad_usage;
  }
  record_outputs output;
  if (!output.recording.open(o.output) || !output.trace.open(o.trace)) return support::cannot_start;
  support::warn_of_waiting(*lock);
  support::warn_of_hindrances(command[0], library.target);
  return run_recorded(o, *rules, *lock, library, output, command);
}

constexpr const char* record_notes =
    R"text(Runs the command unchanged, under the C library's locks or under --lock, and writes down what
its threads do with mutexes, condition variables, semaphores, read-write locks, barriers and
joins in some windows of time: the order, and the work between. usher predict replays it.
Outside of the windows nothing is written. The file has no names, addresses or data of the
program unless --names is given.

A short program has a window every half second. While the program runs on, every second window
is dropped and the distance doubled, so that 20 to 40 windows cover the whole run.

Examples:
  usher record -- ./server --port 80
  usher record --duration 30 -o server.rec -- ./server
  usher record --threads-are worker='^pool' --threads-are net='^io' -- ./server

Exit status: the command's own, 128 and the number if it died of a signal; 2 for bad usage or
an unknown lock; 125 if Usher's library cannot be used or the file cannot be written; 126 and
127 as usher run.

Environment: as usher run, but without USHER_LOCK the locks are the C library's.)text";

}  // namespace

support::subcommand record_command(CLI::App& app) {
  auto* sub = app.add_subcommand("record", support::record_summary);
  auto o = std::make_shared<record_command_options>();
  o->lock_given = sub->add_option("--lock", o->lock, "The lock (default: USHER_LOCK if set, else the C library's)")
                      ->type_name("LOCK");
  sub->add_option("--threads-are", o->threads_are, "Threads whose name contains REGEX have this role (may be repeated)")
      ->type_name("ROLE=REGEX")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  sub->add_option("--windows", o->windows, "Keep so many windows at least in a long run (default: 20)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  sub->add_option("--length", o->length_ms, "Length of a window, in ms (default: 50)")
      ->type_name("MS")
      ->check(CLI::Range(1, 60'000));
  sub->add_option("--every", o->every_ms, "Distance of windows at first, in ms (default: 500)")
      ->type_name("MS")
      ->check(CLI::Range(2, 3'600'000));
  sub->add_option("--events", o->events,
                  "Room for so many calls in a window, which ends when it is used (default: 100000)")
      ->type_name("N")
      ->check(CLI::Range(1000, 1'000'000));
  sub->add_option("--duration", o->duration, "Record for so many seconds, then end the command by SIGTERM")
      ->type_name("S")
      ->check(CLI::Range(0.001, 1e9));
  sub->add_flag("--names", o->names, "Also write the names of threads, and module+offset of the lock calls");
  sub->add_option("--trace", o->trace,
                  "Write each wait in the windows to this file, as a timeline for Perfetto, with names")
      ->type_name("FILE");
  sub->add_option("-o,--output", o->output, "The file (default: usher.recording)")->type_name("FILE");
  sub->add_flag("--measure-calls", o->measure_calls)->group("");  // measure_call_cost() runs this
  sub->formatter(std::make_shared<support::help>("usher record [OPTIONS] -- CMD [ARGS...]"));
  sub->footer(record_notes);
  return {sub, [o](char** command) { return carry_out(*o, command); }, true};
}

}  // namespace usher::lab
