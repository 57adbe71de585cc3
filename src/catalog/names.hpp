// Names of locks: what `catalog.list` has, without any of the locks' code.
#pragma once

#include <string_view>

namespace usher::inline v1 {

/// The lock that is used where none is named.
inline constexpr const char* default_lock = "steady";

/// "mcs-stp" says in full what "mcs" means.
constexpr std::string_view without_default_suffix(std::string_view name) {
  constexpr std::string_view suffix = "-stp";
  return name.size() > suffix.size() && name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

/// The fewest insertions, deletions, exchanges of letters that turn one into the other; names beyond 32 letters are
/// cut. No allocation.
constexpr unsigned edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t most = 32;
  a = a.substr(0, most);
  b = b.substr(0, most);
  unsigned row[most + 1] = {};
  for (unsigned j = 0; j <= b.size(); j++) row[j] = j;
  for (unsigned i = 1; i <= a.size(); i++) {
    unsigned diagonal = row[0];
    row[0] = i;
    for (unsigned j = 1; j <= b.size(); j++) {
      const unsigned above = row[j];
      const unsigned change = diagonal + (a[i - 1] != b[j - 1]);
      const unsigned shift = (above < row[j - 1] ? above : row[j - 1]) + 1;
      row[j] = change < shift ? change : shift;
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// Finds the name nearest to a misspelt one among those it is shown; the first of those equally near.
class nearest_name {
 public:
  constexpr explicit nearest_name(std::string_view misspelt) : misspelt_(misspelt) {}

  constexpr void consider(std::string_view name) {
    const unsigned d = edit_distance(misspelt_, name);
    if (best_.empty() || d < distance_) {
      best_ = name;
      distance_ = d;
    }
  }
  constexpr std::string_view best() const { return best_; }

 private:
  std::string_view misspelt_, best_;
  unsigned distance_ = 0;
};

}  // namespace usher::inline v1
