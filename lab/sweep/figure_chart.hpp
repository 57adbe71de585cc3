// A figure as a chart of curves.
#pragma once

#include <string>
#include <vector>

#include "lab/draw/curves.hpp"
#include "lab/sweep/figure.hpp"
#include "lab/sweep/figure_metric.hpp"

namespace usher::lab {

/// A chart of the metric's medians and ranges. `caption`: place, date and build of the results.
curve_chart chart_of(const figure& f, const std::vector<point_result>& results, const figure_metric& m,
                     const std::vector<std::string>& caption);

}  // namespace usher::lab
