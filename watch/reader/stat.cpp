// usher stat: reports contended mutexes, the code that holds them, the code that waits for them, and a remedy.
//
// The program writes a record while it runs (watch/contract/format.hpp). This process samples the record periodically
// and makes the report after the program's end, normal or not.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/process/files.hpp"
#include "support/process/foreground.hpp"
#include "support/process/foreign_cpu.hpp"
#include "support/process/launch.hpp"
#include "support/process/preload.hpp"
#include "support/process/target.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "support/text/words.hpp"
#include "watch/access/record_file.hpp"
#include "watch/access/timeline.hpp"
#include "watch/reader/attach/attach.hpp"
#include "watch/reader/attach/running.hpp"
#include "watch/reader/judge/rule_facts.hpp"
#include "watch/reader/judge/rules.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/name/remote_symbols.hpp"
#include "watch/reader/name/symbols.hpp"
#include "watch/reader/print/profile.hpp"
#include "watch/reader/print/standing_report.hpp"
#include "watch/reader/print/stat_json.hpp"
#include "watch/reader/print/text.hpp"
#include "watch/reader/read/cpu_use.hpp"
#include "watch/reader/read/load.hpp"
#include "watch/reader/read/off_cpu.hpp"
#include "watch/reader/read/orphans.hpp"
#include "watch/reader/read/reading.hpp"
#include "watch/reader/read/thread_sampler.hpp"
#include "watch/reader/read/unrecorded.hpp"
#include "watch/reader/read/waits.hpp"
#include "watch/reader/read/watch.hpp"
#include "watch/reader/stat.hpp"

namespace usher::reader {
namespace {

constexpr const char* c_library = "pthread";
constexpr std::chrono::seconds until_killed{10};  // after SIGTERM

/// The exit status of usher stat -p for a process that cannot be recorded.
constexpr int cannot_be_recorded = 1;

struct stat_options {
  CLI::Option* lock_given = nullptr;
  std::string lock;
  CLI::Option* pid_given = nullptr;
  pid_t pid = 0;
  double duration = 0;
  std::string until;
  std::size_t top = 10;
  bool details = false;
  bool trust_filter = false;
  access::record_options record;
  std::string json, pprof, otlp, folded, trace, output;
};

using steady_clock = std::chrono::steady_clock;
using time_limit = std::optional<steady_clock::time_point>;

time_limit after(double seconds) {
  if (seconds <= 0) return std::nullopt;
  return steady_clock::now() +
         std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
}

bool is_over(const time_limit& t) {
  return t && steady_clock::now() >= *t;
}

/// The output files named by options. They are opened before the program starts, and written at the end.
struct outputs {
  support::output_file text, json, pprof, otlp, folded, trace;

  bool open(const stat_options& o) {
    return text.open(o.output) && json.open(o.json) && pprof.open(o.pprof) && otlp.open(o.otlp) &&
           folded.open(o.folded) && trace.open(o.trace);
  }
};

/// Returns false after an error message.
bool check_usage(const stat_options& o, char** command) {
  const bool has_command = command[0] != nullptr, has_pid = o.pid_given->count() != 0;
  if (!has_command && !has_pid) {
    support::report_error(
        "stat: which command? usher stat [OPTIONS] -- CMD [ARGS...], or usher stat -p PID (see usher stat --help)");
    return false;
  }
  if (has_command && has_pid) {
    support::report_error("stat: either a command or -p PID, not both (see usher stat --help)");
    return false;
  }
  if (has_pid && o.lock_given->count() != 0) {
    support::report_error("stat: --lock is for a command: process {} has the lock that it was started with", o.pid);
    return false;
  }
  if (has_pid && !o.until.empty()) {
    support::report_error("stat: --until is for a command, which its load ends: for process {} use --duration", o.pid);
    return false;
  }
  const std::array<std::pair<const char*, const std::string*>, 6> files = {{{"--output", &o.output},
                                                                            {"--json", &o.json},
                                                                            {"--pprof", &o.pprof},
                                                                            {"--otlp", &o.otlp},
                                                                            {"--folded", &o.folded},
                                                                            {"--trace", &o.trace}}};
  for (std::size_t i = 0; i < files.size(); i++)
    for (std::size_t j = i + 1; j < files.size(); j++)
      if (!files[i].second->empty() && !files[j].second->empty() &&
          support::is_same_file(*files[i].second, *files[j].second)) {
        support::report_error("{} and {} are to write the same file, {}", files[i].first, files[j].first,
                              *files[i].second);
        return false;
      }
  return true;
}

/// Computes the time of the next sample: after at least 40 times the CPU time of the last sample. The sampler of
/// threads follows the same rule, so both use at most 5 % of a CPU, even if the program has thousands of processes.
class sample_timer {
 public:
  sample_timer(reader::watch& w, reader::thread_sampler& threads, pid_t program)
      : watch_(w), threads_(threads), program_{program} {}
  /// Sets the processes that are examined while no process is in the record.
  void follow(std::vector<pid_t> program) { program_ = std::move(program); }
  void sample() {
    const auto begin = cpu_time();
    watch_.sample();
    threads_.update(watch_.ids(), program_);
    next_ = std::max<steady_clock::duration>(access::sample_period, 40 * (cpu_time() - begin)) + steady_clock::now();
  }
  bool is_due() const { return steady_clock::now() >= next_; }
  /// The time until the next sample or until the limit, whichever is earlier.
  std::chrono::nanoseconds left(const time_limit& limit) const {
    auto until = next_;
    if (limit) until = std::min(until, *limit);
    return until - steady_clock::now();
  }

