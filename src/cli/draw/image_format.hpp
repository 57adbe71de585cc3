// What a chart's file can be.
#pragma once

#include <optional>
#include <string_view>

namespace usher::cli {

enum class image_format { svg, png };

/// In pixels; 0: as is usual.
struct image_size {
  unsigned width = 0, height = 0;
};

/// By the name's ending, in any case; nullopt: it is neither.
std::optional<image_format> image_format_of(std::string_view file_name);

}  // namespace usher::cli
