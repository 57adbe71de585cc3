// Starts a recording in a process that runs under Usher, and takes over its record. watch/contract/attach_point.hpp
// describes the protocol.
//
// The attacker is the process: it chooses the content of its memory, the names of the files that it maps, and its
// descriptors, and the observer may be root. So no file is opened by a name that the process can influence; all data of
// the process are copied with bounds; each step that may wait for the process runs in a child with a time limit; and
// the record's file is used only if it is a memory file whose size can no longer change.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "watch/access/record_file.hpp"
#include "watch/reader/attach/target_memory.hpp"

namespace usher::reader {

struct attach_options {
  access::record_options record;
  /// The user guarantees that the process's system-call filters permit the calls of a recording. Used if the filters
  /// cannot be read.
  bool trust_filter = false;
};

class attachment {
 public:
  using interruption = std::function<bool()>;

  attachment(pid_t pid, const attach_options& options);
  attachment(const attachment&) = delete;
  attachment& operator=(const attachment&) = delete;
  ~attachment();

  /// Requests a record from the process, and stops all its threads for a moment, as a debugger does. Returns an empty
  /// string on success; else an error message of one line without a full stop, and the process is unchanged.
  std::string ask(const interruption& interrupted);
  /// Waits for the process's next call, which makes the record, and takes over the record. Null if no call came within
  /// the limit or before `interrupted` returned true, if the process has ended, or on an error, which error()
  /// describes.
  std::unique_ptr<access::record_file> take(std::chrono::milliseconds limit, const interruption& interrupted);

  const std::string& error() const { return error_; }
  /// The time for which ask() stopped the process's threads, and their number.
  double stopped_seconds() const { return stopped_seconds_; }
  unsigned stopped_threads() const { return stopped_threads_; }

 private:
  std::string write_request(std::uint32_t before) const;
  int descriptor_of(int number) const;
  std::unique_ptr<access::record_file> take_file(int number);

  pid_t pid_;
  attach_options options_;
  access::tick_clock clock_;
  target_memory memory_;
  int process_;               ///< pidfd; −1: this kernel has none
  std::uint64_t point_ = 0;   ///< address of the attach point
  std::uint32_t number_ = 0;  ///< the request's number
  bool has_filter_ = false;
  std::string error_;
  double stopped_seconds_ = 0;
  unsigned stopped_threads_ = 0;
};

}  // namespace usher::reader
