#include <algorithm>
#include <cmath>
#include <map>
#include <protozero/pbf_builder.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/process/files.hpp"
#include "watch/reader/print/profile.hpp"
#include "watch/reader/print/profile_tables.hpp"

namespace usher::reader {
namespace otlp {  // by itself: pprof's messages have the same names
namespace {

// Numbers of the fields, from opentelemetry-proto's profiles/v1development/profiles.proto, common.proto and resource.proto.
enum class data_field : protozero::pbf_tag_type { resource_profiles = 1, dictionary = 2 };
enum class dictionary_field : protozero::pbf_tag_type {
  mapping_table = 1,
  location_table = 2,
  function_table = 3,
  link_table = 4,
  string_table = 5,
  attribute_table = 6,
  stack_table = 7,
};
enum class resource_profiles_field : protozero::pbf_tag_type { resource = 1, scope_profiles = 2 };
enum class resource_field : protozero::pbf_tag_type { attributes = 1 };
enum class key_value_field : protozero::pbf_tag_type { key = 1, value = 2 };
enum class any_value_field : protozero::pbf_tag_type { string_value = 1, int_value = 3 };
enum class scope_profiles_field : protozero::pbf_tag_type { scope = 1, profiles = 2 };
enum class scope_field : protozero::pbf_tag_type { name = 1, version = 2 };
enum class profile_field : protozero::pbf_tag_type {
  sample_type = 1,
  samples = 2,
  time_unix_nano = 3,
  duration_nano = 4,
};
enum class value_type_field : protozero::pbf_tag_type { type_strindex = 1, unit_strindex = 2 };
enum class sample_field : protozero::pbf_tag_type { stack_index = 1, attribute_indices = 2, values = 4 };
enum class mapping_field : protozero::pbf_tag_type { memory_start = 1, memory_limit = 2, filename_strindex = 4 };
enum class location_field : protozero::pbf_tag_type {
  mapping_index = 1,
  address = 2,
  lines = 3,
  attribute_indices = 4
};
enum class line_field : protozero::pbf_tag_type { function_index = 1, line = 2 };
enum class function_field : protozero::pbf_tag_type {
  name_strindex = 1,
  system_name_strindex = 2,
  filename_strindex = 3
};
enum class attribute_field : protozero::pbf_tag_type { key_strindex = 1, value = 2 };
enum class stack_field : protozero::pbf_tag_type { location_indices = 1 };

using dictionary = protozero::pbf_builder<dictionary_field>;

/// The entries of a table in the order of their numbers.
template <class Map, class Number>
auto in_order(const Map& map, Number number) {
  std::vector<const typename Map::value_type*> all;
  for (const auto& entry : map) all.push_back(&entry);
  std::sort(all.begin(), all.end(), [&](const auto* a, const auto* b) { return number(*a) < number(*b); });
  return all;
}
constexpr auto second = [](const auto& entry) { return entry.second; };

/// The samples of a report and the tables to which they refer. Samples of the same stack and object are one.
class otlp_profiles {
 public:
  explicit otlp_profiles(const report& r) {
    is_native_ = attribute("profile.frame.type", "native");
    each_waiter(r, [this](const row& of, const charged_stack& s) {
      const auto stack = stacks_.try_emplace(tables_.locations(s.where), stacks_.size() + 1).first->second;
      auto& sum = samples_[{stack, attribute("usher.object.kind", name_of_kind(of.what)),
                            attribute("usher.object.name", of.name)}];
      sum.first += static_cast<std::int64_t>(s.count);
      sum.second += std::llround(s.waited * 1e9);
    });
  }

  /// Adds a profile, which has one type of values.
  template <class Parent>
  void add(Parent& to, std::string_view type, std::string_view unit, std::uint64_t began_ns, const report& r,
           std::int64_t std::pair<std::int64_t, std::int64_t>::*value) {
    protozero::pbf_builder<profile_field> profile(to, scope_profiles_field::profiles);
    {
      protozero::pbf_builder<value_type_field> of(profile, profile_field::sample_type);
      of.add_int32(value_type_field::type_strindex, string(type));
      of.add_int32(value_type_field::unit_strindex, string(unit));
    }
    for (const auto& [identity, values] : samples_) {
      protozero::pbf_builder<sample_field> sample(profile, profile_field::samples);
      sample.add_int32(sample_field::stack_index, static_cast<std::int32_t>(std::get<0>(identity)));
      const std::int32_t attributes[] = {std::get<1>(identity), std::get<2>(identity)};
      sample.add_packed_int32(sample_field::attribute_indices, std::begin(attributes), std::end(attributes));
      const std::int64_t one[] = {values.*value};
      sample.add_packed_int64(sample_field::values, std::begin(one), std::end(one));
    }
    profile.add_fixed64(profile_field::time_unix_nano, began_ns);
    profile.add_uint64(profile_field::duration_nano, static_cast<std::uint64_t>(std::llround(r.seconds * 1e9)));
  }

