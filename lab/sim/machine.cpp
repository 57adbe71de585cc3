#include "lab/sim/machine.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

// toml++ has assertions that some texts, such as "[!", violate. In a release build clang takes an assertion for a fact
// and optimises by it. Here a violated assertion becomes an error of the file, in every build. No other source includes
// toml++.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? void() : ::usher::sim::reject_assumption())
namespace usher::sim {
[[noreturn]] static void reject_assumption() {
  throw bad_machine("it is no TOML");
}
}  // namespace usher::sim
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include "lab/sim/sha256.hpp"
#include "library/catalog/names.hpp"
#include "library/catalog/suggestion.hpp"

namespace usher::sim {
namespace {

/// The limits of some values: larger ones would make the model's tables too large for memory, or its sums too large for
/// 32 bits.
constexpr std::uint64_t most_cache_bytes = std::uint64_t{1} << 33, most_tlb_entries = 1 << 20,
                        most_cache_lines = std::uint64_t{1} << 28, most_poll_period = 1 << 20;

/// The largest machine file and the largest value, in bytes. Chosen, not measured: the files of this project have about
/// 5 kB.
constexpr std::size_t most_bytes = 1 << 20, most_bytes_of_value = 4096;
constexpr std::size_t most_dots = 4000;

/// Reads the keys of one section of a machine file. A number in the file is a table of `value`, `source` and, if the
/// number was adjusted so that the model reproduces a measured figure, `fitted`.
class section {
 public:
  section(const std::string& file, const char* name, const toml::table& values, std::vector<std::string>& fitted)
      : file_(file), name_(name), values_(values), fitted_(fitted) {}
  ~section() = default;
  section(const section&) = delete;
  section& operator=(const section&) = delete;

  [[noreturn]] void reject(const std::string& key, const std::string& what) const {
    throw bad_machine(file_ + ": " + name_ + "." + key + " " + what);
  }

  bool has(const char* key) {
    known_.insert(key);
    return values_.contains(key);
  }

  template <class T>
  void get(const char* key, T& to, std::uint64_t least = 0,
           std::uint64_t most = std::numeric_limits<std::uint32_t>::max()) {
    if (!has(key)) reject(key, "is missing");
    get_if_there(key, to, least, most);
  }
  template <class T>
  void get_if_there(const char* key, T& to, std::uint64_t least = 0,
                    std::uint64_t most = std::numeric_limits<std::uint32_t>::max()) {
    if (has(key)) to = static_cast<T>(number(key, *value_of(key), least, most));
  }

  /// Reads a fraction or factor and stores it in units of 1/1024.
  void get_in_1024(const char* key, unsigned& to, double least, double most) {
    if (!has(key)) reject(key, "is missing");
    const toml::node& value = *value_of(key);
    const auto v = value.value<double>();
    if (!v) reject(key, "is not a number");
    if (!(*v >= least && *v <= most)) {
      std::ostringstream bounds;
      bounds << "is not between " << least << " and " << most;
      reject(key, bounds.str());
    }
    to = static_cast<unsigned>(*v * 1024 + 0.5);
  }

  /// Reads a list of costs, one for each distance of the machine. Further elements of the list are ignored.
  void get(const char* key, std::array<cycles, distances>& to, const machine& m) {
    if (!has(key)) reject(key, "is missing");
    const toml::node& value = *value_of(key);
    const toml::array* list = value.as_array();
    const unsigned farthest = m.farthest();
    if (list != nullptr && list->size() > distances)
      reject(key, "lists " + std::to_string(list->size()) + " numbers: at most " + std::to_string(distances));
    if (list == nullptr || list->size() <= farthest) {
      static constexpr std::array<const char*, distances> names{"same complex", "same socket", "one hop", "two hops",
                                                                "three hops"};
      std::string text = "must list " + std::to_string(farthest + 1) + (farthest == 0 ? " number: " : " numbers: ");
      text += m.complexes > 1 ? "same complex, other complex" : "same socket";
      for (unsigned d = m.complexes > 1 ? 2 : 1; d <= farthest; d++)
        text += std::string(", ") + names[d + (m.complexes > 1 ? 0 : 1)];
      reject(key, text);
    }
    for (std::size_t i = 0; i < distances; i++)
      to[i] = number(key, *list->get(std::min(i, list->size() - 1)), 0, std::numeric_limits<std::uint32_t>::max());
  }

