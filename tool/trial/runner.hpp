// Runs the program once under a lock, with preparation, server and load, time limit, and counting of lock calls.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/process/preload.hpp"
#include "support/process/process.hpp"
#include "tool/trial/candidates.hpp"
#include "tool/trial/metric.hpp"
#include "tool/trial/output_pattern.hpp"
#include "tool/trial/trial_options.hpp"
#include "tool/trial/trial_results.hpp"
#include "watch/access/record_file.hpp"

namespace usher::tool::trial {

/// One run of the program, with data that are not part of the results.
struct attempt {
  run_result run;
  bool costly = false;     ///< it took the whole time limit and must not be repeated
  std::size_t cut = 0;     ///< bytes that it printed, if the output was cut
  std::string last_lines;  ///< of its output, if the metric is not in it
  std::optional<printed> output;
  std::optional<call_counts> calls;
  double seconds = 0;   ///< with preparation, start and stop of a server
  std::string failure;  ///< the error without the program's own message

  void fail(const std::string& what, const std::string& message = "");
};

/// Thrown after an error message, if the trial cannot continue.
struct stopped {
  int status;
};

class runner {
 public:
  /// `before_message` is called before an error message is printed.
  runner(const options& o, std::vector<std::string> command, const support::preload_library& library,
         const std::optional<metric_pattern>& metric, std::function<void()> before_message);

  /// Runs the program under these locks; those of the C library: without Usher's library. Repeats a run during which this process was
  /// stopped (^Z). `counted`: counts the lock calls, for which the library is loaded even for the reference.
  attempt run(const run_locks& locks, const std::string& name, bool counted);

  /// Runs the program by another program that starts it: `words` precede the command.
  attempt run_through(const std::vector<std::string>& words);

  /// Sets the time limit of later runs. `seconds`: the duration of a run of the reference.
  void limit_by(double seconds) {
    limit_ = ten_times(seconds);
    has_run_ = true;
  }

 private:
  static double ten_times(double seconds) { return 10 * seconds + 10; }
  void remind_of_first_run(support::process& p, const std::string& note) const;
  attempt run_once(const std::vector<std::string>& prefix, const run_locks& locks, bool counted);
  void run_program(support::process& p, attempt& a);
  void run_server(support::process& p, attempt& a);
  bool becomes_ready(support::process& p, attempt& a);
  void prepare(support::process& p);
  void check_end(const support::ended& e);
  void read_metric(attempt& a, const support::process& p) const;
  void add_output(attempt& a, const support::process& p) const;
  support::environment_changes changes(const run_locks& locks, const std::string& record) const;
  double limit() const { return options_.timeout > 0 ? options_.timeout : limit_; }

  const options& options_;
  std::vector<std::string> command_;
  const support::preload_library& library_;
  const std::optional<metric_pattern>& metric_;
  std::function<void()> before_message_;
  double limit_;
  bool has_run_ = false;  // the reference, so that the duration of a run is known
};

}  // namespace usher::tool::trial
