// Fuzz targets: code that reads untrusted input is given arbitrary bytes. The code may refuse the input by an exception
// of the standard library, which its callers catch. Every other fault is an error that a sanitizer reports.
//
// `make fuzz` builds each target as an executable of libFuzzer. `make test` runs all targets on the kept inputs
// (corpus/TARGET/), in one executable built by the usual compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace usher::fuzz {

using bytes = std::span<const std::uint8_t>;
using target = void (*)(bytes);

struct named_target {
  named_target(const char* its_name, target its_run);
  const char* name;
  target run;
  named_target* next;
};

inline std::string_view as_text(bytes input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

/// Reads values from the front of an input. When the input is used up, values are zero.
class source {
 public:
  explicit source(bytes input) : left_(input) {}
  template <class T>
  T take() {
    T value{};
    const std::size_t n = std::min(sizeof value, left_.size());
    std::memcpy(&value, left_.data(), n);
    left_ = left_.subspan(n);
    return value;
  }
  bool is_empty() const { return left_.empty(); }
  bytes rest() const { return left_; }

 private:
  bytes left_;
};

/// A file in memory with these bytes, for code that opens a file by its path.
class file_of {
 public:
  explicit file_of(bytes content);
  ~file_of();
  file_of(const file_of&) = delete;
  file_of& operator=(const file_of&) = delete;
  std::string path() const;

 private:
  int descriptor_;
};

/// Does nothing with the text; the compiler must assume that it is used, and so computes it.
void use(std::string_view text);

}  // namespace usher::fuzz

#ifdef USHER_FUZZ
#define USHER_FUZZ_ENTRY(name)                                                        \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    ::usher::fuzz::run_##name({data, size});                                          \
    return 0;                                                                         \
  }
#else
#define USHER_FUZZ_ENTRY(name) static const ::usher::fuzz::named_target of_##name(#name, ::usher::fuzz::run_##name);
#endif

/// Defines the target `name`. The function body that follows reads `input`, and may throw std::exception.
#define USHER_FUZZ_TARGET(name)         \
  namespace usher::fuzz {               \
  static void try_##name(bytes input);  \
  static void run_##name(bytes input) { \
    try {                               \
      try_##name(input);                \
    } catch (const std::exception&) {   \
    }                                   \
  }                                     \
  }                                     \
  USHER_FUZZ_ENTRY(name)                \
  static void usher::fuzz::try_##name([[maybe_unused]] bytes input)
