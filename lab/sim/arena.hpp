// The memory of a simulated run. All objects that threads share lie in it, so that a cache line is an offset in the
// arena, independent of the addresses of the simulating process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace usher::sim {

class arena {
 public:
  arena();
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// Zeroed memory, which is freed at the end of the run. Throws std::bad_alloc.
  void* allocate(std::size_t bytes, std::size_t alignment);

  /// Makes an object that is never destroyed.
  template <class T, class... Arguments>
  T& make(Arguments&&... arguments) {
    return *::new (allocate(sizeof(T), alignof(T))) T(std::forward<Arguments>(arguments)...);
  }
  /// Makes n objects, value-initialised.
  template <class T>
  T* make_array(std::size_t n, std::size_t alignment = alignof(T)) {
    T* const first = static_cast<T*>(allocate(n * sizeof(T), alignment));
    for (std::size_t i = 0; i < n; i++) ::new (first + i) T();
    return first;
  }

  std::size_t used() const { return used_; }
  std::size_t offset_of(const void* p) const {
    return std::size_t(reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(begin_));
  }

  // ---- names, for traces and errors ----

  /// Returns the name of a word, given its offset from the beginning of a named range.
  using namer = std::function<std::string(std::size_t offset)>;
  /// Names the words of a range. Ranges must be named in the order of their allocation.
  void name(const void* begin, std::size_t bytes, namer names);
  /// Returns the word's name, such as "lock+4"; for a word without a name, its offset in the arena.
  std::string name_of(const void* word) const;
  /// A namer for "lock+0", "lock+4".
  static namer plus(std::string name);

 private:
  struct range {
    std::size_t begin, end;
    namer names;
  };

  static constexpr std::size_t most = std::size_t{1} << 30;  // reserved address space; pages are mapped on first use
  std::byte* begin_;
  std::size_t used_ = 0;
  std::vector<range> ranges_;
};

}  // namespace usher::sim
