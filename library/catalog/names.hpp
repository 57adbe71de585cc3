// Functions for the names of locks, without the locks' code.
#pragma once

#include <string_view>

namespace usher::inline v2 {

/// The lock that serves where the user names none.
inline constexpr const char* default_lock = "steady";

/// Removes the suffix "-stp" of the default way of waiting (spin, then park): "mcs-stp" also names "mcs".
constexpr std::string_view without_default_suffix(std::string_view name) {
  constexpr std::string_view suffix = "-stp";
  return name.size() > suffix.size() && name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

/// The optimal string alignment distance: the smallest number of insertions, deletions, replacements and swaps of
/// neighbouring letters that turns `a` into `b` with no letter changed twice. Compares the first 32 letters.
constexpr unsigned edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t most = 32;
  a = a.substr(0, most);
  b = b.substr(0, most);
  unsigned rows[3][most + 1] = {};  // the matrix's rows i, i - 1 and i - 2; row i is rows[i % 3]
  for (unsigned j = 0; j <= b.size(); j++) rows[0][j] = j;
  for (unsigned i = 1; i <= a.size(); i++) {
    unsigned(&row)[most + 1] = rows[i % 3], (&above)[most + 1] = rows[(i - 1) % 3];
    row[0] = i;
    for (unsigned j = 1; j <= b.size(); j++) {
      const unsigned change = above[j - 1] + (a[i - 1] != b[j - 1]);
      const unsigned shift = (above[j] < row[j - 1] ? above[j] : row[j - 1]) + 1;
      row[j] = change < shift ? change : shift;
      if (i == 1 || j == 1 || a[i - 1] != b[j - 2] || a[i - 2] != b[j - 1]) continue;
      const unsigned swap = rows[(i - 2) % 3][j - 2] + 1;
      if (swap < row[j]) row[j] = swap;
    }
  }
  return rows[a.size() % 3][b.size()];
}

/// Finds the name nearest to a misspelt one among the names passed to consider(), or the first of equally near names.
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

  /// Returns the nearest name. Returns an empty text if the name's distance from the misspelt one is more than a third
  /// of the misspelt name's letters, and more than 1.
  constexpr std::string_view best() const {
    const std::size_t most_changes = misspelt_.size() < 6 ? 1 : misspelt_.size() / 3;
    return distance_ <= most_changes ? best_ : std::string_view();
  }

 private:
  std::string_view misspelt_, best_;
  unsigned distance_ = 0;
};

}  // namespace usher::inline v2