  /// A list of any length.
  std::vector<cycles> list(const char* key) {
    const toml::array* list = value_of(key)->as_array();
    if (list == nullptr) reject(key, "is not a list");
    std::vector<cycles> to;
    for (const toml::node& n : *list) to.push_back(number(key, n, 0, std::numeric_limits<std::uint32_t>::max()));
    return to;
  }

  /// Reads a symmetric matrix: the number of hops between each two of n sockets.
  std::vector<std::vector<unsigned>> matrix(const char* key, unsigned n) {
    const auto bad = [&] {
      reject(key, "must be a list for each of the " + std::to_string(n) + " sockets, of its hops to each");
    };
    const toml::array* rows = value_of(key)->as_array();
    if (rows == nullptr || rows->size() != n) bad();
    std::vector<std::vector<unsigned>> to(n);
    for (unsigned i = 0; i < n; i++) {
      const toml::array* row = rows->get(i)->as_array();
      if (row == nullptr || row->size() != n) bad();
      for (unsigned j = 0; j < n; j++)
        to[i].push_back(unsigned(number(key, *row->get(j), i == j ? 0 : 1, i == j ? 0 : 3)));
    }
    for (unsigned i = 0; i < n; i++)
      for (unsigned j = 0; j < i; j++)
        if (to[i][j] != to[j][i]) reject(key, "is not the same both ways");
    return to;
  }

  std::string word(const char* key) {
    if (!has(key)) reject(key, "is missing");
    const auto text = value_of(key, false)->value<std::string>();
    if (!text) reject(key, "is not a text");
    return *text;
  }

  bool flag(const char* key, bool otherwise) {
    if (!has(key)) return otherwise;
    const auto value = value_of(key, false)->value<bool>();
    if (!value) reject(key, "is neither true nor false");
    return *value;
  }

  /// Accepts a key that is valid but has no effect on this machine.
  void allow_without_effect(const char* key) {
    known_.insert(key);
    asked_.insert(key);
  }

  /// Throws if the section has a key that was never read, which is probably misspelt.
  void reject_unknown_keys() const {
    for (const auto& [key, value] : values_)
      if (!asked_.contains(std::string(key.str())) && !value.is_table())
        unknown(key);
      else if (!asked_.contains(std::string(key.str())) && value.as_table()->contains("value"))
        unknown(key);
  }

 private:
  [[noreturn]] void unknown(const toml::key& key) const {
    nearest_name nearest(key.str());
    for (const std::string& k : known_)
      if (k != key.str()) nearest.consider(k);
    reject(std::string(key.str()), "is not known" + did_you_mean(nearest.best()));
  }

  const toml::node* value_of(const char* key, bool is_a_number = true) {
    asked_.insert(key);
    const toml::node* node = values_.get(key);
    const toml::table* table = node->as_table();
    if (table == nullptr) {
      if (is_a_number) reject(key, "has no source: write { value = …, source = \"…\" }");
      return node;
    }
    for (const auto& [word, what] : *table)
      if (word != "value" && word != "source" && word != "fitted")
        reject(key, "has '" + std::string(word.str()) + "': only value, source and fitted are known");
    const toml::node* value = table->get("value");
    if (value == nullptr) reject(key, "has no value");
    const toml::node* source = table->get("source");
    if (source == nullptr || !source->is_string() || source->as_string()->get().empty()) reject(key, "has no source");
    if (const toml::node* fit = table->get("fitted"); fit != nullptr && fit->value_or(false))
      fitted_.push_back(std::string(name_) + "." + key);
    return value;
  }

  std::uint64_t number(const char* key, const toml::node& node, std::uint64_t least, std::uint64_t most) const {
    const auto v = node.value_exact<std::int64_t>();
    if (!v) reject(key, "is not a whole number");
    if (*v < 0) reject(key, "is negative");
    const auto n = static_cast<std::uint64_t>(*v);
    if (n < least) reject(key, "is less than " + std::to_string(least));
    if (n > most) reject(key, "is more than " + std::to_string(most));
    return n;
  }

