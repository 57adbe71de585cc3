// Reads the input as a result file, as `usher try --show` does, and makes every kind of output from it.
#include "fuzz.hpp"
#include "support/text/input_file.hpp"
#include "tool/trial/trial_json.hpp"
#include "tool/trial/trial_report.hpp"

USHER_FUZZ_TARGET(try_show) {
  using namespace cli::trial;
  const trial_results t = trial_from(cli::parsed_json(as_text(input)));
  if (t.has_values()) {
    use(table_text(t, 100, true));
    use(markdown_table(t));
    use(notes_text(t));
    use(details_text(t, 80));
    use(bars_text(t, 0));
    use(summary_text(t, 80));
  }
  use(conclusion_text(t, 80));
  use(json_of(t).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}
