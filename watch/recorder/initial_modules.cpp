#include "watch/recorder/initial_modules.hpp"

#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "watch/recorder/dynamic_section.hpp"

#pragma weak _r_debug  // the program may run on a C library without it

namespace usher::recorder {
namespace {

constexpr unsigned most_modules = 512;  // chosen; further modules do not count as initial

/// The initial modules, in ascending order.
constinit const void* initial[most_modules]{};
constinit std::atomic<unsigned> number{0};

std::uint32_t hash_of(const char* text) {
  std::uint32_t hash = 0x811c9dc5;
  for (; *text != '\0'; text++) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x01000193;
  return hash;
}

/// The program headers of the modules, in the order of the loader's list. Copied while dl_iterate_phdr() holds the
/// loader's lock.
class headers_of_modules {
 public:
  void collect() { dl_iterate_phdr(add, this); }

  /// The headers of the module with this entry, which is the `i`-th in the list; empty if not found.
  module_headers of(const link_map& m, unsigned i) const {
    const auto dynamic = reinterpret_cast<std::uintptr_t>(m.l_ld);
    for (unsigned tried = 0; tried < number_; tried++, i++) {
      const module_headers& h = all_[i < number_ ? i : i = 0];
      if (h.bias == m.l_addr && h.dynamic_at(dynamic) != 0) return h;
    }
    return {};
  }

 private:
  static int add(dl_phdr_info* module, std::size_t, void* self) {
    auto& to = *static_cast<headers_of_modules*>(self);
    if (to.number_ == most_modules) return 1;
    to.all_[to.number_++] = {module->dlpi_addr, module->dlpi_phdr, module->dlpi_phnum};
    return 0;
  }

  module_headers all_[most_modules]{};
  unsigned number_ = 0;
};

/// The modules at the beginning of the loader's list. The list is read only as far as the search for needed libraries
/// requires.
class first_modules {
 public:
  /// Follows the needed libraries (DT_NEEDED) of the program and of each initial module. Returns the number of initial
  /// modules.
  unsigned find(const link_map* first) {
    next_ = first;
    headers_.collect();
    read_next();
    initial_ = read_;
    for (unsigned i = 0; i < initial_; i++) {
      const link_map& m = *modules_[i].map;
      dynamic_section(m.l_ld, headers_.of(m, i)).each_name(DT_NEEDED, [this](const char* name) { need(name); });
    }
    return initial_;
  }
  const void* at(unsigned i) const { return modules_[i].map; }

 private:
  struct module {
    const link_map* map;
    std::uint32_t soname, path, file;  ///< hashes
  };

  bool read_next() {
    if (next_ == nullptr || read_ == most_modules) return false;
    module& m = modules_[read_++];
    const char* const name = next_->l_name != nullptr ? next_->l_name : "";
    const char* const slash = std::strrchr(name, '/');
    m = {next_, 0, hash_of(name), hash_of(slash != nullptr ? slash + 1 : name)};
    dynamic_section(next_->l_ld, headers_.of(*next_, read_ - 1)).each_name(DT_SONAME, [&m](const char* soname) {
      m.soname = hash_of(soname);
    });
    next_ = next_->l_next;
    return true;
  }

  /// Marks all modules up to the one with this name as initial.
  void need(const char* name) {
    const std::uint32_t hash = hash_of(name);
    for (unsigned i = 0; i < read_ || read_next(); i++) {
      const module& m = modules_[i];
      if (m.soname != hash && m.path != hash && m.file != hash) continue;
      if (i >= initial_) initial_ = i + 1;
      return;
    }
  }

  headers_of_modules headers_;
  module modules_[most_modules]{};
  unsigned read_ = 0, initial_ = 0;
  const link_map* next_ = nullptr;
};

constinit first_modules list{};  // static, since the stack may be small

[[gnu::constructor]] void find_initial_modules() {
  if (&_r_debug == nullptr || _r_debug.r_map == nullptr) return;
  const unsigned n = list.find(_r_debug.r_map);
  for (unsigned i = 0; i < n; i++) {
    unsigned at = i;
    for (; at > 0 && std::less<>()(list.at(i), initial[at - 1]); at--) initial[at] = initial[at - 1];
    initial[at] = list.at(i);
  }
  number.store(n, std::memory_order_release);
}

}  // namespace

bool is_initial(const void* link_map) {
  unsigned first = 0, after = number.load(std::memory_order_acquire);
  const unsigned n = after;
  while (first < after) {
    const unsigned middle = first + (after - first) / 2;
    if (std::less<>()(initial[middle], link_map))
      first = middle + 1;
    else
      after = middle;
  }
  return first < n && initial[first] == link_map;
}

}  // namespace usher::recorder
