// Reads the input as result files, as `usher sim --merge` does, and makes every kind of output but pictures from them.
// Also reads the input as the argument of --point.
#include "fuzz.hpp"
#include "lab/sweep/figure.hpp"
#include "lab/sweep/figure_chart.hpp"
#include "lab/sweep/figure_files.hpp"
#include "lab/sweep/figure_metric.hpp"
#include "lab/sweep/figure_text.hpp"
#include "lab/sweep/point_json.hpp"
#include "support/text/input_file.hpp"

USHER_FUZZ_TARGET(merge) {
  usher::lab::merged_results merged;
  // The input contains two files for --merge, separated by a line "----".
  const std::string_view text = fuzz::as_text(input);
  const std::size_t cut = std::min(text.find("\n----\n"), text.size());
  try {
    use(usher::lab::json_text(usher::lab::point_from_text(std::string(text))));  // the argument of --point
  } catch (const std::exception&) {
  }
  usher::lab::add_results("first", std::string(text.substr(0, cut)), merged);
  if (cut != text.size()) usher::lab::add_results("second", std::string(text.substr(cut + 6)), merged);
  try {
    usher::lab::check_one_sweep(merged);
  } catch (const usher::support::bad_input& e) {  // not the results of one sweep: --mixed shows them nevertheless
    use(e.what());
  }
  use(std::to_string(usher::lab::remove_duplicates(merged)));
  for (const std::string& build : usher::lab::builds_of(merged)) use(build);
  const usher::lab::figure f = usher::lab::figure_of(merged.results);
  use(usher::lab::title_of(f));
  use(usher::lab::table_text(f, 100));
  use(usher::lab::legend_text(f));
  use(usher::lab::plot_text(f));
  use(usher::lab::details_text(f, 80));
  use(usher::lab::csv_of(merged.results));
  const auto header = usher::lab::about(merged);
  for (const char* const metric : {"throughput", "latency", "guests.latency-p99", "switches", "hand-over"})
    use(usher::lab::chart_of(f, merged.results, usher::lab::figure_metric_named(metric), usher::lab::caption_of(header))
            .title);
  use(header.dump());
}
