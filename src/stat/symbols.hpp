// Names for addresses of the processes of a record: functions, those that the compiler put in line among them, source lines,
// and static objects. By elfutils, from the files that were mapped; a file that is gone or has changed gives no names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "record/layout.hpp"
#include "stat/report.hpp"

namespace usher::cli::stat {

/// Tests of what is made of names have names of their own: so these are virtual.
class symbols {
 public:
  explicit symbols(record::view record);
  virtual ~symbols();
  symbols(const symbols&) = delete;
  symbols& operator=(const symbols&) = delete;

  /// A chain of return addresses, each looked up one byte before, where the call is: the frame's address.
  virtual stack resolve(const record::chain& c);
  /// The same of one return address.
  virtual stack resolve(std::uint32_t process, std::uint64_t return_address);

  struct static_object {
    std::string symbol;                  ///< demangled; empty: the module has none there
    std::uint64_t offset = 0, size = 0;  ///< of the address in the symbol; of the symbol
    std::string module;
    std::uint64_t module_offset = 0;  ///< of the address from where the module begins
  };
  /// What lies at an address of a module's data.
  virtual std::optional<static_object> object_at(std::uint32_t process, std::uint64_t address);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace usher::cli::stat
