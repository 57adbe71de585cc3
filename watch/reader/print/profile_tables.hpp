// The stacks of a report as the formats of profilers store them: strings, functions, locations and mappings, each once, with
// numbers by which they refer to each other.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/text/utf8.hpp"
#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

inline constexpr std::string_view beyond = "[truncated]";  ///< the outermost function of a stack that was cut
inline constexpr std::string_view no_stack = "[unknown]";

inline std::string_view name_of_kind(kind k) {
  return k == kind::none ? "unknown" : contract::kind_names[int(k)];
}

/// Calls f(row, stack) for each waiter's stack in the report.
template <class F>
void each_waiter(const report& r, F f) {
  for (const row& of : r.rows)
    for (const charged_stack& s : of.waiters) f(of, s);
}

/// The numbers of strings begin with 0, which is the empty one; all others begin with 1, and 0 means none.
class profile_tables {
 public:
  struct place {
    std::uint64_t mapping = 0, address = 0;
    std::vector<std::pair<std::uint64_t, unsigned>> lines;  // function, line
    auto operator<=>(const place&) const = default;
  };
  using module_in_process = std::pair<std::string, std::uint64_t>;  // path, first address
  struct mapping_entry {
    std::uint64_t id = 0, start = 0, limit = 0;
    bool has_functions = false, has_files = false;
  };

  profile_tables() { string(""); }  // the first must be empty

  std::int64_t string(std::string_view s) {
    const auto [known, is_new] =
        strings_.try_emplace(support::printable(s), strings_.size());  // readers insist on UTF-8
    if (is_new) texts_.push_back(&known->first);
    return static_cast<std::int64_t>(known->second);
  }
  /// Adds a location for one address, whose frames are the inlined functions, the innermost first, and the function
  /// that contains them.
  std::uint64_t location(std::span<const frame> frames) {
    place p;
    const frame& outer = frames.back();
    p.mapping = mapping(outer);
    p.address = outer.address;
    for (const frame& f : frames)
      if (!f.function.empty()) p.lines.emplace_back(function(f.function, f.file), f.line);
    return location(std::move(p));
  }
  std::uint64_t location(std::string_view name) { return location(place{0, 0, {{function(name, ""), 0}}}); }

  /// The locations of a stack, innermost first. One without frames has a location that says so, and so has the end of one that
  /// was cut.
  std::vector<std::uint64_t> locations(const stack& where) {
    std::vector<std::uint64_t> found;
    const std::span<const frame> frames(where.frames);
    for (std::size_t begin = 0, i = 0; i < frames.size(); i++)
      if (!frames[i].is_inlined || i + 1 == frames.size()) {
        found.push_back(location(frames.subspan(begin, i + 1 - begin)));
        begin = i + 1;
      }
    if (found.empty()) found.push_back(location(no_stack));
    if (where.is_cut) found.push_back(location(beyond));
    return found;
  }

  const std::vector<const std::string*>& strings() const { return texts_; }
  const std::map<module_in_process, mapping_entry>& mappings() const { return mappings_; }
  const std::map<place, std::uint64_t>& places() const { return places_; }
  const std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t>& functions() const { return functions_; }

 private:
  std::uint64_t location(place p) { return places_.try_emplace(std::move(p), places_.size() + 1).first->second; }
  std::uint64_t function(std::string_view name, std::string_view file) {
    const std::pair key{string(name), string(file)};
    return functions_.try_emplace(key, functions_.size() + 1).first->second;
  }
  /// The number of the mapping of the frame's module; 0 if the code is in no file. A module has a mapping for each
  /// address at which processes map it.
  std::uint64_t mapping(const frame& f) {
    if (f.module.empty()) return 0;
    const std::uint64_t start = f.address - f.offset;
    mapping_entry& m = mappings_[{f.module, start}];
    if (m.id == 0) m.id = mappings_.size();
    m.start = start;
    m.limit = std::max(m.limit, (f.address / 4096 + 1) * 4096);
    m.has_functions |= !f.function.empty();
    m.has_files |= !f.file.empty();
    return m.id;
  }

  std::map<std::string, std::size_t, std::less<>> strings_;
  std::vector<const std::string*> texts_;
  std::map<module_in_process, mapping_entry> mappings_;
  std::map<place, std::uint64_t> places_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> functions_;
};

}  // namespace usher::reader
