// A file that is to be written when the work is done, and is tried before it begins: who cannot write should not work for
// hours first.
#pragma once

#include <string>

namespace usher::cli {

class output_file {
 public:
  output_file() = default;
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file();

  /// Whether it can be written. What is there keeps what it has, and nothing is made, until write(): who is interrupted leaves no
  /// empty file. False after an error message. No name: nothing is to be written, and that succeeds.
  bool open(const std::string& name);
  bool wanted() const { return !name_.empty(); }
  /// Instead of what was in the file. False after an error message.
  bool write(const std::string& content);

 private:
  bool open_to_write(int more_flags);

  std::string name_;
  int descriptor_ = -1;
};

}  // namespace usher::cli