 private:
  /// CPU time of this thread. Wall time does not suit: on a busy machine a sample of 1 ms may last 100 ms.
  static std::chrono::nanoseconds cpu_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  }

  reader::watch& watch_;
  reader::thread_sampler& threads_;
  std::vector<pid_t> program_;
  steady_clock::time_point next_ = steady_clock::now() + access::sample_period;
};

/// Waits for the signals that end the recording of a running process.
class ending {
 public:
  explicit ending(const support::signal_queue& signals) : signals_(signals) {}
  /// Whether a signal that ends the recording is pending, or arrives within `time`.
  bool comes_within(std::chrono::nanoseconds time) {
    if (came_) return true;
    const auto signal = signals_.next(time);
    if (!signal || signal->si_signo == SIGCHLD || signals_.was_ignored(signal->si_signo)) return false;
    if (signal->si_signo != SIGINT) status_ = 128 + signal->si_signo;  // ^C is a normal end
    came_ = true;
    return true;
  }
  bool came() const { return came_; }
  int status() const { return status_; }
  void let_go() const { signals_.let_go(); }

 private:
  const support::signal_queue& signals_;
  bool came_ = false;
  int status_ = 0;
};

/// Writes the heartbeat ten times a second in its own thread, because the main thread may need seconds for a sample of
/// a large process or for the names of a deadlock. The thread accesses only the record, so the main thread may fork
/// children.
class beating {
 public:
  explicit beating(access::record_file& file) : thread_([this, &file] { run(file); }) {}
  beating(const beating&) = delete;
  beating& operator=(const beating&) = delete;
  ~beating() {
    over_ = true;
    thread_.join();
  }

 private:
  void run(access::record_file& file) const {
    for (; !over_; std::this_thread::sleep_for(std::chrono::milliseconds(100))) file.beat();
  }

  std::atomic<bool> over_ = false;
  std::thread thread_;
};

/// The parts of a recording of a command, and its state.
struct command_course {
  const support::signal_queue& signals;
  reader::orphans& orphans;
  support::foreground_program& program;
  std::optional<reader::load>& load;
  reader::thread_sampler& threads;
  sample_timer& timer;
  reader::unrecorded_processes& unrecorded;
  time_limit limit{}, kill_at{};
  time_limit said_at{};  ///< time for the line on processes that outlive the command
  bool killed = false, asked_to_end = false, is_followed = false;
};

struct running_process {
  pid_t pid;
  std::vector<std::string> command;
  std::string program;
  reader::process_place place;
  reader::attach_cost cost;
  const reader::process_watch& watch;
  reader::standing_report& standing;  ///< the deadlocks that are older than the recording
};

class recording {
 public:
  recording(const stat_options& o, outputs& files, access::record_file& file)
      : options_(o), files_(files), file_(file), watch_(file, naming()) {
    if (files_.trace.wanted()) watch_.keep_thread_names();
  }

  /// Starts and records the command. Returns the exit status.
  int run(char** command, const support::preload_library& library, const lock_table& lock,
          const support::signal_queue& signals);
  /// Records a running process, which has already made the record. Returns the exit status.
  /// `threads`: sampled the process until it made its record; used only if the process made none, and so has no calls.
  int observe(const running_process& p, const time_limit& limit, ending& end,
              std::unique_ptr<reader::thread_sampler> threads);

 private:
  reader::watch::name_source naming();
  void end_recording();
  void end_at_limit(command_course& c);
  bool has_ended(command_course& c);
  void take_signal(command_course& c);
  void remark_on_processes(const command_course& c);
  void end_sampling(const reader::thread_sampler& threads, std::optional<double> cpu_seconds);
  void note_others(double cpu_share);
  std::string lock_of_processes(const contract::view& record) const;
  bool write_files(const reader::report& r, const std::string& nothing);
  bool write_trace(const reader::kept_waits& waits);
  int write_report(int status);
  std::string nothing_to_show(const reader::report& r, const access::recorded_calls& calls) const;
  std::string hardly_any_use(const reader::report& r, const access::recorded_calls& calls) const;
  std::string of_sleepers(const reader::report& r) const;
  bool embeds_unseen_locks() const;
  std::string unseen_sleepers() const;
  void add_standing(reader::report& r) const;

