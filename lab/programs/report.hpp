// JSON output of these programs. Only report.cpp includes the JSON library, because compiling that library takes longer
// than compiling the rest of a program.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace workloads {

/// A reference to a value in a JSON document. An assignment writes the value; operator[] selects a member.
class field {
 public:
  explicit field(nlohmann::json& place) : place_(place) {}

  field operator[](const char* key) const;
  /// Returns a new element at the end of an array.
  field append() const;

  template <std::integral Number>
  void operator=(Number number) const {
    if constexpr (std::same_as<Number, bool>)
      set(number);
    else if constexpr (std::is_signed_v<Number>)
      set(std::int64_t{number});
    else
      set(std::uint64_t{number});
  }
  void operator=(double number) const;
  void operator=(const std::string& text) const;
  void operator=(const std::vector<std::uint64_t>& numbers) const;

 private:
  void set(bool truth) const;
  void set(std::int64_t number) const;
  void set(std::uint64_t number) const;

  nlohmann::json& place_;
};

/// The result of one run, with its provenance: command, date, machine, compiler, commit.
class document {
 public:
  /// `kind` is the JSON key of the program's name.
  document(int argc, char** argv, const char* kind = "benchmark");
  ~document();
  document(const document&) = delete;
  document& operator=(const document&) = delete;

  field operator[](const char* key);
  /// Writes the document to the file, or to standard output if the file's name is empty.
  void write(const std::string& file) const;

 private:
  const std::unique_ptr<nlohmann::json> root_;
};

/// The CPU time of this process so far.
double process_cpu_seconds();

}  // namespace workloads
