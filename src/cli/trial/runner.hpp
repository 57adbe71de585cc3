// Runs the program once, under a lock, with all that belongs to a run: preparation, server and load, time limit, counting.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/process/preload.hpp"
#include "cli/process/process.hpp"
#include "cli/process/record_file.hpp"
#include "cli/trial/metric.hpp"
#include "cli/trial/options.hpp"
#include "cli/trial/output_pattern.hpp"
#include "cli/trial/results.hpp"
#include "usher/catalog.hpp"

namespace usher::cli::trial {

/// A run, and what is not kept of it for good.
struct attempt {
  run_seen seen;
  bool costly = false;     ///< it took the whole time limit: once is enough
  std::size_t cut = 0;     ///< how much it printed, if not all of it was kept
  std::string last_lines;  ///< of what it printed, where the metric is not in that
  std::optional<printed> output;
  std::optional<calls_seen> calls;
  double seconds = 0;   ///< with preparation, start and stop of a server
  std::string failure;  ///< the error without what the program said

  void fail(const std::string& what, const std::string& said = "");
};

/// Thrown where the trial cannot go on, after an error message.
struct stopped {
  int status;
};

class runner {
 public:
  /// `before_message` is called before something is said on standard error.
  runner(const options& o, std::vector<std::string> command, const preload_library& library,
         const std::optional<metric_pattern>& metric, std::function<void()> before_message);

  /// Under a lock of ours, or as the program is, without a library of ours: null. Repeated if this process was stopped meanwhile
  /// (^Z). `counted`: its calls are counted, for which the reference has the library, too.
  attempt run(const lock_table* lock, const std::string& name, bool counted);

  /// As the program is, by another program that starts it: its words go before the command's.
  attempt run_through(const std::vector<std::string>& words);

  /// After the reference's run: how long the others may take.
  void limit_by(double seconds) { limit_ = 10 * seconds + 10; }

 private:
  attempt run_once(const std::vector<std::string>& prefix, const lock_table* lock, bool counted);
  void run_program(process& p, attempt& a);
  void run_server(process& p, attempt& a);
  bool becomes_ready(process& p, attempt& a);
  void prepare(process& p);
  void check_end(const ended& e);
  void read_metric(attempt& a, const process& p) const;
  void add_output(attempt& a, const process& p) const;
  environment_changes changes(const lock_table* lock, const std::string& record) const;
  double limit() const { return options_.timeout > 0 ? options_.timeout : limit_; }

  const options& options_;
  std::vector<std::string> command_;
  const preload_library& library_;
  const std::optional<metric_pattern>& metric_;
  std::function<void()> before_message_;
  double limit_ = 3600;  // until the first run has shown how long it takes
};

}  // namespace usher::cli::trial