  const stat_options& options_;
  outputs& files_;
  access::record_file& file_;
  reader::process_place place_ = reader::process_place::own();  ///< where the recorded program finds its files
  reader::watch watch_;
  const reader::standing_report* standing_ = nullptr;  ///< of an attached process; else null
  std::optional<std::uint64_t> end_;                   ///< ticks: the end of the recording
  std::vector<std::string> command_;
  pid_t pid_ = 0;
  std::string lock_;
  bool runs_on_ = false;  ///< as report::runs_on
  /// Remarks on processes of the command that run on, and on those that had not opened the record; empty: none.
  std::string left_, unrecorded_;
  std::optional<reader::attach_cost> attached_;
  std::string program_;  ///< path of an attached process's program
  std::optional<double> others_cpu_share_;
  std::optional<reader::sampled_sleeps> asleep_;
  std::optional<reader::cpu_use> cpu_;
  std::vector<std::string> remarks_;
};

/// Provides names for reports of deadlocks while the program runs. They share a budget of 10 s (chosen), since sampling
/// stops during a look-up.
reader::watch::name_source recording::naming() {
  auto budget = std::make_shared<reader::name_budget>();
  budget->seconds_a_file = budget->seconds = 10;
  return [this, budget](contract::view v) {
    reader::name_program(v, program_);
    return reader::names_of(v, {}, place_, budget);
  };
}

void recording::end_recording() {
  if (end_) return;
  end_ = file_.clock().now();
  file_.disable();
  watch_.finish(*end_);
}

void recording::note_others(double cpu_share) {
  constexpr double shortest = 1;  // seconds; chosen: the kernel counts CPU time in ticks of 10 ms at most
  const double seconds = static_cast<double>(*end_ - watch_.begin()) * file_.clock().seconds_a_tick();
  if (seconds >= shortest) others_cpu_share_ = cpu_share;
}

/// Takes over the results of the sampler, which has stopped. `cpu_seconds`: the CPU time of the program, if known
/// exactly.
void recording::end_sampling(const reader::thread_sampler& threads, std::optional<double> cpu_seconds) {
  asleep_ = threads.sleeps();
  const auto found = threads.cpu();
  if (!found || found->cpus <= 0 || found->elapsed <= 0 || found->counted <= 0 || !found->knows_waits) return;
  cpu_.emplace();
  cpu_->cpus = found->cpus;
  cpu_->busy = cpu_seconds ? std::max(found->seconds, *cpu_seconds) / found->elapsed : found->seconds / found->counted;
  cpu_->waiting = found->waited / found->counted;
}

/// The CPU time of ended children that were waited for, including their own children.
double cpu_seconds_of_children() {
  rusage u{};
  getrusage(RUSAGE_CHILDREN, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

/// At the time limit or the end of the load, ends the recording and then the command. Processes that outlive the
/// command by themselves continue.
void recording::end_at_limit(command_course& c) {
  if (!end_ && (is_over(c.limit) || (c.load && !c.load->is_running()))) {
    end_recording();
    c.threads.stop();
    c.program.send(SIGTERM);
    c.program.send(SIGCONT);  // a stopped program would not receive SIGTERM
    c.kill_at = steady_clock::now() + until_killed;
  }
  if (c.killed || !is_over(c.kill_at)) return;
  c.program.send(SIGKILL);
  c.killed = true;
}

std::string orphans_text(std::size_t n) {
  return n == 1 ? "1 process that the command has started runs"
                : fmt::format("{} processes that the command has started run", reader::exact_count(n));
}

/// Whether the command has ended and, in addition, the recording or all processes that outlived the command.
bool recording::has_ended(command_course& c) {
  if (!c.program.has_ended()) return false;
  if (!c.is_followed) c.orphans.was_awaited(pid_);
  c.orphans.reap();
  if (end_ || c.asked_to_end || !c.orphans.any()) return true;
  constexpr std::chrono::seconds a_while{1};  // chosen: most of these processes end a moment after the command
  if (!c.is_followed) c.said_at = steady_clock::now() + a_while;
  c.is_followed = true;
  if (!is_over(c.said_at)) return false;
  c.said_at = {};
  const std::size_t n = c.orphans.living().size();
  if (n != 0)
    support::report_error("stat: the command has ended; {} on and {} recorded until {}; ^C ends the recording",
                          orphans_text(n), n == 1 ? "is" : "are", n == 1 ? "it ends" : "they end");
  return false;
}

/// Waits for a signal until the next sample.
void recording::take_signal(command_course& c) {
  const auto signal = c.signals.next(end_ ? std::chrono::nanoseconds(access::sample_period) : c.timer.left(c.limit));
  if (!signal) return;
  const bool asks = signal->si_signo != SIGCHLD && !c.signals.was_ignored(signal->si_signo);
  c.asked_to_end = c.asked_to_end || asks;
  if (asks && c.is_followed) {
    end_recording();
    return;
  }
  // Forwards signals that only the launcher has received. The terminal's signals, and the kernel's hang-up, also reach
  // the program directly.
  const bool is_ours_alone = signal->si_signo == SIGTERM || (signal->si_signo == SIGHUP && signal->si_code <= 0);
  if (is_ours_alone) c.program.send(signal->si_signo);
}

/// Adds remarks on processes that still live. They may be descendants of processes that outlived the command.
void recording::remark_on_processes(const command_course& c) {
  unrecorded_ = c.unrecorded.text();
  if (!unrecorded_.empty()) remarks_.push_back(unrecorded_ + ".");
  const std::vector<pid_t> living = c.orphans.living();
  const std::size_t n = std::max<std::size_t>(watch_.living_processes(), living.size());
  if (n == 0) return;
  const std::string id = living.size() == 1 && n == 1 ? fmt::format(" (pid {})", living.front()) : "";
  left_ = fmt::format("{} on{}, and what {} from here on is not recorded", orphans_text(n), id,
                      n == 1 ? "it does" : "they do");
  remarks_.push_back(left_ + ".");
}

int recording::run(char** command, const support::preload_library& library, const lock_table& lock,
                   const support::signal_queue& signals) {
  for (char** w = command; *w != nullptr; ++w) command_.emplace_back(*w);
  lock_ = lock.name;
  const support::foreign_cpu others;
  reader::orphans orphans;
  support::foreground_program program(
      command,
      {{"USHER_LOCK", lock.name},
       {"LD_PRELOAD", support::preload_list(support::environment("LD_PRELOAD"), library.path, true)},
       {contract::variable, file_.path()}},
      file_.descriptor(), signals);
  if (program.not_started()) return *program.not_started();
  pid_ = program.pid();
  orphans.leave_out(pid_);
  const time_limit limit = after(options_.duration);
  std::optional<reader::load> load;
  if (!options_.until.empty()) orphans.leave_out(load.emplace(options_.until, signals).keeper_pid());
  reader::thread_sampler threads(file_.live(), reader::thread_sampler::place::thread);
  sample_timer timer(watch_, threads, pid_);
  reader::unrecorded_processes unrecorded(file_.descriptor());
  command_course c{signals, orphans, program, load, threads, timer, unrecorded, limit};
  while (!has_ended(c)) {
    end_at_limit(c);
    if (!end_ && timer.is_due()) {
      const std::vector<pid_t> first = c.is_followed ? orphans.living() : std::vector{pid_};
      timer.follow(first);
      timer.sample();
      unrecorded.look(first, watch_.ids());
    }
    take_signal(c);
  }
  const bool ended_by_itself = !end_;
  const std::optional<double> cpu = ended_by_itself ? std::optional(cpu_seconds_of_children()) : std::nullopt;
  if (load && ended_by_itself) load->end_with_program();
  end_recording();
  threads.stop();
  end_sampling(threads, cpu);
  load.reset();
  signals.let_go();
  remark_on_processes(c);
  runs_on_ =
      c.asked_to_end || c.kill_at || !left_.empty() || program.died_of() == SIGTERM || program.died_of() == SIGKILL;
  if (left_.empty()) note_others(others.share());
  // A program that this command has ended by these signals has not failed.
  const bool by_us = c.kill_at && (program.died_of() == SIGTERM || (c.killed && program.died_of() == SIGKILL));
  return write_report(by_us ? 0 : program.exit_status());
}

int recording::observe(const running_process& p, const time_limit& limit, ending& end,
                       std::unique_ptr<reader::thread_sampler> threads) {
  pid_ = p.pid;
  command_ = p.command;
  place_ = p.place;
  attached_ = p.cost;
  program_ = p.program;
  runs_on_ = true;
  standing_ = &p.standing;
  const auto is_over_now = [&] { return p.watch.has_ended(); };
  const auto is_recorded = [this](std::uint32_t tid) { return watch_.has_in_circle(tid); };
  if (threads == nullptr)
    threads = std::make_unique<reader::thread_sampler>(file_.live(), reader::thread_sampler::place::child);
  sample_timer timer(watch_, *threads, pid_);
  timer.sample();  // the reading for deadlocks may delay the next sample
  const support::foreign_cpu others;
  const std::optional<double> cpu_before = reader::cpu_seconds_of(pid_);
  auto heart = std::make_optional<beating>(file_);
  while (!p.watch.has_ended() && !is_over(limit) && file_.given_up() == contract::given_up::no) {
    if (timer.is_due()) timer.sample();
    p.standing.sample(is_over_now, is_recorded);
    if (end.comes_within(timer.left(limit))) break;
  }
  p.standing.finish(is_over_now, is_recorded);
  end_recording();
  threads->stop();
  end_sampling(*threads, std::nullopt);
  heart.reset();
  if (file_.given_up() == contract::given_up::for_silence) {
    support::report_error(
        "stat: process {} has ended the recording and freed it, because this command did not run for 10 s", pid_);
    return cannot_be_recorded;
  }
  if (file_.given_up() == contract::given_up::for_another)
    remarks_.push_back(
        "Another usher stat took the place of this one, which did not run for a while: the recording ended then.");
  end.let_go();
  const std::optional<double> cpu_after = reader::cpu_seconds_of(pid_);
  // The CPU time of other processes is computed only if a single process was recorded, since the CPU time of several is
  // not known.
  if (cpu_before && cpu_after && access::sum_of(file_.copy().view()).processes == 1)
    note_others(others.share(*cpu_after - *cpu_before));
  const int status = write_report(end.status());
  file_.discard();
  return status;
}

/// Whether the program embeds locks of Usher without the macro that makes them recordable.
bool recording::embeds_unseen_locks() const {
  const bool of_process = options_.pid_given->count() != 0;
  const auto program = of_process ? fmt::format("/proc/{}/exe", pid_) : support::find_program(command_[0]);
  const auto elf = program ? support::read_elf(*program) : std::nullopt;
  return elf && elf->embeds_locks && !elf->records_locks;
}

/// The number of threads that slept in futex calls all the time, after "; "; empty if none is known.
std::string recording::unseen_sleepers() const {
  const unsigned n = standing_ != nullptr ? standing_->observed().sleepers() : 0;
  if (n == 0) return "";
  return fmt::format("; {} of its {} slept in futex calls without a deadline: what they wait for was not seen", n,
                     reader::with_noun(standing_->observed().threads(), "thread"));
}

/// Adds the deadlocks that are older than the recording. If no call was recorded, the report contains only these.
void recording::add_standing(reader::report& r) const {
  const std::vector<reader::deadlock> found = standing_->deadlocks();
  r.deadlocks.insert(r.deadlocks.end(), found.begin(), found.end());
  r.remarks.insert(r.remarks.end(), standing_->remarks().begin(), standing_->remarks().end());
  r.not_seen.threads = standing_->observed().unread();
  if (r.not_seen.threads != 0)
    r.remarks.push_back(
        fmt::format("Deadlocks that are older than the recording were looked for among {} of {} threads: there was no "
                    "time for more.",
                    reader::exact_count(standing_->observed().threads() - r.not_seen.threads),
                    reader::exact_count(standing_->observed().threads())));
  if (r.processes != 0 || found.empty()) return;
  r.processes = 1;
  r.threads = standing_->observed().threads();
  for (const reader::deadlock& d : found) r.seconds = std::max(r.seconds, d.seconds);
  r.lock = standing_->observed().lock();
  r.remarks.push_back("No lock call was recorded meanwhile: the deadlock is known from the words of the mutexes.");
}

/// The continuation of a sentence on sleeps that no recorded object explains.
std::string recording::of_sleepers(const reader::report& r) const {
  const bool of_process = options_.pid_given->count() != 0;
  return reader::unseen_caller_text(r) +
         (of_process ? ": usher stat records neither locks on such futexes nor waits that began before the recording"
                     : ": usher stat does not record locks on such futexes") +
         (options_.details ? "" : "; --details shows the stacks");
}

/// The reason why the report has no table, in one line; empty if it has a table.
std::string recording::nothing_to_show(const reader::report& r, const access::recorded_calls& calls) const {
  const bool of_process = options_.pid_given->count() != 0;
  if (calls.processes == 0 && !r.deadlocks.empty()) return "";
  if (calls.processes == 0 && of_process && reader::unseen_share(r) >= reader::much_unseen)
    return fmt::format("process {} made no recorded call, but {}{}{}{}", pid_, reader::off_cpu_text(r), of_sleepers(r),
                       unseen_sleepers(), reader::not_seen_text(r));
  if (calls.processes == 0)
    return of_process && reader::is_stopped(pid_)
               ? fmt::format("nothing was recorded: process {} is stopped (kill -CONT {} lets it go on)", pid_, pid_)
           : of_process ? fmt::format("nothing was recorded: process {} made no call, or could not open the record{}",
                                      pid_, unseen_sleepers() + reader::unseen_text(r) + reader::not_seen_text(r))
                        : fmt::format(
                              "nothing was recorded: libusher.so was not loaded into {} (a static, Go or set-user-ID "
                              "program, or one that clears LD_PRELOAD)",
                              command_[0]);
  return hardly_any_use(r, calls);
}

/// The sentence for a program that hardly uses recorded objects; empty if the program does use them.
std::string recording::hardly_any_use(const reader::report& r, const access::recorded_calls& calls) const {
  // Fewer calls may come from libraries, which lock a few mutexes while they are loaded.
  constexpr std::uint64_t few = 100;
  const bool any_waiting = calls.contended != 0 || !r.deadlocks.empty() ||
                           std::any_of(r.rows.begin(), r.rows.end(), [](const reader::row& w) {
                             return w.what != kind::join && w.seen.waiting.total > 0;
                           });
  if (calls.all() >= few || any_waiting) return "";
  const bool of_process = options_.pid_given->count() != 0;
  const std::string who = of_process ? fmt::format("process {}", pid_) : command_[0];
  const std::string times = fmt::format("{} call{}", calls.all(), calls.all() == 1 ? "" : "s");
  const std::string unseen = reader::unseen_text(r);
  const std::string others =
      reader::not_seen_text(r) + (left_.empty() ? "" : "; " + left_) + (unrecorded_.empty() ? "" : "; " + unrecorded_);
  if (embeds_unseen_locks())
    return fmt::format(
               "{} hardly uses pthread locks ({}); it embeds locks of Usher, which usher stat does not see: "
               "compile it with -DUSHER_RECORD",
               who, times) +
           others;
  // If unrecorded processes exist, no sentence claims that the program hardly uses locks.
  if (reader::unseen_share(r) >= reader::much_unseen && unrecorded_.empty())
    return fmt::format("{} hardly uses pthread locks ({}), but {}{}{}", who, times, reader::off_cpu_text(r),
                       of_sleepers(r), others);
  if (!others.empty())
    return fmt::format(
        "hardly any use of pthread locks, condition variables and semaphores by {} was recorded in {:.1f} s ({}){}{}",
        who, r.seconds, times, unseen, others);
  if (of_process || options_.duration > 0)
    return fmt::format(
        "hardly any use of pthread locks, condition variables and semaphores by {} in {:.1f} s ({}): other locks have "
        "nothing to change{}",
        who, r.seconds, times, unseen);
  return fmt::format(
      "{} {} pthread locks, condition variables or semaphores ({}): other locks have nothing to change{}", who,
      calls.all() == 0 ? "does not use" : "hardly uses", times, unseen);
}

/// The lock of the recorded processes if all have the same, else empty. It may differ from the option: the command
/// itself may be `usher run --lock twa -- ...`.
std::string recording::lock_of_processes(const contract::view& record) const {
  std::string one;
  for (std::uint32_t i = record.head().processes.load(); i-- > 0;) {
    const contract::process_slot& p = record.process(i);
    if (p.pid.load() == 0) continue;
    const std::string its(p.lock, strnlen(p.lock, sizeof p.lock));
    if (!one.empty() && its != one) return "";
    one = its;
  }
  return one;
}

/// Writes the table and all files, even if one of them cannot be written. `nothing`: the reason why there is no table.
/// False: a file could not be written.
bool recording::write_files(const reader::report& r, const std::string& nothing) {
  // If nothing was recorded, --details still shows the stacks of sleeping threads.
  const bool has_text = nothing.empty() || (options_.details && reader::unseen_share(r) >= reader::much_unseen);
  const std::string text = has_text ? reader::as_text(r, {options_.top, options_.details}) : nothing + "\n";
  if (!nothing.empty()) support::report_error("stat: {}", nothing);
  const bool in_file = files_.text.wanted() && files_.text.write(text);
  bool written = in_file || !files_.text.wanted();
  if (!in_file && has_text) {
    std::FILE* const to = options_.pid_given->count() != 0 && !files_.text.wanted() ? stdout : stderr;
    std::fputs(text.c_str(), to);
  }
  // Names in programs may contain bytes that are not UTF-8; these are replaced.
  const auto lenient = nlohmann::ordered_json::error_handler_t::replace;
  if (files_.json.wanted())
    written = files_.json.write(reader::as_json(r).dump(2, ' ', false, lenient) + "\n") && written;
  if (files_.pprof.wanted()) written = files_.pprof.write(reader::as_pprof(r)) && written;
  if (files_.folded.wanted()) written = files_.folded.write(reader::as_folded(r)) && written;
  if (files_.otlp.wanted()) {
    const auto lasted = static_cast<std::uint64_t>(r.seconds * 1e9);
    written = files_.otlp.write(reader::as_otlp(r, access::timeline::clocks::now().real - lasted)) && written;
  }
  return written;
}

/// Writes the trace. A line says if it is not of the whole recording.
bool recording::write_trace(const reader::kept_waits& waits) {
  if (waits.lost != 0)
    support::report_error(
        "stat: {} has the last {:.1f} s: there was no room for the waits before (the last {} are kept)", options_.trace,
        waits.seconds, contract::capacities::most_waits / 2 * contract::wait_chunk::length);
  return files_.trace.write(access::as_perfetto(waits.all));
}

/// Makes the report and writes it. Returns the exit status.
int recording::write_report(int status) {
  const reader::time_scale time{watch_.begin(), *end_, file_.clock().seconds_a_tick()};
  const access::record_copy copy = file_.copy();
  reader::name_program(copy.view(), program_);
  const std::vector<std::uint32_t> modules =
      asleep_ ? reader::add_modules(copy.view(), asleep_->modules) : std::vector<std::uint32_t>();
  const std::unique_ptr<reader::symbols> names = reader::names_of(copy.view(), {}, place_);
  // The files contain the stacks of all rows; the text only those of the hottest rows.
  const bool of_all = options_.details || files_.json.wanted() || files_.pprof.wanted() || files_.otlp.wanted() ||
                      files_.folded.wanted();
  const reader::waiting_windows windows = watch_.windows();
  reader::report r =
      reader::read_report(copy.view(), time, *names, of_all ? std::numeric_limits<std::size_t>::max() : options_.top,
                          &watch_.ids(), &windows);
  r.command = command_;
  r.pid = {pid_, r.pid.seen == pid_ ? r.pid.own : 0};
  const std::string lock = lock_of_processes(copy.view());
  r.lock = lock.empty() ? lock_ : lock;
  r.usher = USHER_VERSION;
  r.seconds = time.seconds(time.end - time.begin);
  r.runs_on = runs_on_;
  // Libraries write both fields, and the program may forge them: they only choose sentences.
  const contract::header& head = copy.view().head();
  const bool is_recorded = contract::read(head.opened) != 0;
  r.sees_all_kinds = is_recorded && contract::read(head.partial) == 0;
  r.others_cpu_share = others_cpu_share_;
  r.attached = attached_;
  r.deadlocks = watch_.deadlocks();
  if (asleep_) r.asleep = reader::named(*asleep_, modules, *names);
  r.cpu = cpu_;
  if (standing_ != nullptr) add_standing(r);
  for (const auto& more : {remarks_, watch_.remarks(), names->remarks()})
    r.remarks.insert(r.remarks.end(), more.begin(), more.end());
  const std::string nothing = nothing_to_show(r, access::sum_of(copy.view()));
  if (!nothing.empty())
    r.remarks.insert(r.remarks.begin(), nothing);
  else if (embeds_unseen_locks())
    r.remarks.push_back(
        "the program embeds locks of Usher, which usher stat does not see: this is about its pthread locks. Compile it "
        "with -DUSHER_RECORD");
  if (is_recorded && !r.sees_all_kinds)
    r.remarks.push_back(
        "Read-write locks, spin locks, barriers and joins were not recorded: a program ran without "
        "libusher-stat.so, which usher stat -- CMD loads");
  if (std::any_of(r.rows.begin(), r.rows.end(), [](const reader::row& w) { return w.embedded; }))
    r.remarks.push_back(
        "embedded: locks of Usher that the program has chosen itself; --lock and USHER_LOCK do not change them");
  reader::judge(r);
  if (options_.details && r.next == reader::details_command(r)) r.next.clear();

  bool written = write_files(r, nothing);
  if (files_.trace.wanted()) {
    const auto ns = [&](std::uint64_t ticks) { return file_.clock().ns_at(ticks, time.seconds_a_tick); };
    reader::kept_waits waits =
        reader::read_waits(copy.view(), time, ns, *names, &watch_.ids(), &watch_.names_of_threads());
    waits.all.at = access::timeline::clocks::now();
    written = write_trace(waits) && written;
  }
  return !written && status == 0 ? int{support::cannot_start} : status;
}

/// The reason why the text is not a valid duration in seconds; empty if it is valid.
std::string no_duration(const std::string& text) {
  char* rest = nullptr;
  const double v = std::strtod(text.c_str(), &rest);
  const bool good = rest != text.c_str() && *rest == '\0' && v > 0 && v <= 1e9;
  return good ? "" : fmt::format("'{}' is no number of seconds above 0", text);
}

int record_process(const stat_options& o, outputs& files, const support::signal_queue& signals) {
  const reader::process_watch watch(o.pid);
  const reader::process_place place = reader::place_of(o.pid);
  reader::standing_report standing(o.pid, place);
  running_process process{
      o.pid, reader::command_of(o.pid), reader::program_of(o.pid, place.root.get()), place, {}, watch, standing};
  ending end(signals);
  const auto interrupted = [&end] { return end.comes_within({}); };
  reader::attachment attachment(o.pid, {o.record, o.trust_filter});
  std::string error = attachment.ask(interrupted);
  const time_limit limit = after(o.duration);
  std::unique_ptr<access::record_file> file, none;
  std::unique_ptr<reader::thread_sampler> threads;
  if (error.empty()) {
    const auto left = limit ? std::chrono::duration_cast<std::chrono::milliseconds>(*limit - steady_clock::now())
                            : std::chrono::milliseconds(std::chrono::hours(24 * 365));
    const auto stops = [&] { return interrupted() || watch.has_ended(); };
    // A process that makes no call makes no record, but its threads can still be sampled.
    none = std::make_unique<access::record_file>(o.record);
    threads = std::make_unique<reader::thread_sampler>(none->live(), reader::thread_sampler::place::child);
    const access::seen_ids nobody;
    auto next_update = steady_clock::now();
    file = attachment.take(left, [&] {
      standing.sample(stops, [](std::uint32_t) { return false; });  // the process may make no further call
      if (steady_clock::now() >= next_update) {
        threads->update(nobody, {o.pid});
        next_update = steady_clock::now() + access::sample_period;
      }
      return stops();
    });
    error = attachment.error();
    if (file != nullptr) threads.reset();
  }
  if (!error.empty() && end.came()) {
    support::report_error("stat: nothing was recorded: interrupted");
    return end.status();
  }
  if (!error.empty()) {
    support::report_error("stat: {}", error);
    return cannot_be_recorded;
  }
  process.cost = {attachment.stopped_seconds(), attachment.stopped_threads()};
  if (file == nullptr) file = std::move(none);  // a record without calls
  return recording(o, files, *file).observe(process, limit, end, std::move(threads));
}

int carry_out(const stat_options& o, char** command) {
  if (!check_usage(o, command)) return support::bad_usage;
  const bool of_process = o.pid_given->count() != 0;
  const lock_table* const lock =
      of_process ? nullptr : support::choose_lock(o.lock_given->count() != 0, o.lock, c_library);
  if (!of_process && lock == nullptr) return support::bad_usage;
  if (of_process) {
    if (const std::string error = reader::why_not(o.pid); !error.empty()) {
      support::report_error("stat: {}", error);
      return cannot_be_recorded;
    }
  }
  const std::string rwlock = support::environment("USHER_RWLOCK");
  const auto found = of_process ? std::variant<support::preload_library, support::no_library>()
                                : support::find_library({lock, rwlock});
  if (const auto* none = std::get_if<support::no_library>(&found)) {
    support::report_error("{}", none->reason);
    return support::cannot_start;
  }
  const auto& library = std::get<support::preload_library>(found);
  outputs files;
  if (!files.open(o)) return support::cannot_start;
  const support::signal_queue signals;
  if (of_process) return record_process(o, files, signals);
  support::warn_of_waiting(*lock);
  support::warn_of_hindrances(command[0], library.target);
  access::record_file file(o.record);
  return recording(o, files, file).run(command, library, *lock, signals);
}

constexpr const char* stat_notes =
    R"text(Runs the command unchanged, under the C library's locks or under --lock, and shows for each
mutex, condition variable and semaphore the number of acquisitions, the time that threads
waited for it and the time that it was held, with the stacks of waiters and holders and a
recommendation. The command keeps its standard streams, its terminal and its process group.
The table is on standard error, with -p on standard output, also if the command crashes or
is killed. A program that goes into the background is recorded, too: the recording ends when
the command and all processes that it has left running have ended, or by ^C, SIGTERM or
--duration, which leave these processes running. Meanwhile their parent is usher stat.

Examples:
  usher stat -- ./server --port 80
  usher stat --duration 10 -- ./server      for 10 s
  usher stat --until 'redis-benchmark -q' -- redis-server
  usher stat --lock mcscr -- ./bench        under a lock of Usher's
  usher stat -p 1234 --duration 10          a program that was started by usher run
  usher stat --pprof out.pb.gz -- ./bench   then: pprof -http=: out.pb.gz
  usher stat --trace out.pftrace -- ./bench   then open it in ui.perfetto.dev

--duration, and the end of the command of --until, end the recording. The program is then
ended by SIGTERM and, if it still runs 10 s later, by SIGKILL, which is no failure; with -p
it continues. ^C reaches the command; with -p it ends the recording. SIGTERM and SIGHUP are
forwarded to the command.

A deadlock, a circle of threads that wait for each other, is reported in a line on standard
error after a second and is in the table; the program is not changed.

Exit status: the command's own, 128 and the number if it died of a signal; 1 if the process
of -p cannot be recorded; 2 for bad usage or an unknown lock; 125 if Usher's library cannot
be used or a file cannot be written; 126 and 127 as usher run.

Environment: as usher run, but without USHER_LOCK the locks are the C library's.)text";

}  // namespace

support::subcommand stat_command(CLI::App& app) {
  auto* sub = app.add_subcommand("stat", support::stat_summary);
  auto o = std::make_shared<stat_options>();
  o->lock_given = sub->add_option("--lock", o->lock, "The lock (default: USHER_LOCK if set, else the C library's)")
                      ->type_name("LOCK");
  o->pid_given = sub->add_option("-p,--pid", o->pid, "Record a process that runs under Usher, instead of a command")
                     ->type_name("PID")
                     ->check(CLI::Range(1, std::numeric_limits<pid_t>::max()));
  sub->add_option("--top", o->top, "Number of rows (default: 10)")->type_name("N")->check(CLI::Range(1, 1000000));
  sub->add_option("--duration", o->duration, "Record for so many seconds")->type_name("S")->check(no_duration);
  sub->add_option("--until", o->until,
                  "The command is a server: run this shell command while it runs, and then stop the server")
      ->type_name("CMD");
  sub->add_flag("--details", o->details, "All data of each row, and its objects one by one");
  sub->add_flag("--hold-times", o->record.hold_times,
                "Time all holds, not a sample of them: 35 ns more for each acquisition of a mutex");
  sub->add_flag("--trust-filter", o->trust_filter,
                "With -p: the process's system-call filter permits a recording's calls (where only root may read it)");
  sub->add_option("--objects", o->record.objects, "Room for so many objects (default: 65536)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 22));
  sub->add_option("--json", o->json, "Write all data to this file")->type_name("FILE");
  sub->add_option("--pprof", o->pprof, "Write the waiters' stacks to this file, for pprof")->type_name("FILE");
  sub->add_option("--otlp", o->otlp, "Write them as a profile of OpenTelemetry to this file")->type_name("FILE");
  sub->add_option("--folded", o->folded, "Write them as lines of folded stacks, for flame graphs")->type_name("FILE");
  sub->add_option("--trace", o->trace, "Write each wait to this file, as a timeline for Perfetto")->type_name("FILE");
  sub->add_option("-o,--output", o->output, "Write the table to this file")->type_name("FILE");
  sub->formatter(
      std::make_shared<support::help>("usher stat [OPTIONS] -- CMD [ARGS...]\n       usher stat [OPTIONS] -p PID"));
  sub->footer(stat_notes);
  return {sub,
          [o](char** command) {
            o->record.with_waits = !o->trace.empty();
            return carry_out(*o, command);
          },
          true};
}

}  // namespace usher::reader
