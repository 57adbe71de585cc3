#include "lab/draw/lock_looks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "lab/draw/chart_symbols.hpp"
#include "support/command/lock_facts.hpp"
#include "usher/core/ways_of_waiting.hpp"

namespace usher::lab {
namespace {

/// A colour, and the symbol of the first lock that has it. The others have the symbols after it.
struct family {
  colour ink;
  std::size_t first_symbol;
};

// Indexed by the catalogue's headings in their order; a tenth would begin again. The colours are Okabe and Ito's, for
// readers with any colour vision; darker where theirs are too pale on white. Grey is for the last one, the baselines: the C
// library's mutexes, and no lock at all.
constexpr std::array families{
    family{{0.90, 0.62, 0.00}, symbol_place("plus")},     // any thread may take the word
    family{{0.83, 0.33, 0.00}, symbol_place("right")},    // tickets
    family{{0.00, 0.36, 0.66}, symbol_place("down")},     // tickets and an array
    family{{0.00, 0.55, 0.40}, symbol_place("left")},     // queues
    family{{0.45, 0.32, 0.18}, symbol_place("star")},     // cohorts
    family{{0.80, 0.45, 0.65}, symbol_place("up")},       // few threads circulate
    family{{0.28, 0.64, 0.85}, symbol_place("square")},   // … loiter
    family{{0.47, 0.10, 0.88}, symbol_place("disc")},     // … steady
    family{{0.25, 0.25, 0.25}, symbol_place("diamond")},  // to compare with
};

/// Dashes of the lines, indexed by the way of waiting. A seventh way would have the dashes of the first.
const std::array<std::vector<double>, 6> dash_patterns{
    {{7, 3}, {}, {10, 3, 2, 3}, {2.5, 2.5}, {1.2, 4}, {10, 3, 2, 3, 2, 3}}};

struct name_parts {
  std::string_view base;
  std::size_t dashes;
};

name_parts parts_of(std::string_view name) {
  std::size_t plain = 0;
  for (std::size_t i = 0; i < ways_detail::table.size(); ++i) {
    const std::string_view suffix = ways_detail::table[i].suffix;
    if (suffix.empty())
      plain = i;
    else if (name.size() > suffix.size() && name.ends_with(suffix))
      return {name.substr(0, name.size() - suffix.size()), i % dash_patterns.size()};
  }
  return {name, plain % dash_patterns.size()};
}

/// FNV-1a. std::hash is not used, since its values differ between libraries.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h ^ h >> 32;
}

/// A lock of the catalogue.
struct lock_family_member {
  std::string_view name;
  std::size_t family;  ///< the number of the heading above the lock's line
  std::size_t member;  ///< the number of the lock below the heading
};

const std::vector<lock_family_member>& lock_families() {
  static const std::vector<lock_family_member> all = [] {
    std::vector<lock_family_member> members;
    std::string_view heading;
    for (const support::lock_facts& f : support::all_lock_facts()) {
      if (members.empty())
        members.push_back({f.family, 0, 0});
      else if (f.heading == heading)
        members.push_back({f.family, members.back().family, members.back().member + 1});
      else
        members.push_back({f.family, members.back().family + 1, 0});
      heading = f.heading;
    }
    return members;
  }();
  return all;
}

/// `further`: the number of symbols by which a lock differs from the member.
lock_look look_beside(const lock_family_member& m, std::size_t further, std::size_t dashes) {
  const std::size_t hue = m.family % families.size();
  return {hue, (families[hue].first_symbol + m.member + further) % symbol_count, dashes};
}

/// The look of a lock outside the catalogue. If the name begins with a lock's name, it has the colour of the longest such
/// lock, and another symbol. Else its hash decides: on a colour, but grey stays for the baselines, and on one of the last
/// symbols, which most families do not reach.
lock_look look_by_beginning(std::string_view base, std::size_t dashes) {
  const std::uint64_t hash = hash_of(base);
  const lock_family_member* nearest = nullptr;
  for (const lock_family_member& m : lock_families())
    if (base.starts_with(m.name) && (nearest == nullptr || m.name.size() > nearest->name.size())) nearest = &m;
  if (nearest != nullptr) return look_beside(*nearest, 1 + hash % (symbol_count - 1), dashes);
  const std::size_t member = symbol_count - 1 - hash / families.size() % 3;
  return look_beside({.name = base, .family = hash % (families.size() - 1), .member = member}, 0, dashes);
}

/// The n-th look to try if `wanted` is taken. Symbols vary fastest, or dashes if `dashes_first`; colours vary slowest.
lock_look alternative(const lock_look& wanted, std::size_t n, bool dashes_first) {
  const std::size_t d = dash_patterns.size(), s = symbol_count;
  const std::size_t dashes = dashes_first ? n % d : n / s % d, symbol = dashes_first ? n / d % s : n % s;
  const std::size_t hue = (wanted.hue + n / (s * d)) % families.size();
  return {hue, (wanted.symbol + symbol) % s, (wanted.dashes + dashes) % d};
}

}  // namespace

lock_look look_of(const std::string& lock) {
  const auto [base, dashes] = parts_of(lock);
  for (const lock_family_member& m : lock_families())
    if (m.name == base) return look_beside(m, 0, dashes);
  return look_by_beginning(base, dashes);
}

std::vector<lock_look> looks_of(const std::vector<shown_lock>& shown) {
  std::vector<std::size_t> order(shown.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shown[a].name < shown[b].name; });
  std::vector<lock_look> looks(shown.size());
  std::vector<lock_look> taken;
  const auto find = [&](std::size_t i, bool dashes_first) {
    const lock_look own = look_of(shown[i].lock);
    const std::size_t all = families.size() * symbol_count * dash_patterns.size();
    lock_look l = own;
    for (std::size_t n = 0; n < all && std::find(taken.begin(), taken.end(), l) != taken.end(); ++n)
      l = alternative(own, n, dashes_first);
    looks[i] = l;
    taken.push_back(l);
  };
  // Finds looks for one curve of each lock first, then for the curves of the same locks with other settings.
  std::set<std::string> seen;
  std::vector<std::size_t> others;
  for (const std::size_t i : order) {
    if (seen.insert(shown[i].lock).second)
      find(i, false);
    else
      others.push_back(i);
  }
  for (const std::size_t i : others) find(i, true);
  return looks;
}

colour ink_of(const lock_look& look) {
  return families[look.hue].ink;
}

const std::vector<double>& dashes_of(const lock_look& look) {
  return dash_patterns[look.dashes];
}

void draw_symbol(canvas& on, point at, const lock_look& look, double size, bool hollow) {
  const double radius = symbol_radius * size;
  if (hollow)
    draw_hollow_symbol(on, at, look.symbol, radius, ink_of(look));
  else
    draw_symbol(on, at, look.symbol, radius, ink_of(look));
}

}  // namespace usher::lab
