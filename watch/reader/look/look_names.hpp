// Names for the addresses of sightings, from the confined child of remote_symbols.hpp. The names that are known stay
// known from one sighting to the next; new modules need a new child, which has them in its copy of the record.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "watch/reader/attach/process_place.hpp"
#include "watch/reader/look/sighting.hpp"
#include "watch/reader/name/remote_symbols.hpp"

namespace usher::reader {

class look_names {
 public:
  /// Without `opens_files` addresses get modules and offsets only, and no child is needed.
  explicit look_names(process_place place, bool opens_files = true);
  ~look_names();

  /// Looks up everything in a sighting at once.
  void prepare(const sighting& s);
  /// The frames of a return address.
  const std::vector<frame>& code(std::uint64_t return_address);
  std::optional<symbols::static_object> object(std::uint64_t address);
  /// The module of an address of the last sighting; null: none.
  const target_module* module_of(std::uint64_t address) const;
  std::vector<std::string> remarks() const;

 private:
  using key = std::tuple<std::string, std::uint64_t, std::uint64_t>;  ///< path, identity, address − bias
  struct record;
  void set_modules(const std::vector<target_module>& modules);
  std::optional<std::uint64_t> word_at(std::uint64_t address) const;
  std::optional<key> key_at(std::uint64_t address) const;

  process_place place_;
  bool opens_files_;
  std::shared_ptr<name_budget> budget_;
  std::vector<target_module> modules_;  ///< sorted by begin
  std::unique_ptr<record> record_;
  std::unique_ptr<symbols> symbols_;
  std::map<key, std::vector<frame>> code_;
  std::map<key, std::optional<symbols::static_object>> objects_;
  std::vector<frame> bare_;
};

}  // namespace usher::reader