  const std::string& file_;
  const char* name_;
  const toml::table& values_;
  std::vector<std::string>& fitted_;
  std::set<std::string> asked_, known_;
};

template <class T>
T one_of(section& s, const char* key, std::initializer_list<std::pair<const char*, T>> values) {
  const std::string asked = s.word(key);
  std::string list;
  for (const auto& [name, value] : values) {
    if (asked == name) return value;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  s.reject(key, "is none of " + list + ": " + asked);
}

constexpr const char* sections[] = {"machine", "coherence", "hardware_threads", "scheduler", "cache"};

bool is_section(std::string_view name) {
  return std::find(std::begin(sections), std::end(sections), name) != std::end(sections);
}

/// Converts the value of a command-line option to TOML: a bare word gets quotes.
std::string as_toml(const std::string& text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == ' ';
  };
  if (text.empty() || !std::isalpha(static_cast<unsigned char>(text[0])) || text == "true" || text == "false" ||
      !std::all_of(text.begin(), text.end(), is_word))
    return text;
  return '"' + text + '"';
}

[[noreturn]] void reject_section(const std::string& file, const std::string& name, const std::string& key) {
  nearest_name nearest(name);
  for (const char* s : sections) nearest.consider(s);
  const std::string section(nearest.best());
  throw bad_machine(file + ": section [" + name + "] of " + name + "." + key + " is not known" +
                    did_you_mean(section.empty() ? section : section + "." + key));
}

std::string objection_to(const std::string& text);

/// Parses the requested value of a key. The result contains the value under the key `value`.
toml::table parsed_value(const std::string& file, const std::string& key, const std::string& text) {
  if (text.size() > most_bytes_of_value) throw bad_machine(file + ": " + key + " cannot be as long as that");
  toml::table parsed;
  const std::string line = "value = " + as_toml(text);
  try {
    if (objection_to(line).empty()) parsed = toml::parse(line);
  } catch (const std::runtime_error&) {  // toml++'s, or reject_assumption()'s
    parsed.clear();
  }
  if (text.find('\n') != std::string::npos) throw bad_machine(file + ": " + key + " cannot be of several lines");
  if (parsed.size() != 1 || !parsed.contains("value"))
    throw bad_machine(file + ": " + key + " cannot be '" + text +
                      "': write a number, a list as [50, 240], true, false, or a word");
  return parsed;
}

/// Replaces a value in the file's table by the requested one. If the file lacks the key, the new value needs no source.
void change(toml::table& all, const std::string& file, const std::string& key, const std::string& text) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == key.size())
    throw bad_machine(file + ": '" + key + "' names no number: write section.key, as coherence.per_read");
  const std::string name = key.substr(0, dot), rest = key.substr(dot + 1);
  if (!is_section(name)) reject_section(file, name, rest);
  const toml::table parsed = parsed_value(file, key, text);
  if (!all.contains(name)) all.insert(name, toml::table{});
  toml::table* const section = all[name].as_table();
  if (section == nullptr) throw bad_machine(file + ": section [" + name + "] is missing");
  toml::table to;
  if (const toml::table* const before = (*section)[rest].as_table()) to = *before;
  to.erase("fitted");
  to.insert_or_assign("value", *parsed.get("value"));
  if (!to.contains("source")) to.insert("source", "asked for");
  section->insert_or_assign(rest, std::move(to));
}

// ---- the values of a file as one text, whose digest identifies the machine ------------------------------------------

/// Appends a text in the form of JSON, in ASCII: letters beyond it become \uXXXX in UTF-16. toml++ has checked that it
/// is valid UTF-8.
void add_json(std::string_view text, std::string& to) {
  const auto add_unit = [&to](unsigned unit) {
    to += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) to += "0123456789abcdef"[unit >> shift & 15];
  };
  to += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i++]);
    static constexpr std::string_view named = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    if (const std::size_t at = named.find(static_cast<char>(c)); at != std::string_view::npos) {
      to += {'\\', letters[at]};
    } else if (c < 0x20 || c == 0x7f) {
      add_unit(c);
    } else if (c < 0x80) {
      to += static_cast<char>(c);
    } else {
      const unsigned more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
      unsigned point = c & (0x3fu >> more);
      for (unsigned k = 0; k < more && i < text.size(); k++)
        point = point << 6 | (static_cast<unsigned char>(text[i++]) & 0x3fu);
      if (point < 0x10000) {
        add_unit(point);
      } else {
        add_unit(0xd800 + ((point - 0x10000) >> 10));
        add_unit(0xdc00 + (point & 0x3ff));
      }
    }
  }
  to += '"';
}

