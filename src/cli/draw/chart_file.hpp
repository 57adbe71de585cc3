// The option --chart: a picture that is written at the end of the work.
#pragma once

#include <exception>
#include <string>

#include "cli/draw/drawing.hpp"
#include "cli/draw/image_format.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"

namespace usher::cli {

/// Whether the name is empty or has the ending of an image format. False after an error message.
inline bool is_chart_name(const std::string& name) {
  const bool good = name.empty() || image_format_of(name);
  if (!good) report_error("--chart {}: the file's name must end in .svg or .png", name);
  return good;
}

/// Whether a chart can be drawn, if a name is given; to be called before the work begins. False after an error message.
inline bool can_draw(const std::string& name) {
  const std::string reason = name.empty() ? "" : load_drawing();
  if (!reason.empty()) report_error("--chart {}: {}", name, reason);
  return reason.empty();
}

/// False after an error message.
template <class Chart>
bool write_chart(output_file& file, const Chart& c, image_format format) {
  try {
    return file.write(drawn(c, format));
  } catch (const std::exception& e) {
    report_error("--chart: cannot be drawn: {}", e.what());
    return false;
  }
}

}  // namespace usher::cli
