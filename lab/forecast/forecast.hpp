// Summarises the results of all replays of `usher predict` for each lock and number of threads, and shows the summary.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lab/predict/replay_plan.hpp"
#include "lab/sweep/sweep_point.hpp"

namespace usher::lab {

/// A number that is not known well, such as the time of a wake-up, together with a change of it whose effect is tried.
struct unknown {
  std::string key;    ///< the number's key in the points
  std::string words;  ///< "waking a thread takes 1.5 times as long"
};

/// Median and range over the seeds, and over both limits of the cache lines that sections move (replay_plan.hpp).
struct spread {
  double middle = 0, least = 0, most = 0;
};

/// The busiest lock of the recorded program in the runs of a point.
struct busy_lock {
  std::uint32_t object = 0;
  unsigned part = 0;
  double utilisation = 0, wanted = 0;  ///< medians over the runs in which it was the busiest
};

struct forecast_point {
  std::string lock;
  unsigned threads = 0;
  std::size_t runs = 0, unsettled = 0;
  spread operations;               ///< lock operations a second
  std::optional<double> to_first;  ///< median throughput relative to that of the first lock
  spread cpus, waiting, tokens, working_set;
  std::uint64_t longest_wait = 0;  ///< ns; the longest in all runs
  busy_lock busiest;
  double stalls = 0, not_acquired = 0;  ///< medians of their numbers
};

/// The effect of changing an unknown number, on the throughput with the highest number of threads.
struct effect {
  unknown what;
  std::string lock;   ///< the lock whose throughput changes most
  double change = 0;  ///< relative change of its throughput
};

/// The mutex that limits the program: a thread holds it or waits for it at least nine tenths of the time.
struct bottleneck {
  std::string lock;
  std::uint32_t object = 0;
  unsigned part = 0;
  unsigned from_threads = 0;  ///< the least number of threads for which this holds
};

struct forecast {
  std::string recording;        ///< the file
  std::size_t all_windows = 0;  ///< windows in the recording; replay_plan::windows are replayed
  double share_of_window = 1;   ///< the replayed part of a window that alone has too many events
  std::string machine, title;   ///< name and title
  std::string machine_hash;
  unsigned cpus = 0;
  unsigned least_lines = 0, most_lines = 0;  ///< of the busiest slot; equal if --lines is a number
  bool lines_given = false, lines_measured = false;
  std::vector<std::string> changes;     ///< --halve, --split and --role as given
  std::vector<forecast_point> points;   ///< by lock, in the order of --locks, then by number of threads
  std::vector<bottleneck> bottlenecks;  ///< for each lock that has one
  std::vector<effect> effects;          ///< the largest first
};

/// Summarises the results of points. Points that change one of `unknowns` count only as effects.
void sum_up(forecast& f, const std::vector<point_result>& results, const std::vector<unknown>& unknowns);

/// Returns sentences on the accuracy of earlier predictions that were checked.
std::vector<std::string> track_record();

/// Returns sentences about events that are not replayed as they were recorded.
std::vector<std::string> left_out_in_words(const predict::replay_plan& p);

/// Returns the text for the terminal.
std::string forecast_text(const forecast& f, const predict::replay_plan& p, bool details, std::size_t width);

/// Returns the content of the file of --json.
nlohmann::ordered_json forecast_json(const forecast& f, const predict::replay_plan& p, const std::string& commit);

}  // namespace usher::lab
