// Reads the input as a result file, as `usher check --show` does, and makes every kind of output from it.
#include "check/command/check_json.hpp"
#include "check/command/check_report.hpp"
#include "fuzz.hpp"
#include "support/text/input_file.hpp"

USHER_FUZZ_TARGET(check_show) {
  using namespace check::command;
  const usher::check::command::results r =
      usher::check::command::results_from(usher::support::parsed_json(as_text(input)));
  use(usher::check::command::table_text(r, 100));
  use(usher::check::command::failures_text(r, 80));
  use(usher::check::command::summary_text(r));
  use(usher::check::command::json_of(r).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}
