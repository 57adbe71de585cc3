#include "watch/reader/print/profile.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <protozero/pbf_builder.hpp>
#include <span>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <vector>

#include "support/process/files.hpp"
#include "support/text/utf8.hpp"
#include "watch/reader/print/profile_tables.hpp"

namespace usher::reader {
namespace {

/// The name to show for a frame. If a frame has no name: its module and offset, which a debugger can look up.
std::string shown(const frame& f) {
  if (!f.function.empty()) return f.function;
  if (f.module.empty()) return fmt::format("{:#x}", f.address);
  return fmt::format("{}+{:#x}", support::file_name(f.module), f.offset);
}

// ---- pprof ----------------------------------------------------------------------------------------------------------

// Numbers of the fields, from pprof's profile.proto.
enum class profile_field : protozero::pbf_tag_type {
  sample_type = 1,
  sample = 2,
  mapping = 3,
  location = 4,
  function = 5,
  string_table = 6,
  duration_nanos = 10,
  period_type = 11,
  period = 12,
  comment = 13,
  default_sample_type = 14,
};
enum class value_type_field : protozero::pbf_tag_type { type = 1, unit = 2 };
enum class sample_field : protozero::pbf_tag_type { location_id = 1, value = 2, label = 3 };
enum class label_field : protozero::pbf_tag_type { key = 1, str = 2 };
enum class mapping_field : protozero::pbf_tag_type {
  id = 1,
  memory_start = 2,
  memory_limit = 3,
  filename = 5,
  has_functions = 7,
  has_filenames = 8,
  has_line_numbers = 9,
  has_inline_frames = 10,
};
enum class location_field : protozero::pbf_tag_type { id = 1, mapping_id = 2, address = 3, line = 4 };
enum class line_field : protozero::pbf_tag_type { function_id = 1, line = 2 };
enum class function_field : protozero::pbf_tag_type { id = 1, name = 2, system_name = 3, filename = 4 };

/// Writes the tables. The executable's mapping comes first, since readers assume that the first one is the main program's.
void write(profile_tables& tables, protozero::pbf_builder<profile_field>& profile, std::string_view executable) {
  std::vector<const std::pair<const profile_tables::module_in_process, profile_tables::mapping_entry>*> in_order;
  for (const auto& m : tables.mappings()) in_order.push_back(&m);
  std::sort(in_order.begin(), in_order.end(), [&](const auto* a, const auto* b) {
    return std::tuple(support::file_name(a->first.first) != executable, a->second.id) <
           std::tuple(support::file_name(b->first.first) != executable, b->second.id);
  });
  for (const auto* entry : in_order) {
    const auto& [key, m] = *entry;
    protozero::pbf_builder<mapping_field> one(profile, profile_field::mapping);
    one.add_uint64(mapping_field::id, m.id);
    one.add_uint64(mapping_field::memory_start, m.start);
    one.add_uint64(mapping_field::memory_limit, m.limit);
    one.add_int64(mapping_field::filename, tables.string(key.first));
    one.add_bool(mapping_field::has_functions, m.has_functions);
    one.add_bool(mapping_field::has_filenames, m.has_files);
    one.add_bool(mapping_field::has_line_numbers, m.has_files);
    one.add_bool(mapping_field::has_inline_frames, m.has_files);
  }
  for (const auto& [p, id] : tables.places()) {
    protozero::pbf_builder<location_field> one(profile, profile_field::location);
    one.add_uint64(location_field::id, id);
    if (p.mapping != 0) one.add_uint64(location_field::mapping_id, p.mapping);
    one.add_uint64(location_field::address, p.address);
    for (const auto& [function, line] : p.lines) {
      protozero::pbf_builder<line_field> of(one, location_field::line);
      of.add_uint64(line_field::function_id, function);
      of.add_int64(line_field::line, line);
    }
  }
  for (const auto& [key, id] : tables.functions()) {
    protozero::pbf_builder<function_field> one(profile, profile_field::function);
    one.add_uint64(function_field::id, id);
    one.add_int64(function_field::name, key.first);
    one.add_int64(function_field::system_name, key.first);
    one.add_int64(function_field::filename, key.second);
  }
  for (const std::string* s : tables.strings())
    profile.add_string(profile_field::string_table, *s);  // the last field, as all strings are known now
}

std::string as_gzip(const std::string& plain) {
  z_stream z{};
  constexpr int window_of_gzip = 15 + 16;
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_of_gzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib cannot start: out of memory");
  std::string packed(deflateBound(&z, plain.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  const int done = deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  if (done != Z_STREAM_END) throw std::runtime_error("zlib cannot write a profile of more than 4 GiB");
  return packed;
}

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

// ---- folded stacks --------------------------------------------------------------------------------------------------

/// The name without semicolons and line ends, which separate frames and stacks in the folded format.
std::string in_folded(std::string_view name) {
  std::string s = support::printable(name.empty() ? no_stack : name);
  std::replace(s.begin(), s.end(), ';', ':');
  std::replace(s.begin(), s.end(), '\n', ' ');
  return s;
}

}  // namespace

std::string as_pprof(const report& r) {
  std::string plain;
  protozero::pbf_builder<profile_field> profile(plain);
  profile_tables tables;
  const auto add_type = [&](profile_field field, std::string_view type, std::string_view unit) {
    protozero::pbf_builder<value_type_field> one(profile, field);
    one.add_int64(value_type_field::type, tables.string(type));
    one.add_int64(value_type_field::unit, tables.string(unit));
  };
  add_type(profile_field::sample_type, "contentions", "count");
  add_type(profile_field::sample_type, "delay", "nanoseconds");
  each_waiter(r, [&](const row& of, const charged_stack& s) {
    const std::vector<std::uint64_t> locations = tables.locations(s.where);
    const std::int64_t values[] = {static_cast<std::int64_t>(s.count), nanoseconds(s.waited)};
    protozero::pbf_builder<sample_field> sample(profile, profile_field::sample);
    sample.add_packed_uint64(sample_field::location_id, locations.begin(), locations.end());
    sample.add_packed_int64(sample_field::value, std::begin(values), std::end(values));
    for (const auto& [key, value] : {std::pair<std::string_view, std::string_view>{"kind", name_of_kind(of.what)},
                                     std::pair<std::string_view, std::string_view>{"object", of.name}}) {
      protozero::pbf_builder<label_field> label(sample, sample_field::label);
      label.add_int64(label_field::key, tables.string(key));
      label.add_int64(label_field::str, tables.string(value));
    }
  });
  profile.add_int64(profile_field::duration_nanos, nanoseconds(r.seconds));
  add_type(profile_field::period_type, "contentions", "count");
  profile.add_int64(profile_field::period, 1);
  if (!r.command.empty()) {
    const std::int64_t comment[] = {tables.string(fmt::format("{}", fmt::join(r.command, " ")))};
    profile.add_packed_int64(profile_field::comment, std::begin(comment), std::end(comment));
  }
  profile.add_int64(profile_field::default_sample_type, tables.string("delay"));
  write(tables, profile, r.command.empty() ? "" : support::file_name(r.command.front()));
  return as_gzip(plain);
}

std::string as_folded(const report& r) {
  std::map<std::string, double> stacks;  // equal stacks of several processes form one line
  each_waiter(r, [&](const row& of, const charged_stack& s) {
    std::string line;
    if (s.where.is_cut) line = fmt::format("{};", beyond);
    for (auto f = s.where.frames.rbegin(); f != s.where.frames.rend(); ++f) line += in_folded(shown(*f)) + ';';
    if (s.where.frames.empty()) line += fmt::format("{};", no_stack);
    stacks[line + in_folded(of.name)] += s.waited;
  });
  std::string all;
  for (const auto& [line, seconds] : stacks) all += fmt::format("{} {}\n", line, std::llround(seconds * 1e6));
  return all;
}

}  // namespace usher::reader
