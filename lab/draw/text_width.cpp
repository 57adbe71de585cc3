#include "lab/draw/text_width.hpp"

#include <array>
#include <sstream>

#include "support/text/utf8.hpp"

namespace usher::lab {
namespace {

constexpr const char* cut = "…";

// Advance widths of DejaVu Sans 2.37, from its table hmtx, in thousandths of the font's size, for U+0020 to U+007E. English text in
// Liberation Sans, which has the widths of Arial, is 13 to 17 % narrower.
using widths = std::array<unsigned short, 95>;
constexpr widths regular{318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
                         636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
                         1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
                         603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
                         500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
                         635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};
constexpr widths bold{348,  456, 521, 838, 696, 1002, 872, 306,  457, 457, 523, 838, 380, 415,  380, 365,
                      696,  696, 696, 696, 696, 696,  696, 696,  696, 696, 400, 400, 838, 838,  838, 580,
                      1000, 774, 762, 734, 830, 683,  683, 821,  837, 372, 372, 775, 637, 995,  837, 850,
                      733,  850, 770, 720, 682, 812,  774, 1103, 771, 724, 725, 457, 365, 457,  838, 500,
                      500,  675, 716, 593, 716, 678,  435, 716,  712, 343, 343, 665, 343, 1042, 712, 687,
                      716,  716, 493, 595, 478, 712,  652, 924,  645, 652, 582, 712, 365, 712,  838};
constexpr double other_width = 1000;  // outside the table: the width of a Chinese character

// The factor by which the viewer's font may be wider than the table. Chosen, not measured. The attribute textLength
// cannot replace it: librsvg ignores it.
constexpr double for_other_fonts = 1.15;

double width_of(unsigned char c, const font& f) {
  if (c < ' ' || c > '~') return other_width;
  return (f.bold ? bold : regular)[c - ' '];
}

}  // namespace

double text_width(const std::string& what, const font& f) {
  double all = 0;
  for (const unsigned char c : support::printable(what))
    if ((c & 0xc0) != 0x80) all += width_of(c, f);  // one for each character
  return for_other_fonts * all / 1000 * f.size;
}

std::string shortened(const std::string& what, const font& f, double room) {
  std::string text = support::printable(what);
  if (text_width(text, f) <= room) return text;
  while (!text.empty() && text_width(text + cut, f) > room) support::drop_last_character(text);
  return text + cut;
}

std::vector<std::string> broken(const std::string& what, const font& f, double room, std::size_t most) {
  std::vector<std::string> lines = {""};
  std::istringstream in(support::printable(what));
  for (std::string word; in >> word;) {
    const std::string longer = lines.back().empty() ? word : lines.back() + " " + word;
    // The last allowed line gets all remaining words and is cut afterwards.
    if (lines.back().empty() || lines.size() == most || text_width(longer, f) <= room)
      lines.back() = longer;
    else
      lines.push_back(word);
  }
  for (std::string& l : lines) l = shortened(l, f, room);
  return lines;
}

}  // namespace usher::lab
