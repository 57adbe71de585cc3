// A file that is written at the end of the work and opened at its beginning, so that a file that cannot be written is an error at once
// and not after hours.
#pragma once

#include <string>

namespace usher::cli {

class output_file {
 public:
  output_file() = default;
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file();

  /// Whether the file can be written; false after an error message. Its content does not change, and no new file is created, before
  /// write(): an interrupted command leaves no empty file. Succeeds with an empty name, for no file.
  bool open(const std::string& name);
  bool wanted() const { return !name_.empty(); }
  /// Replaces the content of the file. False after an error message.
  bool write(const std::string& content);

 private:
  bool open_to_write(int more_flags);

  std::string name_;
  int descriptor_ = -1;
};

}  // namespace usher::cli
