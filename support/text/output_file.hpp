// A file that is written at the end of the work. open() tests at the beginning whether that is possible, so that the
// user learns of an error at once and not after hours.
// A result is written into a new file in the same folder, which then takes the name. So a full disk or a killed command
// leaves the old file unchanged, and a link that another user has planted under the name is replaced and not followed
// (output_place.hpp describes the attacker). Some files are opened and written in place: devices, /dev/stdout, FIFOs if
// they are ours, and files in a folder that we may not write.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "support/process/owned_descriptor.hpp"
#include "support/text/output_place.hpp"

namespace usher::support {

/// Writes the content at the descriptor's position, in several calls if need be. False: errno has the reason.
bool write_all(int descriptor, const std::string& content);

class output_file {
 public:
  /// Whether the file can be written; false after an error message. The file is neither changed nor created before
  /// write(), so an interrupted command leaves no empty file. With an empty name, which means no file, the result is
  /// true.
  bool open(const std::string& name);
  bool wanted() const { return !name_.empty(); }
  /// Replaces the content of the file. If another command has written a file of that name since open(), both files are
  /// kept: the new one's name gets a number, and a warning says so. Returns false after an error message.
  bool write(const std::string& content);

 private:
  std::optional<struct stat> named() const;
  bool can_be_replaced(const std::optional<struct stat>& old);
  bool open_in_place();
  owned_descriptor own_descriptor() const;
  bool write_in_place(const std::string& content);
  bool write_beside(const std::string& content);
  bool publish(const std::string& temporary);
  bool publish_with_number(const std::string& temporary);
  bool failed(const std::string& reason) const;

  std::string name_;
  output_place place_;
  std::optional<struct stat> before_;  ///< the file that had the name at open()
  owned_descriptor in_place_;
  bool is_duplicate_ = false;  ///< in_place_, of a descriptor that we were started with
};

}  // namespace usher::support
