#include "cli/draw/image_format.hpp"

#include <algorithm>
#include <cctype>

namespace usher::cli {

std::optional<image_format> image_format_of(std::string_view file_name) {
  const auto ends_with = [&](std::string_view ending) {
    return file_name.size() > ending.size() &&
           std::equal(ending.rbegin(), ending.rend(), file_name.rbegin(),
                      [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  };
  if (ends_with(".svg")) return image_format::svg;
  if (ends_with(".png")) return image_format::png;
  return std::nullopt;
}

}  // namespace usher::cli
