// Names for the addresses in a record: functions (also inlined ones), source lines, and static objects. elfutils reads them from the
// mapped files; a file that was deleted or replaced gives no names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "record/format.hpp"
#include "stat/report.hpp"

namespace usher::cli::stat {

/// The functions are virtual so that tests can supply names of their own.
class symbols {
 public:
  explicit symbols(record::view record);
  virtual ~symbols();
  symbols(const symbols&) = delete;
  symbols& operator=(const symbols&) = delete;

  /// The frames of a chain of return addresses. Each is looked up one byte before, inside the call instruction.
  virtual stack resolve(const record::chain& c);
  /// The frames of one return address.
  virtual stack resolve(std::uint32_t process, std::uint64_t return_address);

  struct static_object {
    std::string symbol;                  ///< demangled; empty: the module has no symbol there
    std::uint64_t offset = 0, size = 0;  ///< of the address in the symbol; size of the symbol
    std::string module;
    std::uint64_t module_offset = 0;  ///< of the address from the beginning of the module
  };
  /// The object at an address in a module's data.
  virtual std::optional<static_object> object_at(std::uint32_t process, std::uint64_t address);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace usher::cli::stat
