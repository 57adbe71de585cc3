// Another process's memory and mappings, copied page by page.
//
// The attacker is the process: it unmaps and changes its memory between two reads, forges ELF headers and maps what it
// likes. Each page is copied once and then read from the copy, so what was checked is what is used; numbers of pages,
// mappings and segments have limits. A read may block for as long as the process wants (userfaultfd, FUSE): all of
// this runs in the child of looker.hpp.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace usher::reader {

/// Copies of pages of a process. Its read() is the memory of the unwind rules (frame_rules.hpp).
class target_pages {
 public:
  static constexpr std::uint64_t page = 4096;

  target_pages(pid_t pid, std::size_t most) : pid_(pid), most_(most) {}

  bool read(std::uint64_t at, void* to, std::size_t size);
  template <class T>
  bool read(std::uint64_t at, T& to) {
    return read(at, &to, sizeof to);
  }
  /// Forgets all copies: the next reads see the memory as it is then.
  void forget() { pages_.clear(); }
  /// Nothing is read any more: the memory blocks its readers.
  void refuse() { is_refused_ = true; }

 private:
  using content = std::array<unsigned char, page>;
  const content* copy_of(std::uint64_t begin);

  pid_t pid_;
  std::size_t most_;
  bool is_refused_ = false;
  std::unordered_map<std::uint64_t, std::unique_ptr<content>> pages_;  ///< null: not mapped
};

/// A file that the process maps.
struct target_module {
  std::uint64_t begin = 0, end = 0, bias = 0, identity = 0;
  std::uint64_t tables = 0;  ///< address of .eh_frame_hdr; 0: none
  std::string path;
};

class target_maps {
 public:
  target_maps(pid_t pid, target_pages& memory) : pid_(pid), memory_(memory) {}

  /// Reads the mappings. Returns whether they differ from those of the last reading.
  bool read();
  bool is_code(std::uint64_t address) const;
  /// The number of the module that has the address, + 1; 0: none.
  std::uint32_t module_at(std::uint64_t address);
  const std::vector<target_module>& modules() const { return modules_; }
  /// The paths of the mapped files.
  std::vector<std::string> paths() const;
  bool was_cut() const { return is_cut_; }

 private:
  struct region {
    std::uint64_t begin = 0, end = 0, offset = 0;
    bool is_code = false, is_file = false, is_empty_name = false;
    std::uint32_t path = 0;
    std::uint32_t module = 0;  ///< + 1; 0: not looked for
    bool operator==(const region& o) const {
      return begin == o.begin && end == o.end && offset == o.offset && is_code == o.is_code && path == o.path;
    }
  };
  region* region_at(std::uint64_t address);
  const region* region_at(std::uint64_t address) const { return const_cast<target_maps*>(this)->region_at(address); }
  std::uint32_t identify(std::size_t index);

  pid_t pid_;
  target_pages& memory_;
  std::vector<region> regions_;
  std::vector<std::string> paths_;
  std::vector<target_module> modules_;
  bool is_cut_ = false;
};

}  // namespace usher::reader
