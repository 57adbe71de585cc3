// --chart: a picture that is written when the work is done.
#pragma once

#include <exception>
#include <string>

#include "cli/draw/drawing.hpp"
#include "cli/draw/image_format.hpp"
#include "cli/text/messages.hpp"
#include "cli/text/output_file.hpp"

namespace usher::cli {

/// No name, or one that says what the picture shall be. False after a complaint.
inline bool is_chart_name(const std::string& name) {
  const bool good = name.empty() || image_format_of(name);
  if (!good) complain("--chart {}: the file's name must end in .svg or .png", name);
  return good;
}

/// Whether a chart can be drawn at all, if one is wanted: asked before the work begins. False after a complaint.
inline bool can_draw(const std::string& name) {
  const std::string reason = name.empty() ? "" : load_drawing();
  if (!reason.empty()) complain("--chart {}: {}", name, reason);
  return reason.empty();
}

/// False after a complaint.
template <class Chart>
bool write_chart(output_file& file, const Chart& c, image_format format) {
  try {
    return file.write(drawn(c, format));
  } catch (const std::exception& e) {
    complain("--chart: cannot be drawn: {}", e.what());
    return false;
  }
}

}  // namespace usher::cli
