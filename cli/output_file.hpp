// A file that is to be written when the work is done, and is opened before it begins: who cannot write should not work for
// hours first.
#pragma once

#include <string>

namespace usher::cli {

class output_file {
 public:
  output_file() = default;
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  /// A file that was made here and never written to goes away; one that was there before keeps what it had.
  ~output_file();

  /// False after a complaint. No name: nothing is to be written, and that succeeds.
  bool open(const std::string& name);
  bool wanted() const { return descriptor_ >= 0; }
  /// Instead of what was in the file. False after a complaint.
  bool write(const std::string& content);

 private:
  std::string name_;
  int descriptor_ = -1;
  bool made_here_ = false;
};

}  // namespace usher::cli
