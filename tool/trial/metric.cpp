#include "tool/trial/metric.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <re2/re2.h>

#include "support/process/process.hpp"

namespace usher::tool {

namespace {

re2::RE2::Options bytewise() {
  re2::RE2::Options o;
  o.set_log_errors(false);
  o.set_encoding(re2::RE2::Options::EncodingLatin1);  // a program's output may be no UTF-8
  return o;
}

}  // namespace

metric_pattern::metric_pattern(const std::string& regex) : regex_(std::make_shared<const re2::RE2>(regex, bytewise())) {
  if (!regex_->ok()) throw bad_pattern(regex_->error());
}

bool metric_pattern::has_group() const {
  return regex_->NumberOfCapturingGroups() > 0;
}

// Finds all matches. With a pattern such as ([0-9])(.*x)? each match reads the rest of the line, so a long line takes
// quadratic time: the loop ends when the user interrupts.
std::vector<std::pair<std::size_t, std::size_t>> metric_pattern::all_in(std::string_view line) const {
  const re2::StringPiece text(line.data(), line.size());
  std::vector<std::pair<std::size_t, std::size_t>> found;
  re2::StringPiece m[2];
  for (std::size_t at = 0; at <= line.size() && support::interrupted() == 0;) {
    if (!regex_->Match(text, at, line.size(), re2::RE2::UNANCHORED, m, 2)) break;
    const auto begin = static_cast<std::size_t>(m[0].data() - line.data());
    at = std::max(begin + m[0].size(), begin + (m[0].empty() ? 1 : 0));
    if (m[1].data() != nullptr) found.emplace_back(m[1].data() - line.data(), m[1].size());
  }
  return found;
}

std::optional<std::string> metric_pattern::last_in(std::string_view text) const {
  for (;;) {
    const std::size_t feed = text.rfind('\n');
    const std::string_view line = text.substr(feed + 1);  // npos + 1 is 0: all of it
    if (const auto found = all_in(line); !found.empty())
      return std::string(line.substr(found.back().first, found.back().second));
    if (feed == std::string_view::npos) return std::nullopt;
    text = text.substr(0, feed);
  }
}

void metric_pattern::mask(std::string& line) const {
  std::string masked;
  std::size_t done = 0;
  for (const auto& [at, length] : all_in(line)) {
    masked.append(line, done, at - done) += "0.0";
    done = at + length;
  }
  line = masked.append(line, done);
}

std::optional<double> number_of(std::string text) {
  static const re2::RE2 whole(R"([+-]?([0-9]{1,3}(,[0-9]{3})+|[0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?)");
  const std::size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r,.");
  if (end == std::string::npos || begin > end || end - begin > 100) return std::nullopt;
  text = text.substr(begin, end - begin + 1);
  if (!re2::RE2::FullMatch(text, whole)) return std::nullopt;
  std::erase(text, ',');
  char* rest = nullptr;
  const double v = std::strtod(text.c_str(), &rest);
  if (rest == text.c_str() || *rest != '\0' || !std::isfinite(v)) return std::nullopt;
  return v;
}

}  // namespace usher::tool
