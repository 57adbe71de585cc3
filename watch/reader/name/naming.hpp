// Finds the row of the report to which an object belongs, and the object's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "watch/contract/format.hpp"
#include "watch/reader/name/symbols.hpp"

namespace usher::reader {

/// The identity of a static object, or of a place at which objects are initialised or first used.
struct identity {
  std::string key;   ///< equal in all processes; objects with the same key form one row
  std::string name;  ///< for display
  std::string module;
};

class namer {
 public:
  namer(contract::view record, symbols& names) : record_(record), names_(names) {}

  /// Announces to `symbols` all names of these objects that will certainly be requested, so that they are looked up
  /// together.
  void prepare(const std::vector<std::uint32_t>& objects);
  /// The static object that is or contains `o`. Nothing if the address is in no module.
  std::optional<symbols::static_object> static_object(const contract::object& o);
  /// The function and line of a place; the argument is chain + 1, as in contract::object::place.
  const identity& place(std::uint32_t chain_and_one);
  /// The name of a single object.
  std::string name(const contract::object& o);
  /// The stack of a chain with all frames; empty if there is no such chain.
  stack whole(std::uint32_t chain) const;

  /// The identity of a line of code, given a frame in it. Empty fields: the frame has neither function nor module.
  static identity of_frame(const frame& f);
  static std::string static_name(const symbols::static_object& s);

 private:
  bool exists(std::uint32_t chain) const;
  identity identify(std::uint32_t chain);

  contract::view record_;
  symbols& names_;
  std::unordered_map<std::uint32_t, identity> places_;
};

}  // namespace usher::reader
