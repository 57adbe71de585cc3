// A file in memory for the output of a program.
#pragma once

#include <cstddef>
#include <string>

namespace usher::support {

/// A file in memory without a name. If the output is larger than twice `kept_end` bytes, only its first and last
/// `kept_end` bytes are kept.
class scratch_file {
 public:
  static constexpr std::size_t kept_end = std::size_t{32} << 20;

  scratch_file();
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  ~scratch_file();
  int descriptor() const { return descriptor_; }
  /// All kept bytes.
  std::string text() const;
  std::string head(std::size_t most) const;
  std::string tail(std::size_t most) const;
  std::size_t size() const;
  bool is_cut() const { return size() > 2 * kept_end; }
  /// Frees the memory of the bytes that are not kept.
  void cut() const;

 private:
  std::string part(std::size_t begin, std::size_t end) const;
  int descriptor_;
};

}  // namespace usher::support
