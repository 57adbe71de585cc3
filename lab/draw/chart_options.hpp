// The options of a chart: its file, title, size and axes.
#pragma once

#include <string>

#include "lab/draw/axis.hpp"
#include "lab/draw/image_size.hpp"

namespace CLI {
class App;
}

namespace usher::lab {

struct chart_options {
  std::string title;  ///< empty: the command's own
  std::string size;   ///< "800x600"; empty: 800 wide, and the height of the content
  std::string log;    ///< "x", "y", "xy", "none"; empty: automatic

  image_size pixels() const;
  scale horizontal() const;
  scale vertical() const;
};

/// Whether the name of --chart is empty or ends in .svg, in upper or lower case. False after an error message.
bool is_chart_name(const std::string& name);

/// Adds --title, --size and --log; they need the option --chart, already added. The parser refuses bad values. `log`: the help text of
/// --log; if empty, --log is left out.
void add_chart_options(CLI::App& to, chart_options& o, const std::string& log);

}  // namespace usher::lab
