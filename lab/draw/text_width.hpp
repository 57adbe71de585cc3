// The width of text by a table, and text that is cut or broken to a width. The viewer's font decides the real width, so
// the table is that of a wide font, with a margin for wider ones.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace usher::lab {

struct font {
  double size;
  bool bold = false;
};

/// In pixels, with the margin.
double text_width(const std::string& what, const font& f);

/// The text, or as much of its beginning as fits.
std::string shortened(const std::string& what, const font& f, double room);

/// The text in lines, broken between words. Text after `most` lines is cut off.
std::vector<std::string> broken(const std::string& what, const font& f, double room, std::size_t most);

}  // namespace usher::lab
