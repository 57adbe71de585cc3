#include "lab/draw/lock_looks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <set>
#include <string_view>

#include "lab/draw/chart_symbols.hpp"
#include "usher/core/ways_of_waiting.hpp"

namespace usher::cli {
namespace {

constexpr std::size_t most_members = symbol_count;

/// A colour and the locks that have it. The symbol of member i is `first_symbol` + i, so new locks are appended: the
/// symbols of the others do not change.
struct family {
  colour ink;
  std::size_t first_symbol;
  std::array<std::string_view, most_members> members;
};

// The colours are Okabe and Ito's, for readers with any colour vision; darker where theirs are too pale on white. Grey is for the
// baselines: the C library's mutexes, and no lock at all.
constexpr std::array families{
    family{{0.25, 0.25, 0.25}, symbol_place("diamond"), {"pthread", "pthread-adaptive", "null"}},
    family{{0.47, 0.10, 0.88}, symbol_place("disc"), {"steady"}},
    family{{0.28, 0.64, 0.85},
           symbol_place("square"),
           {"loiter", "loiter-eager", "loiter-barging", "loiter-cap", "loiter-cull", "loiter-defer", "loiter-numa",
            "loiter-store", "loiter-cohort", "loiter-flux"}},
    family{{0.80, 0.45, 0.65},
           symbol_place("up"),
           {"mcscr", "mcscrn", "lifo", "lifo-cr", "lifo-cr-ahead", "lifo-cr-stack"}},
    family{{0.00, 0.36, 0.66},
           symbol_place("down"),
           {"twa", "twa32", "twa-sized", "twa-private", "twa-quantized", "twa-staged", "twa-id", "twa-chain"}},
    family{{0.83, 0.33, 0.00},
           symbol_place("right"),
           {"ticket", "ticket-xadd", "ticket-backoff", "ticket32", "partitioned-ticket", "anderson", "awn", "tkt-dual",
            "three-stage", "three-stage-try"}},
    family{{0.00, 0.55, 0.40},
           symbol_place("left"),
           {"mcs", "mcs-pt", "mcsg", "mcsg+", "mcsg++", "clh", "clh-tls", "k42", "k42-tls", "qspinlock", "mcs-ahead"}},
    family{{0.90, 0.62, 0.00},
           symbol_place("plus"),
           {"ttas", "tas", "futex", "fairlock", "fairlock-wide", "tas-delay", "tas-fair", "ttas-fair"}},
    family{{0.45, 0.32, 0.18},
           symbol_place("star"),
           {"c-bo-mcs", "c-bo-clh", "c-bo-tkt", "c-mcs-mcs", "c-clh-clh", "c-tkt-mcs", "c-tkt-tkt", "c-ptl-tkt",
            "c-mcsg-mcs", "c-bo-mcsg++"}},
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

/// The look of a lock outside the table. If the name begins with a member's name, it has the colour of the longest such
/// member's family, and another symbol than that member; else its hash decides.
lock_look look_by_beginning(std::string_view base, std::size_t dashes) {
  const std::uint64_t hash = hash_of(base);
  lock_look found{1 + hash % (families.size() - 1), hash / families.size() % symbol_count, dashes};
  std::size_t longest = 0;
  for (std::size_t f = 1; f < families.size(); ++f)
    for (std::size_t m = 0; m < most_members; ++m) {
      const std::string_view member = families[f].members[m];
      if (member.size() <= longest || !base.starts_with(member)) continue;
      longest = member.size();
      found.hue = f;
      found.symbol = (families[f].first_symbol + m + 1 + hash % (symbol_count - 1)) % symbol_count;
    }
  return found;
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
  for (std::size_t f = 0; f < families.size(); ++f) {
    const auto& members = families[f].members;
    const auto at = std::find(members.begin(), members.end(), base);
    if (at == members.end() || base.empty()) continue;
    const auto place = static_cast<std::size_t>(at - members.begin());
    return {f, (families[f].first_symbol + place) % symbol_count, dashes};
  }
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

}  // namespace usher::cli
