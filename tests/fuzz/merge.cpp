// What `usher sim --merge` reads, and all that it makes of it but pictures.
#include "cli/sweep/figure.hpp"
#include "cli/sweep/figure_chart.hpp"
#include "cli/sweep/figure_files.hpp"
#include "cli/sweep/figure_metric.hpp"
#include "cli/sweep/figure_text.hpp"
#include "fuzz.hpp"

USHER_FUZZ_TARGET(merge) {
  using namespace cli;
  merged_results merged;
  add_results(std::string(fuzz::as_text(input)), merged);
  const figure f = figure_of(merged.results);
  use(title_of(f));
  use(table_text(f, 100));
  use(legend_text(f));
  use(plot_text(f));
  use(details_text(f, 80));
  use(csv_of(merged.results));
  const auto header = about(merged);
  for (const char* const metric : {"throughput", "latency", "guests.latency-p99", "switches", "hand-over"})
    use(chart_of(f, merged.results, figure_metric_named(metric), caption_of(header)).title);
  use(header.dump());
}