/// Appends a number with the fewest digits that identify it, and with a point or an exponent.
void add_json(double v, std::string& to) {
  if (!std::isfinite(v)) {
    to += std::isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity";
    return;
  }
  const bool plain = v == 0 || (std::abs(v) >= 1e-4 && std::abs(v) < 1e16);
  char digits[64];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, v, plain ? std::chars_format::fixed : std::chars_format::scientific)
          .ptr;
  to.append(digits, end);
  if (plain && std::find(digits, end, '.') == end) to += ".0";
}

/// Appends the value in the form of JSON with sorted keys, without sources. The text is the same as that of Python's
/// json.dumps(…, sort_keys=True), so that a script of a few lines finds the same digest (docs/simulation.md). A date,
/// which no key has, becomes null.
void add_json(const toml::node& node, std::string& to) {
  if (const toml::table* const table = node.as_table()) {
    const char* before = "{";
    for (const auto& [key, value] : *table) {  // toml++ keeps keys in the order of their bytes
      if (key == "source") continue;
      to += before;
      add_json(key.str(), to);
      to += ": ";
      add_json(value, to);
      before = ", ";
    }
    to += *before == '{' ? "{}" : "}";
  } else if (const toml::array* const list = node.as_array()) {
    const char* before = "[";
    for (const toml::node& value : *list) {
      to += before;
      add_json(value, to);
      before = ", ";
    }
    to += *before == '[' ? "[]" : "]";
  } else if (const auto text = node.value_exact<std::string_view>()) {
    add_json(*text, to);
  } else if (const auto flag = node.value_exact<bool>()) {
    to += *flag ? "true" : "false";
  } else if (const auto whole = node.value_exact<std::int64_t>()) {
    to += std::to_string(*whole);
  } else if (const auto number = node.value_exact<double>()) {
    add_json(*number, to);
  } else {
    to += "null";
  }
}

/// A parsed file with the requested changes.
class machine_reader {
 public:
  machine_reader(toml::table all, const std::string& file, const std::map<std::string, std::string>& changes);
  machine read();

 private:
  void read_topology();
  void read_coherence();
  void read_hardware_threads();
  void read_scheduler();
  void read_cache();
  void check_cache(const section& s) const;

  const toml::table* find(const char* name) { return all_[name].as_table(); }
  section open(const char* name) {
    const toml::table* const table = find(name);
    if (table == nullptr) throw bad_machine(file_ + ": section [" + name + "] is missing");
    return {file_, name, *table, m_.fitted};
  }
  /// Accepts a key that has no effect because of the value of another key, `by`. The file may have such a key. On the
  /// command line it is refused unless `by` is changed, too.
  void allow_without_effect(section& s, const std::string& of, const char* key, const char* by, std::uint64_t value) {
    s.allow_without_effect(key);
    if (changes_.contains(of + "." + key) && !changes_.contains(of + "." + by))
      s.reject(key, "has no effect: " + of + "." + by + " is " + std::to_string(value));
  }

  toml::table all_;
  const std::string& file_;
  std::map<std::string, std::string> changes_;
  machine m_;
};

machine_reader::machine_reader(toml::table all, const std::string& file,
                               const std::map<std::string, std::string>& changes)
    : all_(std::move(all)), file_(file), changes_(changes) {
  for (const auto& [key, text] : changes_) change(all_, file, key, text);
  for (const auto& [key, value] : all_)
    if (!is_section(key.str())) throw bad_machine(file + ": section [" + std::string(key.str()) + "] is not known");
  m_.name = std::filesystem::path(file).stem();
  m_.file = file;
}

machine machine_reader::read() {
  read_topology();
  read_coherence();
  read_hardware_threads();
  read_scheduler();
  read_cache();
  std::string values;
  add_json(all_, values);
  m_.hash = sha256(values);
  return std::move(m_);
}

