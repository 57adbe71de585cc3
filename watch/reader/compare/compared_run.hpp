// One recording as a comparison sees it: the objects of a file of `usher stat --json`, by what they can be found in another
// recording.
//
// The attacker is the file's author: sizes, numbers and lists are limited, and names are printed only through
// support/text/utf8.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// What stays the same of an object over builds, and where it lies among others with the same key.
struct object_place {
  std::string key;  ///< symbol, or function and file, with the module's name without a version; empty: no place
  std::uint64_t position = 0;  ///< line of the file, or offset in the symbol or module
};
/// `module` is the path of a static object's module; empty: the name is that of a place.
object_place place_of(std::string_view name, std::string_view module);
/// A module's file name without folder, version and hash: "libpool.so" for "/opt/1.2/libpool-2.so.1.2".
std::string lasting_name(std::string_view module);

struct compared_object {
  kind what = kind::none;
  std::string name;
  object_place place;
  bool is_static = false;
  double waited = 0;  ///< seconds, of all threads
  double acquisitions = 0, contended = 0;
  bool has_contended = false;  ///< the kind has this count
  std::optional<double> held_share;
  std::vector<double> windows;  ///< seconds waited, by window; empty: not known
  /// The functions that wait for it and hold it, with the share of the charged waiting of each, all together 1.
  std::map<std::string, double> code;
};

struct compared_run {
  std::string file;
  std::string command, lock;
  double seconds = 0, thread_seconds = 0;
  std::uint64_t threads = 0;
  std::optional<double> others_cpu_share;
  std::optional<double> ready;         ///< share of the threads' time in which they were ready and had no CPU
  std::vector<double> window_threads;  ///< by window: seconds of all threads
  /// The share of the time for which the observer came late, since the windows would be as long as the shortest one.
  double late = 0;
  std::vector<compared_object> objects;  ///< the longest waited for first; without joins

  double share_of(double waited) const { return waited / thread_seconds; }
};

/// Reads the JSON of `usher stat --json`. Throws support::bad_input.
compared_run run_of(const nlohmann::json& j);
/// Reads a file. Throws support::bad_input, with one line.
compared_run read_run(const std::string& file);

}  // namespace usher::reader
