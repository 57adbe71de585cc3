#include "lab/calibrate/lstopo_tree.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

namespace usher::calibrate {
namespace {

constexpr std::uint64_t largest_cache = std::uint64_t{1} << 33, most_mhz = 100000;
constexpr std::size_t most_distances = 256;  // nodes of a matrix

/// The attributes of an element.
class attributes {
 public:
  explicit attributes(const char** all) : all_(all) {}
  /// nullptr: the element has no such attribute.
  const char* find(std::string_view name) const {
    for (const char** a = all_; *a != nullptr; a += 2)
      if (name == *a) return a[1];
    return nullptr;
  }
  std::string_view text(std::string_view name) const {
    const char* const value = find(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  }
  std::optional<std::uint64_t> number(const char* name, std::uint64_t most) const {
    const char* const value = find(name);
    if (value == nullptr) return std::nullopt;
    std::uint64_t n = 0;
    const std::string_view digits(value);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error != std::errc{} || end != digits.data() + digits.size() || n > most)
      throw bad_topology(fmt::format("{} is '{}', no whole number from 0 to {}", name, harmless(digits, 40), most));
    return n;
  }

 private:
  const char** all_;
};

/// Builds the tree from expat's calls. An exception must not pass through expat, which is C: a handler that throws
/// stops the parser and keeps the message.
class reader {
 public:
  reader();
  lstopo_tree read(std::string_view xml);

 private:
  template <class Action>
  void guard(Action&& action) {
    if (!error_.empty()) return;
    try {
      action();
    } catch (const bad_topology& e) {
      error_ = fmt::format("line {}: {}", XML_GetCurrentLineNumber(parser_.get()), e.what());
    } catch (const std::exception& e) {
      error_ = e.what();
    }
    if (!error_.empty()) XML_StopParser(parser_.get(), XML_FALSE);
  }
  static reader& of(void* data) { return *static_cast<reader*>(data); }

  void begin(std::string_view name, const attributes& a);
  void end();
  void begin_object(const attributes& a);
  void begin_info(const attributes& a);
  void begin_distances(std::string_view name, const attributes& a);
  void end_numbers();