void machine_reader::read_topology() {
  machine& m = m_;
  section s = open("machine");
  m.title = s.word("title");
  s.get("mhz", m.mhz, 1, 100000);
  s.get("sockets", m.sockets, 1, most_sockets);
  s.get("cores", m.cores, 1, most_cores);
  s.get("hardware_threads", m.hardware_threads, 1, 16);
  s.get_if_there("complexes", m.complexes, 1, most_complexes);
  if (m.cores % m.complexes != 0)
    s.reject("complexes", "do not have equal parts of the " + std::to_string(m.cores) + " cores");
  if (m.all_complexes() > most_complexes)
    s.reject("complexes", "are more than " + std::to_string(most_complexes) + " in all");
  s.get_if_there("nodes", m.nodes, 1, most_sockets);
  if (m.cores % m.nodes != 0) s.reject("nodes", "do not have equal parts of the " + std::to_string(m.cores) + " cores");
  if (m.all_nodes() > most_sockets) s.reject("nodes", "are more than " + std::to_string(most_sockets) + " in all");
  s.get_if_there("group", m.group, 1, most_sockets);
  if (s.has("hops")) {
    if (m.group != 0) s.reject("hops", "and group say the same thing: give one of them");
    m.hops = s.matrix("hops", m.sockets);
  }
  if (m.sockets > 2 && m.group == 0 && m.hops.empty())
    s.reject("hops", "is missing: of more than two sockets say how far apart they are, by a matrix hops or by group (" +
                         std::to_string(m.sockets) + ": one hop between any two)");
  s.get_if_there("used_cores", m.used_cores, 1, m.cores);
  m.fetch_add = s.flag("fetch_add", true);
  m.swap = s.flag("swap", true);
  if (s.has("step")) s.get_in_1024("step", m.step, 1, 1000);
  if (m.all_cores() > most_cores) s.reject("cores", "make more than " + std::to_string(most_cores) + " in all");
  s.reject_unknown_keys();
}

void machine_reader::read_coherence() {
  machine& m = m_;
  section s = open("coherence");
  m.coherence = one_of<protocol>(s, "protocol",
                                 {{"MESI", protocol::mesi}, {"MESIF", protocol::mesif}, {"MOESI", protocol::moesi}});
  s.get("hit", m.hit, 1);
  s.get("modify", m.modify);
  s.get("clean", m.clean, m);
  s.get("dirty", m.dirty, m);
  s.get("invalidate", m.invalidate, m);
  s.get("memory", m.memory, m);
  s.get("per_sharer", m.per_sharer);
  s.get("per_read", m.per_read);
  s.get("poll_period", m.poll_period, 1, most_poll_period);
  s.get("exit_penalty", m.exit_penalty);
  s.get_in_1024("jitter", m.jitter, 0, 1);
  s.get_if_there("store_entries", m.store_entries, 0, most_store_entries);
  if (s.has("ownership_ahead"))
    m.asks = one_of<ownership>(
        s, "ownership_ahead",
        {{"no", ownership::in_turn}, {"until a hit", ownership::ahead_until_a_hit}, {"yes", ownership::ahead}});
  if (s.has("load_then_store"))
    m.load_then_store_at_once = one_of<bool>(s, "load_then_store", {{"one trip", true}, {"two trips", false}});
  if (s.has("directory"))
    s.reject("directory",
             "is no key any more: home_waits_for says what a line's home waits for, \"the answer\" or \"all answers\"");
  m.through_home = s.flag("through_home", false);
  m.through_homes_socket = s.flag("through_homes_socket", false);
  if (m.through_home && m.through_homes_socket) s.reject("through_homes_socket", "and through_home exclude each other");
  if (s.has("home_waits_for"))
    m.homes = one_of<home_agent>(s, "home_waits_for",
                                 {{"nothing", home_agent::none},
                                  {"the answer", home_agent::until_answer},
                                  {"all answers", home_agent::until_answers}});
  if (s.has("home")) s.get("home", m.home.emplace(), 0, m.all_complexes() - 1);
  if (s.has("atomics")) m.far_atomics = one_of<bool>(s, "atomics", {{"near", false}, {"far", true}});
  s.get_if_there("monitor_wake", m.monitor_wake, 1, most_poll_period);
  s.reject_unknown_keys();
}

void machine_reader::read_hardware_threads() {
  machine& m = m_;
  const std::string name = "hardware_threads";
  if (m.hardware_threads == 1) {
    for (const auto& [key, text] : changes_)
      if (key.starts_with(name + "."))
        throw bad_machine(file_ + ": " + key + " has no effect: a core has one hardware thread (machine." + name + ")");
    return;
  }
  section s = open("hardware_threads");
  s.get("pipelines", m.pipelines, 1, m.hardware_threads);
  if (m.pipelines == 1) {
    s.get_in_1024("slowed_by_work", m.slowed_by_work, 1, 16);
    s.get_in_1024("slowed_by_spin", m.slowed_by_spin, 1, 16);
    for (const char* key : {"weight_of_spin", "alone"}) allow_without_effect(s, name, key, "pipelines", m.pipelines);
  } else {
    s.get_in_1024("weight_of_spin", m.weight_of_spin, 0, 1);
    if (s.has("alone")) s.get_in_1024("alone", m.alone, 1, 16);
    for (const char* key : {"slowed_by_work", "slowed_by_spin"})
      allow_without_effect(s, name, key, "pipelines", m.pipelines);
  }
  s.reject_unknown_keys();
}