  /// Writes the tables, each of which begins with an empty entry.
  void write(dictionary& to) {
    for (const auto table :
         {dictionary_field::mapping_table, dictionary_field::location_table, dictionary_field::function_table,
          dictionary_field::link_table, dictionary_field::attribute_table, dictionary_field::stack_table})
      to.add_message(table, std::string());
    for (const auto* m : in_order(tables_.mappings(), [](const auto& e) { return e.second.id; })) {
      protozero::pbf_builder<mapping_field> one(to, dictionary_field::mapping_table);
      one.add_uint64(mapping_field::memory_start, m->second.start);
      one.add_uint64(mapping_field::memory_limit, m->second.limit);
      one.add_int32(mapping_field::filename_strindex, string(m->first.first));
    }
    for (const auto* p : in_order(tables_.places(), second)) write_location(to, p->first);
    for (const auto* f : in_order(tables_.functions(), second)) {
      protozero::pbf_builder<function_field> one(to, dictionary_field::function_table);
      one.add_int32(function_field::name_strindex, static_cast<std::int32_t>(f->first.first));
      one.add_int32(function_field::system_name_strindex, static_cast<std::int32_t>(f->first.first));
      one.add_int32(function_field::filename_strindex, static_cast<std::int32_t>(f->first.second));
    }
    for (const auto* a : in_order(attributes_, second)) {
      protozero::pbf_builder<attribute_field> one(to, dictionary_field::attribute_table);
      one.add_int32(attribute_field::key_strindex, a->first.first);
      protozero::pbf_builder<any_value_field> value(one, attribute_field::value);
      value.add_string(any_value_field::string_value, a->first.second);
    }
    for (const auto* s : in_order(stacks_, second)) {
      protozero::pbf_builder<stack_field> one(to, dictionary_field::stack_table);
      one.add_packed_int32(stack_field::location_indices, s->first.begin(), s->first.end());
    }
    for (const std::string* s : tables_.strings()) to.add_string(dictionary_field::string_table, *s);
  }

 private:
  std::int32_t string(std::string_view s) { return static_cast<std::int32_t>(tables_.string(s)); }
  std::int32_t attribute(std::string_view key, std::string_view value) {
    return attributes_
        .try_emplace({string(key), support::printable(value)}, static_cast<std::int32_t>(attributes_.size() + 1))
        .first->second;
  }
  void write_location(dictionary& to, const profile_tables::place& p) const {
    protozero::pbf_builder<location_field> one(to, dictionary_field::location_table);
    if (p.mapping != 0) one.add_int32(location_field::mapping_index, static_cast<std::int32_t>(p.mapping));
    one.add_uint64(location_field::address, p.address);
    for (const auto& [function, line] : p.lines) {
      protozero::pbf_builder<line_field> of(one, location_field::lines);
      of.add_int32(line_field::function_index, static_cast<std::int32_t>(function));
      of.add_int64(line_field::line, line);
    }
    one.add_packed_int32(location_field::attribute_indices, &is_native_, &is_native_ + 1);
  }

  profile_tables tables_;
  std::int32_t is_native_ = 0;
  std::map<std::pair<std::int32_t, std::string>, std::int32_t> attributes_;
  std::map<std::vector<std::uint64_t>, std::uint64_t> stacks_;
  /// By stack, kind and object: contentions, nanoseconds.
  std::map<std::tuple<std::uint64_t, std::int32_t, std::int32_t>, std::pair<std::int64_t, std::int64_t>> samples_;
};

template <class Parent>
void add_text(Parent& to, std::string_view key, std::string_view value) {
  protozero::pbf_builder<key_value_field> one(to, resource_field::attributes);
  one.add_string(key_value_field::key, std::string(key));
  protozero::pbf_builder<any_value_field> any(one, key_value_field::value);
  any.add_string(any_value_field::string_value, support::printable(value));
}

/// What was recorded, by the names that OpenTelemetry's semantic conventions have for it.
void describe(protozero::pbf_builder<resource_profiles_field>& to, const report& r) {
  protozero::pbf_builder<resource_field> resource(to, resource_profiles_field::resource);
  if (!r.command.empty()) add_text(resource, "process.executable.name", support::file_name(r.command.front()));
  if (r.pid.seen == 0) return;
  protozero::pbf_builder<key_value_field> one(resource, resource_field::attributes);
  one.add_string(key_value_field::key, "process.pid");
  protozero::pbf_builder<any_value_field> any(one, key_value_field::value);
  any.add_int64(any_value_field::int_value, r.pid.seen);
}

}  // namespace
}  // namespace otlp

std::string as_otlp(const report& r, std::uint64_t began_ns) {
  using namespace otlp;  // NOLINT(google-build-using-namespace)
  otlp_profiles profiles(r);
  std::string all;
  protozero::pbf_builder<data_field> data(all);
  {
    protozero::pbf_builder<resource_profiles_field> of(data, data_field::resource_profiles);
    describe(of, r);
    protozero::pbf_builder<scope_profiles_field> in(of, resource_profiles_field::scope_profiles);
    {
      protozero::pbf_builder<scope_field> scope(in, scope_profiles_field::scope);
      scope.add_string(scope_field::name, "usher stat");
      scope.add_string(scope_field::version, r.usher);
    }
    using values = std::pair<std::int64_t, std::int64_t>;
    // The first profile is the one that programs show by default.
    profiles.add(in, "delay", "nanoseconds", began_ns, r, &values::second);
    profiles.add(in, "contentions", "count", began_ns, r, &values::first);
  }
  dictionary tables(data, data_field::dictionary);
  profiles.write(tables);
  return all;
}

}  // namespace usher::reader
