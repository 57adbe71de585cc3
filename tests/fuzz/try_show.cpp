// Reads the input as a result file, as `usher try --show` does, and makes every kind of output from it.
#include "fuzz.hpp"
#include "support/text/input_file.hpp"
#include "tool/trial/trial_json.hpp"
#include "tool/trial/trial_report.hpp"

USHER_FUZZ_TARGET(try_show) {
  using namespace tool::trial;
  const usher::tool::trial::trial_results t =
      usher::tool::trial::trial_from(usher::support::parsed_json(as_text(input)));
  if (t.has_values()) {
    use(usher::tool::trial::table_text(t, 100, true));
    use(usher::tool::trial::markdown_table(t));
    use(usher::tool::trial::notes_text(t));
    use(usher::tool::trial::details_text(t, 80));
    use(usher::tool::trial::bars_text(t, 0));
    use(usher::tool::trial::summary_text(t, 80));
  }
  use(usher::tool::trial::conclusion_text(t, 80));
  use(usher::tool::trial::json_of(t).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}