void machine_reader::read_scheduler() {
  if (find("scheduler") == nullptr) return;
  section s = open("scheduler");
  // clang needs the explicit argument: within `machine`, the default member values of its nested structs are not known
  // yet.
  machine::scheduler& os = m_.os.emplace(machine::scheduler{});
  s.get("slice", os.slice, 1);
  s.get("context_switch", os.context_switch);
  s.get("syscall", os.syscall);
  s.get("wake", os.wake);
  s.get_if_there("wake_queued", os.wake_queued, 1);
  s.get_if_there("yields_after", os.yields_after);
  s.get("latency_least", os.latency_least);
  s.get("latency_mean", os.latency_mean, os.latency_least);
  s.get_if_there("tick_period", os.tick_period);
  s.get_if_there("tick", os.tick);
  s.get_if_there("tick_cpus", os.tick_cpus, 0, m_.cpus());
  s.get_if_there("daemon_period", os.daemon_period);
  s.get_if_there("daemon", os.daemon);
  // An interruption must be shorter than its period: otherwise the CPU would never run its thread.
  constexpr cycles shortest = 10000;
  const auto check_period = [&s](const char* key, cycles period, cycles takes, cycles context_switch) {
    if (period == 0 && takes == 0) return;
    if (period < shortest) s.reject(key, "is shorter than 10000 cycles");
    if (period <= takes + context_switch) s.reject(key, "is not longer than the interruption");
  };
  check_period("tick_period", os.tick_period, os.tick, 0);
  check_period("daemon_period", os.daemon_period, os.daemon, os.context_switch);
  if (s.has("idle_after") || s.has("idle_exit")) {
    if (!s.has("idle_after")) s.reject("idle_after", "is missing");
    if (!s.has("idle_exit")) s.reject("idle_exit", "is missing");
    os.idle_after = s.list("idle_after");
    os.idle_exit = s.list("idle_exit");
    if (os.idle_after.size() != os.idle_exit.size()) s.reject("idle_exit", "must be as long as idle_after");
    if (!std::is_sorted(os.idle_after.begin(), os.idle_after.end())) s.reject("idle_after", "must grow");
  }
  s.get_if_there("least_sleep", os.least_sleep);
  os.time_sharing = s.flag("time_sharing", false);
  if (os.time_sharing) {
    s.get("clock_tick", os.clock_tick, shortest);
    s.get("update_ticks", os.update_ticks, 1);
    s.get("rechoose_ticks", os.rechoose_ticks);
    s.get("first_priority", os.first_priority, 0, 59);
  } else {
    for (const char* key : {"clock_tick", "update_ticks", "rechoose_ticks", "first_priority"})
      allow_without_effect(s, "scheduler", key, "time_sharing", 0);
  }
  s.get_if_there("spin", m_.spin, 1);
  os.migrate = s.flag("migrate", true);
  s.reject_unknown_keys();
}

void machine_reader::read_cache() {
  if (find("cache") == nullptr) return;
  section s = open("cache");
  machine::cache& c = m_.caches.emplace(machine::cache{});
  s.get("bytes", c.bytes, 1, most_cache_bytes);
  s.get("ways", c.ways, 1, 64);
  s.get("line", c.line, 16, 1024);
  s.get_if_there("private_bytes", c.private_bytes, 0, most_cache_bytes);
  if (c.private_bytes != 0)
    s.get("private_ways", c.private_ways, 1, 64);
  else
    allow_without_effect(s, "cache", "private_ways", "private_bytes", 0);
  s.get("access", c.access);
  s.get("hit", c.hit);
  s.get("miss", c.miss);
  s.get("channel", c.channel);
  s.get_if_there("tlb_entries", c.tlb_entries, 0, most_tlb_entries);
  if (s.has("tlb_miss") && !s.has("tlb_entries")) s.reject("tlb_entries", "is missing");
  if (c.tlb_entries != 0)
    s.get("tlb_miss", c.tlb_miss);
  else
    allow_without_effect(s, "cache", "tlb_miss", "tlb_entries", 0);
  check_cache(s);
  s.reject_unknown_keys();
}

