// The names of a record's threads, which /proc shows only while they live.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "watch/access/census.hpp"
#include "watch/contract/live.hpp"

namespace usher::reader {

/// The program chooses the names, and may forge the ids. These are used only to read files of /proc, at most some hundreds in a
/// sample; a thread that was not read gets its name in a later one.
class thread_names {
 public:
  void sample(const contract::live& record, const access::seen_ids& ids);
  /// Empty: not known. `tid` as the record has it.
  std::string of(std::uint32_t process, std::uint32_t tid) const;

 private:
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> names_;
  std::uint32_t next_ = 0;  ///< slot
};

}  // namespace usher::reader
