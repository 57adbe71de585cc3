// The table of a point's keys. Options, JSON, the columns of CSV files, the texts of figures and the checks of a
// point's numbers are made from this table.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lab/sweep/sweep_point.hpp"

namespace usher::lab {

/// A member of a point. Its type decides how the setting is read, written and shown. The JSON does not contain settings
/// that are 0, false, empty or absent.
using point_member = std::variant<bool sweep_point::*, unsigned sweep_point::*, std::uint64_t sweep_point::*,
                                  std::string sweep_point::*, std::optional<std::uint64_t> sweep_point::*,
                                  std::optional<double> sweep_point::*, std::map<std::string, long> sweep_point::*,
                                  machine_settings sweep_point::*, std::optional<varied_number> sweep_point::*>;

/// Whether the key is required: `in_points` requires it in the argument of --point; `in_results` also in results, even
/// in those of older versions.
enum class needed { no, in_points, in_results };

/// The order of the keys in CSV files and in the texts of figures. Keys with the same place are in the order of the
/// table.
enum class place { nowhere, point, jitter, pinned, setting };

/// How the heading of a figure and the names of its series show the setting: not at all, by its value, or by key and
/// value.
enum class words { none, value, key_and_value };

/// The part of --help that lists the option. `both`: `usher bench` has the option, too.
enum class option_part { times, threads, load, both };

/// An option that sets one member in all points of a sweep. An option with several values, which makes several points,
/// is not in the table.
struct point_option {
  const char* name = nullptr;  ///< null: there is none
  const char* type = nullptr;  ///< the placeholder of the value; null for flags
  const char* help = nullptr;
  option_part part = option_part::threads;
  double unit_ns = 1;               ///< of a duration; unless it is 1, fractions are allowed
  const char* automatic = nullptr;  ///< of a whole duration: the meaning of the value "auto"
};

struct point_key {
  const char* key;
  point_member member;
  needed need = needed::no;
  std::uint64_t least = 0, most = std::numeric_limits<std::uint64_t>::max();  ///< of a number
  place shown = place::setting;
  words said = words::key_and_value;
  bool last_column = false;  ///< in CSV files after the other settings
  point_option option{};
};

/// All keys, in the order of the JSON.
inline constexpr point_key point_keys[]{
    {.key = "workload",
     .member = &sweep_point::workload,
     .need = needed::in_points,
     .shown = place::point,
     .said = words::value},
    {.key = "machine",
     .member = &sweep_point::machine,
     .need = needed::in_points,
     .shown = place::point,
     .said = words::value},
    {.key = "machine_hash", .member = &sweep_point::machine_hash, .shown = place::nowhere, .said = words::none},
    {.key = "lock",
     .member = &sweep_point::lock,
     .need = needed::in_results,
     .shown = place::point,
     .said = words::none},
    {.key = "threads",
     .member = &sweep_point::threads,
     .need = needed::in_points,
     .least = 1,
     .most = 9999,
     .shown = place::point,
     .said = words::none},
    {.key = "seed", .member = &sweep_point::seed, .shown = place::point, .said = words::none},
    {.key = "round", .member = &sweep_point::round, .shown = place::point, .said = words::none},
    {.key = "run_ns",
     .member = &sweep_point::run_ns,
     .need = needed::in_points,
     .least = 1,
     .most = 100'000'000'000'000,
     .shown = place::point,
     .said = words::none},
    {.key = "pinned",
     .member = &sweep_point::pinned,
     .shown = place::pinned,
     .option = {.name = "--pinned", .help = "Threads stay on the CPUs that they begin on", .part = option_part::both}},
    {.key = "parameters", .member = &sweep_point::parameters, .shown = place::point, .said = words::value},
    {.key = "jitter", .member = &sweep_point::jitter, .most = 1, .shown = place::jitter},
    {.key = "machine_settings", .member = &sweep_point::settings, .shown = place::point, .said = words::value},
    {.key = "vary", .member = &sweep_point::varied, .shown = place::point, .said = words::value},
    {.key = "others",
     .member = &sweep_point::others,
     .most = 1000,
     .option = {.name = "--others",
                .type = "N",
                .help = "Threads of other processes, each of which uses a CPU for a quarter of the time",
                .part = option_part::load}},
    {.key = "spin_ns",
     .member = &sweep_point::spin_ns,
     .most = 1'000'000'000,
     .option = {.name = "--spin",
                .type = "NS|auto",
                .help = "Time in ns for which waiters spin before they park (default: auto, the machine file's value, "
                        "or 5555)",
                .automatic = "the machine's"}},
    {.key = "placement",
     .member = &sweep_point::placement,
     .option = {.name = "--placement",
                .type = "P",
                .help = "Where threads begin: compact, scattered, even, random (by the seed), or CPUs as 0,18,1..3 "
                        "(default: the workload's)"}},
    {.key = "together",
     .member = &sweep_point::together,
     .last_column = true,
     .option = {.name = "--together",
                .help = "All threads begin at once, as from a barrier, not one after another as they are created"}},
    {.key = "warm_up_ns",
     .member = &sweep_point::warm_up_ns,
     .most = 100'000'000'000,
     .option = {.name = "--warm-up",
                .type = "T",
                .help = "Simulated milliseconds before the measured time (default: a fifth of that, plus 0.02 for each "
                        "thread)",
                .part = option_part::times,
                .unit_ns = 1e6}},
};

/// Returns the table's row for a member of a point.
template <class T>
constexpr const point_key& key_of(T sweep_point::*member) {
  return *std::find_if(std::begin(point_keys), std::end(point_keys), [member](const point_key& k) {
    const auto* const same = std::get_if<T sweep_point::*>(&k.member);
    return same != nullptr && *same == member;
  });
}

/// Returns the keys that are shown, sorted by place: as columns of CSV files if `columns`, otherwise as texts of
/// figures.
inline std::vector<const point_key*> shown_keys(bool columns) {
  std::vector<const point_key*> all;
  for (const point_key& k : point_keys)
    if (k.shown != place::nowhere && (columns || k.said != words::none)) all.push_back(&k);
  std::stable_sort(all.begin(), all.end(), [columns](const point_key* a, const point_key* b) {
    return a->shown != b->shown ? a->shown < b->shown : columns && a->last_column < b->last_column;
  });
  return all;
}

}  // namespace usher::lab
