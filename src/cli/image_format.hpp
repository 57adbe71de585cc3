// What a chart's file can be.
#pragma once

#include <optional>
#include <string_view>

namespace usher::cli {

enum class image_format { svg, png };

/// By the name's ending, in any case; nullopt: it is neither.
std::optional<image_format> image_format_of(std::string_view file_name);

}  // namespace usher::cli