void machine_reader::check_cache(const section& s) const {
  const machine::cache& c = *m_.caches;
  if (c.bytes % (std::uint64_t{c.ways} * c.line) != 0) s.reject("bytes", "is no multiple of ways times line");
  if (c.private_bytes % (std::uint64_t{c.private_ways} * c.line) != 0)
    s.reject("private_bytes", "is no multiple of private_ways times line");
  if (m_.all_complexes() * (c.bytes / c.line) > most_cache_lines) s.reject("bytes", "make more than 2^28 lines in all");
  if (m_.all_cores() * (c.private_bytes / c.line) > most_cache_lines)
    s.reject("private_bytes", "make more than 2^28 lines in all");
  if (std::uint64_t{m_.all_cores()} * c.tlb_entries > most_cache_lines)
    s.reject("tlb_entries", "are more than 2^28 in all");
}

/// Returns the reason to refuse a text before it is parsed, although it may be TOML; empty if there is none. The file's
/// author may be an attacker, and toml++ is unsafe in two ways. Letters other than ASCII's outside of strings and
/// comments break its assumptions, which is undefined behaviour. The number of parts of a dotted key has no limit, and
/// toml++ destroys the nested tables that it makes of them recursively.
std::string objection_to(const std::string& text) {
  if (text.size() > most_bytes) return "it has more than 1 MiB";
  std::size_t dots = 0, line = 1;
  char quote = '\0';  // of the text that this character is in; '#': a comment
  for (std::size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (c == '\n') {
      quote = '\0';
      line++;
    } else if (quote == '\0' && (c == '"' || c == '\'' || c == '#')) {
      quote = c;
      if (c != '#' && text.compare(i, 3, std::string(3, c)) == 0)
        return "line " + std::to_string(line) + ": texts of several lines are not read";
    } else if (quote == '\0') {
      if (static_cast<unsigned char>(c) >= 0x80)
        return "line " + std::to_string(line) + ": only texts and comments may have other letters than ASCII's";
      if (c == '.' && ++dots > most_dots) return "it has more than " + std::to_string(most_dots) + " dots";
    } else if (quote == '"' && c == '\\') {
      if (i + 1 < text.size() && text[i + 1] != '\n') i++;
    } else if (c == quote && c != '#') {
      quote = '\0';
    }
  }
  return "";
}

toml::table parsed_text(const std::string& text, const std::string& name) {
  if (const std::string why = objection_to(text); !why.empty()) throw bad_machine(name + ": " + why);
  try {
    return toml::parse(text);
  } catch (const bad_machine& e) {
    throw bad_machine(name + ": " + e.what());
  } catch (const toml::parse_error& e) {
    throw bad_machine(name + ": line " + std::to_string(e.source().begin.line) + ": " + std::string(e.description()));
  }
}

machine read(const std::string& text, const std::string& name, const std::map<std::string, std::string>& changes) {
  return machine_reader(parsed_text(text, name), name, changes).read();
}

/// Returns the text of a file. Of a file above the limit it returns only the first bytes, one more than the limit.
std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(most_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.gcount() == 0 && !in.eof()) throw bad_machine(file + ": it cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

}  // namespace

machine read_machine(const std::string& file, const std::map<std::string, std::string>& changes) {
  return read(text_of(file), file, changes);
}

machine read_machine_text(const std::string& text, const std::string& name,
                          const std::map<std::string, std::string>& changes) {
  machine m = read(text, name, changes);
  m.name = name;
  m.file.clear();
  return m;
}

std::map<std::string, std::string> machine_values(const std::string& file) {
  read_machine(file);  // reports errors of the file
  std::map<std::string, std::string> values;
  for (const auto& [section, keys] : parsed_text(text_of(file), file)) {
    const toml::table* const table = keys.as_table();
    if (table == nullptr) continue;
    for (const auto& [key, node] : *table) {
      const toml::table* const with_source = node.as_table();
      const toml::node* const value = with_source == nullptr ? &node : with_source->get("value");
      std::string& to = values[std::string(section.str()) + "." + std::string(key.str())];
      if (value != nullptr) add_json(*value, to);
    }
  }
  return values;
}

}  // namespace usher::sim
