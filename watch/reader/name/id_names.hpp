// Finds the ids under which the report shows a record's processes and threads.
#pragma once

#include <cstdint>

#include "watch/access/census.hpp"
#include "watch/contract/format.hpp"
#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

class id_names {
 public:
  id_names(contract::view record, const access::seen_ids* ids) : record_(record), ids_(ids) {}

  shown_id process(std::uint32_t slot) const;
  shown_id thread(std::uint32_t slot) const;
  /// Whether the thread's end is unknown, because /proc does not show whether its process lives.
  bool is_hidden(std::uint32_t thread) const;

 private:
  const access::seen_ids::entry* seen_process(std::uint32_t slot) const;
  bool is_inside(std::uint32_t process) const;

  contract::view record_;
  const access::seen_ids* ids_;
};

}  // namespace usher::reader
