// Looks up names for the addresses in a record: functions, including inlined ones, source lines, and static objects.
// elfutils reads them from the mapped files. A file that was deleted or replaced yields no names.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "watch/contract/format.hpp"
#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// Which files are opened. The recorded program chooses their paths and contents, so `usher stat` opens them in a
/// confined process (remote_symbols.hpp).
struct file_reading {
  bool opens_files = true;                            ///< false: addresses only get modules and offsets
  std::set<std::string> left_out{};                   ///< paths of files that are not opened
  std::function<void(const std::string&)> entered{};  ///< called with a file's path before the file is opened or read
  std::function<void(const std::string&)> denied{};   ///< called with the path of a file that may not be opened
};

/// An address for which a name is requested.
struct query {
  enum class what : std::uint32_t { code, data } kind = what::code;  ///< code: a return address
  std::uint32_t process = 0;                                         ///< index of the process's slot
  std::uint64_t address = 0;
};

/// Whether the frame's function belongs to the C library, the C++ library, or a library that wraps them.
bool is_of_a_library(const frame& f);

/// Looks up names in this process. The functions are virtual so that names can come from another process, or from a
/// test.
class symbols {
 public:
  explicit symbols(contract::view record, file_reading how = {});
  virtual ~symbols();
  symbols(const symbols&) = delete;
  symbols& operator=(const symbols&) = delete;

  /// The frames of a chain of return addresses. Each is looked up at the address − 1, which is in the call instruction.
  virtual stack resolve(const contract::chain& c);
  /// The frames of one return address; `return_word` has the form of contract::word_of().
  virtual stack resolve(std::uint32_t process, std::uint64_t return_word);

  struct static_object {
    std::string symbol;                  ///< demangled; empty: the module has no symbol there
    std::uint64_t offset = 0, size = 0;  ///< of the address in the symbol; the symbol's size
    std::string module;
    std::uint64_t module_offset = 0;  ///< distance of the address from the module's beginning
  };
  /// The object at an address in a module's data; `word` has the form of contract::word_of().
  virtual std::optional<static_object> object_at(std::uint32_t process, std::uint64_t word);

  /// Announces addresses that will be requested, so that a subclass can look them up together.
  virtual void prepare(std::span<const query>) {}
  /// Sentences for the report on names that are missing, and why.
  virtual std::vector<std::string> remarks() const { return {}; }

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace usher::reader
