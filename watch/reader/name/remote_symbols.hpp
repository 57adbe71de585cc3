// Looks up names in a child process that has the ids of the recorded program, sees the same files, and can only read.
//
// Attackers are the recorded program and the owners of the files that it maps: they choose the paths and contents of
// the files in which names are looked up. A crafted file may crash elfutils, occupy it for ever, or give its author
// control of the process that reads it; a path may lead to a pipe, or to a file that only the observer may read. So the
// observer opens none of these files. It forks a child for each place (process_place.hpp), which is confined
// (confinement.hpp) before it opens the first file. The child has the record in its copy of the observer's memory,
// looks up names by the class `symbols`, and sends them in bounded messages (name_messages.hpp).
//
// The child announces each file before it opens or reads it. If the child ends, sends an invalid message or exceeds the
// time, the file announced last is omitted, and a new child serves the rest. Addresses in an omitted file are shown as
// module and offset, with a remark in the report.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "watch/reader/attach/process_place.hpp"
#include "watch/reader/name/symbols.hpp"

namespace usher::reader {

/// Limits of the cost of looking up names. Objects with the same name_budget share the limits.
struct name_budget {
  double seconds_a_file = 20;                               ///< limit of waiting for names from one file; chosen
  double seconds = 120;                                     ///< rest of the time for waiting; chosen
  std::uint64_t bytes_received = std::uint64_t{256} << 20;  ///< rest
  std::uint64_t bytes_handed_out = std::uint64_t{512}
                                   << 20;  ///< that are left: an address in many stacks is copied to each
};

/// Names for the addresses in a record, which must stay at its address in memory. `places`: the places of the record's
/// processes by slot; `others`: the place of processes with higher slots.
std::unique_ptr<symbols> names_of(contract::view record, std::vector<process_place> places = {},
                                  process_place others = process_place::own(),
                                  std::shared_ptr<name_budget> budget = std::make_shared<name_budget>());

class remote_symbols : public symbols {
 public:
  /// `child`: for tests, replaces the child's work; the child is then not confined.
  remote_symbols(contract::view record, std::vector<process_place> places, process_place others,
                 std::shared_ptr<name_budget> budget, std::function<void(int channel)> child = {});
  ~remote_symbols() override;

  stack resolve(const contract::chain& c) override;
  stack resolve(std::uint32_t process, std::uint64_t return_address) override;
  std::optional<static_object> object_at(std::uint32_t process, std::uint64_t address) override;
  void prepare(std::span<const query> queries) override;
  std::vector<std::string> remarks() const override;

  /// The running children.
  std::vector<pid_t> children() const;

 private:
  struct state;
  std::unique_ptr<state> remote_;
};

}  // namespace usher::reader
