// The formats and sizes of a chart's file.
#pragma once

#include <optional>
#include <string_view>

namespace usher::cli {

enum class image_format { svg, png };

/// In pixels; 0: the default.
struct image_size {
  unsigned width = 0, height = 0;
};

/// The format of the name's ending, in upper or lower case; nullopt: neither.
std::optional<image_format> image_format_of(std::string_view file_name);

}  // namespace usher::cli
