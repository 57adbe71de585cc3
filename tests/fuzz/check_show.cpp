// Reads the input as a result file, as `usher check --show` does, and makes every kind of output from it.
#include "check/command/check_json.hpp"
#include "check/command/check_report.hpp"
#include "fuzz.hpp"
#include "support/text/input_file.hpp"

USHER_FUZZ_TARGET(check_show) {
  using namespace cli::checking;
  const results r = results_from(cli::parsed_json(as_text(input)));
  use(table_text(r, 100));
  use(failures_text(r, 80));
  use(summary_text(r));
  use(json_of(r).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}