  std::unique_ptr<std::remove_pointer_t<XML_Parser>, decltype(&XML_ParserFree)> parser_;
  lstopo_tree tree_;
  std::vector<int> open_;  ///< the open elements: an object's index, or -1
  std::string error_;
  bool in_kind_ = false, in_distances_ = false;    ///< within a kind of CPUs, within a matrix of latencies
  std::size_t part_depth_ = 0;                     ///< the depth of that element
  std::vector<std::uint64_t>* numbers_ = nullptr;  ///< the list to which the text of the open element belongs
  std::string text_;
  double base_ = 1;  ///< the unit of the latencies of format 1.x
};

reader::reader() : parser_(XML_ParserCreate(nullptr), XML_ParserFree) {
  XML_Parser p = parser_.get();
  if (p == nullptr) throw bad_topology("there is no memory to parse it");
  XML_SetUserData(p, this);
  XML_SetElementHandler(
      p,
      [](void* data, const char* name, const char** a) {
        of(data).guard([&] { of(data).begin(name, attributes(a)); });
      },
      [](void* data, const char*) { of(data).guard([&] { of(data).end(); }); });
  XML_SetCharacterDataHandler(p, [](void* data, const char* text, int length) {
    of(data).guard([&] {
      if (of(data).numbers_ != nullptr) of(data).text_.append(text, static_cast<std::size_t>(length));
    });
  });
  // lstopo writes a document type without declarations. Entities would expand, and external ones name other files.
  XML_SetEntityDeclHandler(
      p, [](void* data, const char*, int, const char*, int, const char*, const char*, const char*, const char*) {
        of(data).guard([] { throw bad_topology("entity declarations are not read"); });
      });
  XML_SetStartDoctypeDeclHandler(p, [](void* data, const char*, const char*, const char*, int has_declarations) {
    of(data).guard([&] {
      if (has_declarations != 0) throw bad_topology("declarations of the document type are not read");
    });
  });
}

lstopo_tree reader::read(std::string_view xml) {
  const XML_Status status = XML_Parse(parser_.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE);
  if (!error_.empty()) throw bad_topology(error_);
  if (status != XML_STATUS_OK)
    throw bad_topology(fmt::format("line {}: {}", XML_GetCurrentLineNumber(parser_.get()),
                                   XML_ErrorString(XML_GetErrorCode(parser_.get()))));
  return std::move(tree_);
}

void reader::begin(std::string_view name, const attributes& a) {
  if (open_.empty() && name != "topology") throw bad_topology("the root element is not hwloc's topology");
  if (open_.size() >= deepest_element)
    throw bad_topology(fmt::format("elements are nested more than {} deep", deepest_element));
  // An element could add a matrix, and the numbers would belong to one that has moved.
  if (numbers_ != nullptr) throw bad_topology("a list of numbers has elements in it");
  open_.push_back(-1);
  if (name == "object")
    begin_object(a);
  else if (name == "info")
    begin_info(a);
  else if (name == "cpukind") {
    if (tree_.base_mhz.size() >= 1024) throw bad_topology("it has more than 1024 kinds of CPUs");
    in_kind_ = true;
    part_depth_ = open_.size();
    tree_.base_mhz.emplace_back();
    tree_.most_mhz.emplace_back();
  } else {
    begin_distances(name, a);
  }
}

void reader::begin_object(const attributes& a) {
  if (tree_.objects.size() >= most_objects)
    throw bad_topology(fmt::format("it has more than {} objects", most_objects));
  const char* const type = a.find("type");
  if (type == nullptr) throw bad_topology("an object has no type");
  const std::string_view t(type);
  lstopo_object o;
  for (auto at = open_.rbegin(); at != open_.rend() && o.parent < 0; ++at) o.parent = *at;
  o.os_index = a.number("os_index", std::numeric_limits<std::uint32_t>::max());
  if (t == "Package" || t == "Socket") o.kind = object_kind::package;
  if (t == "NUMANode") o.kind = object_kind::numa_node;
  if (t == "MemCache") o.kind = object_kind::memory_cache;
  if (t == "Core") o.kind = object_kind::core;
  if (t == "PU") o.kind = object_kind::hardware_thread;
  // Format 1.x has "Cache", format 2.x "L3Cache". The type 2 is that of caches for instructions, "L1iCache".
  const bool named = t.size() == 7 && t.front() == 'L' && t.ends_with("Cache");
  if ((t == "Cache" || named) && a.text("cache_type") != "2") {
    o.kind = object_kind::cache;
    const auto level = a.number("depth", 9);
    if (!level && !named) throw bad_topology("a Cache has no depth");
    o.level = level ? static_cast<unsigned>(*level) : static_cast<unsigned>(t[1] - '0') % 10;
    o.cache.bytes = a.number("cache_size", largest_cache).value_or(0);
    o.cache.line = static_cast<unsigned>(a.number("cache_linesize", 1 << 16).value_or(0));
    if (a.text("cache_associativity") != "-1")  // which is a cache of a single set
      o.cache.ways = static_cast<unsigned>(a.number("cache_associativity", std::uint64_t{1} << 32).value_or(0));
  }
  open_.back() = static_cast<int>(tree_.objects.size());
  tree_.objects.push_back(o);
}

void reader::begin_info(const attributes& a) {
  const std::string_view name = a.text("name");
  const auto keep = [&](const char* key, std::string& to) {
    if (name == key && to.empty()) to = harmless(a.text("value"));
  };
  keep("CPUVendor", tree_.vendor);
  keep("CPUModel", tree_.model);
  keep("Architecture", tree_.architecture);
  if (!in_kind_) return;
  if (name == "FrequencyBaseMHz")
    if (const auto v = a.number("value", most_mhz); v && *v != 0) tree_.base_mhz.back() = static_cast<unsigned>(*v);
  if (name == "FrequencyMaxMHz")
    if (const auto v = a.number("value", most_mhz); v && *v != 0) tree_.most_mhz.back() = static_cast<unsigned>(*v);
}

/// Format 2.x has <distances2> with texts of numbers, format 1.x <distances> with a <latency> for each number. Kinds
/// are bits: 4 says that the numbers are latencies.
void reader::begin_distances(std::string_view name, const attributes& a) {
  if (name == "distances2" || name == "distances") {
    const bool old = name == "distances";
    const std::uint64_t kind = old ? 4 : a.number("kind", 1 << 30).value_or(0);
    in_distances_ = (old || a.text("type") == "NUMANode") && (kind & 4) != 0;
    if (!in_distances_) return;
    part_depth_ = open_.size();
    if (tree_.distances.size() >= 16) throw bad_topology("it has more than 16 matrices of distances");
    lstopo_distances& d = tree_.distances.emplace_back();
    d.count = a.number("nbobjs", most_distances).value_or(0);
    d.by_os_index = !old && a.text("indexing") == "os";
    base_ = 1;
    if (const char* const base = a.find("latency_base"); base != nullptr) {
      base_ = std::strtod(base, nullptr);
      if (!(base_ > 0 && base_ < 1e6)) throw bad_topology("latency_base is no number from 0 to 1000000");
    }
  } else if (in_distances_ && (name == "indexes" || name == "u64values")) {
    numbers_ = name == "indexes" ? &tree_.distances.back().indexes : &tree_.distances.back().values;
    text_.clear();
  } else if (in_distances_ && name == "latency") {
    const std::string value(a.text("value"));
    const double v = std::strtod(value.c_str(), nullptr) * base_;
    if (!(v >= 0 && v < 1e9)) throw bad_topology("a latency is no number from 0 to 1000000000");
    if (tree_.distances.back().values.size() >= most_distances * most_distances)
      throw bad_topology("a matrix of distances has too many numbers");
    tree_.distances.back().values.push_back(static_cast<std::uint64_t>(std::llround(v)));
  }
}

/// Reads the numbers between blanks of the element that ends.
void reader::end_numbers() {
  for (std::size_t at = 0; at < text_.size();) {
    if (const char c = text_[at]; c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      at++;
      continue;
    }
    std::uint64_t n = 0;
    const auto [last, error] = std::from_chars(text_.data() + at, text_.data() + text_.size(), n);
    if (error != std::errc{}) throw bad_topology("a distance is no whole number");
    if (numbers_->size() >= most_distances * most_distances)
      throw bad_topology("a matrix of distances has too many numbers");
    numbers_->push_back(n);
    at = static_cast<std::size_t>(last - text_.data());
  }
  numbers_ = nullptr;
}

void reader::end() {
  if (numbers_ != nullptr) end_numbers();
  open_.pop_back();
  if (open_.size() < part_depth_) in_kind_ = in_distances_ = false;
}

}  // namespace

std::string harmless(std::string_view text, std::size_t most) {
  std::string to;
  for (const char c : text.substr(0, most)) to += c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
  return to;
}

lstopo_tree parse_lstopo(std::string_view xml) {
  if (xml.size() > most_xml_bytes) throw bad_topology(fmt::format("it has more than {} MiB", most_xml_bytes >> 20));
  return reader().read(xml);
}

}  // namespace usher::calibrate
