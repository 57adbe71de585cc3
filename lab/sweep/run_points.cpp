#include "lab/sweep/run_points.hpp"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "lab/sweep/point_json.hpp"
#include "support/process/files.hpp"
#include "support/process/near.hpp"
#include "support/process/process.hpp"
#include "support/process/side_by_side.hpp"
#include "support/text/messages.hpp"
#include "support/text/progress.hpp"
#include "support/text/words.hpp"

namespace usher::lab {
namespace {

/// The error message that a point's process printed, without the "usher: " before it.
std::string error_of(const std::string& err) {
  const std::string line = support::last_line(err), prefix = "usher: ";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}

void note(planned_point& p, const support::ended_run& run, double limit, const figure_command& c) try {
  if (run.timed_out) {
    p.error = fmt::format("no end after {:g} s", limit);
  } else if (run.end.way != support::ended::how::exited) {
    p.error = fmt::format("was ended by signal {}", run.end.status);
  } else if (run.end.status != 0) {
    p.error = error_of(run.err);
  } else {
    p.result = result_from_json(nlohmann::ordered_json::parse(run.out));
    if (c.judge) p.error = c.judge(*p.result);
  }
} catch (const std::exception&) {  // of JSON: a wrong syntax, type or range
  p.error = "printed no result";
}

/// "seed 3" or "round 3".
std::string repetition_of(const sweep_point& p) {
  return p.seed ? fmt::format("seed {}", *p.seed) : fmt::format("round {}", p.round.value_or(0));
}

}  // namespace

int list_points(const figure_command& c, const std::vector<planned_point>& points) {
  // The printed command lines name the `usher` of this build, because another one in PATH may have another model of the
  // machine.
  const std::filesystem::path beside = support::own_tree() / "bin" / "usher";
  const std::string usher = support::is_file(beside) ? beside.native() : support::own_path().native();
  for (const planned_point& p : points)
    fmt::print("{}\n", support::shell_line({usher, c.name, "--point", json_text(p.point)}));
  return 0;
}

bool run_points(const figure_command& c, const figure_options& o, unsigned jobs, const std::vector<std::size_t>& order,
                std::vector<planned_point>& points) {
  const std::string self = support::own_path();
  if (self.empty()) throw std::runtime_error("cannot tell where this program is, to run it for each point");
  support::watch_for_interruption();
  support::progress bar(points.size(), o.quiet);
  std::size_t given = 0;
  support::run_side_by_side(
      jobs,
      [&]() -> std::optional<support::command_to_run> {
        if (given == order.size()) return std::nullopt;
        const std::size_t id = order[given++];
        return support::command_to_run{{self, c.name, "--point", json_text(points[id].point)}, o.limit, id};
      },
      [&](std::size_t id, const support::ended_run& run) {
        note(points[id], run, o.limit, c);
        bar.one_done();
        bar.show(points[id].point.lock);
      });
  bar.clear();
  bool all_well = true;
  for (const planned_point& p : points) {
    if (p.error.empty()) continue;
    all_well = false;
    support::report_error("{}, {} threads, {}: {}", p.point.lock, p.point.threads, repetition_of(p.point), p.error);
  }
  return all_well;
}

}  // namespace usher::lab
