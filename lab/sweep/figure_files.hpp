// Shows the results of a sweep on the terminal, and writes them to the files of --json, --csv and --chart.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lab/draw/chart_options.hpp"
#include "lab/sweep/figure.hpp"
#include "lab/sweep/figure_metric.hpp"
#include "lab/sweep/sweep_options.hpp"
#include "lab/sweep/sweep_point.hpp"
#include "support/text/output_file.hpp"

namespace usher::lab {

/// The output files of a sweep. They are opened before the points are run, so that a file that cannot be written is an
/// error at once and not after hours.
class figure_outputs {
 public:
  /// Opens the files. Returns 0, or an exit status after an error message. Throws std::runtime_error for an unknown
  /// metric, or one that the workload, which is one of `programs`, does not have.
  int open(const figure_options& o, std::span<const workloads::description> programs = {}, bool simulated = false);
  /// Writes the files. `about`: the keys of the JSON file before its points. Returns false after an error message.
  bool write(const figure& f, const std::vector<point_result>& results, const nlohmann::ordered_json& about);

 private:
  support::output_file json_, csv_, chart_;
  figure_metric metric_;
  chart_options look_;
};

/// Prints the results, writes the files, and returns the exit status.
int show(figure_outputs& to, const figure_options& o, const nlohmann::ordered_json& about,
         const std::vector<point_result>& results, bool all_well);

/// The points of several files, and the headers of these files.
struct merged_results {
  std::vector<std::string> files;
  std::vector<point_result> results;
  std::vector<nlohmann::ordered_json> headers;
};

/// Adds the results in the text of a file that --json wrote, or in lines that --point printed. Throws bad_input, or
/// the exceptions of result_from_json(). The attacker is the file's author, who must not be able to change the
/// appearance of other results.
void add_results(const std::string& file, const std::string& text, merged_results& into);

/// Throws bad_input with a message of one line unless all simulated results may be parts of one sweep: from one build
/// of usher, on one machine, with the same settings, and no point twice.
void check_one_sweep(const merged_results& merged);

/// Removes duplicate results and returns their number. Throws bad_input with a message of one line if two results of
/// one point differ, or if machines with the same name differ.
std::size_t remove_duplicates(merged_results& merged);

/// Returns the builds that made the results, each as "0.2.0 (commit)".
std::vector<std::string> builds_of(const merged_results& merged);

/// Returns the keys of a JSON file that precede its points.
nlohmann::ordered_json about(const merged_results& merged);

/// Returns the lines of a chart's caption, made from the keys of a JSON file that precede its points. A line that
/// several merged runs have in common appears once.
std::vector<std::string> caption_of(const nlohmann::ordered_json& about);

/// A line for each point.
std::string csv_of(const std::vector<point_result>& results);

/// Carries out --merge: shows the results of files. Returns the exit status.
int merge(const figure_options& o);

}  // namespace usher::lab
