#include "check/command/interleaving.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace usher::check::command {
namespace {

std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, shown_width(text)), ' ');
}

std::string cut(std::string line, std::size_t width) {
  line.erase(line.find_last_not_of(' ') + 1);
  if (width == 0 || shown_width(line) <= width) return line;
  std::size_t at = 0;
  for (std::size_t shown = 0; at < line.size(); ++at)
    if ((static_cast<unsigned char>(line[at]) & 0xc0) != 0x80 && ++shown == width) break;
  return line.substr(0, at) + "…";
}

}  // namespace

std::string format_interleaving(const std::vector<step>& steps, std::size_t before, unsigned threads,
                                std::size_t width) {
  if (steps.empty()) return "";
  for (const step& s : steps) threads = std::max(threads, s.thread + 1);
  std::vector<std::size_t> widths(threads, 8);
  for (std::size_t i = 0; i + 1 < steps.size(); ++i)
    widths[steps[i].thread] = std::max(widths[steps[i].thread], shown_width(steps[i].what));

  std::string text = "  step  ";
  for (unsigned t = 0; t < threads; ++t) text += padded(fmt::format("thread {}", t), widths[t]) + "  ";
  text = cut(text + "source", width) + "\n";
  if (before != 0) text += fmt::format("        … {} steps before\n", before);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const step& s = steps[i];
    const std::string source = s.file.empty() ? "" : fmt::format("{}:{}  {}", s.file, s.line, s.code);
    std::string line = fmt::format("{:>6}  ", before + i + 1);
    if (i + 1 == steps.size()) {  // the failure: its text spans all columns
      text += cut(line + fmt::format("thread {}: {}", s.thread, s.what), 0) + "\n";
      if (!source.empty()) text += cut("        " + source, width) + "\n";
      break;
    }
    for (unsigned t = 0; t < threads; ++t) line += padded(t == s.thread ? s.what : "", widths[t]) + "  ";
    text += cut(line + source, width) + "\n";
  }
  return text;
}

}  // namespace usher::check::command
