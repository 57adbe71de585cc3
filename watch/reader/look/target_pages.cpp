#include "watch/reader/look/target_pages.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <map>

#include "support/process/files.hpp"
#include "support/process/running_process.hpp"
#include "watch/contract/module_identity.hpp"

namespace usher::reader {

const target_pages::content* target_pages::copy_of(std::uint64_t begin) {
  if (const auto known = pages_.find(begin); known != pages_.end()) return known->second.get();
  if (is_refused_ || pages_.size() >= most_) return nullptr;
  auto copy = std::make_unique<content>();
  const iovec here{copy->data(), page};
  const iovec there{reinterpret_cast<void*>(begin), page};  // NOLINT(performance-no-int-to-ptr): of the process
  if (process_vm_readv(pid_, &here, 1, &there, 1, 0) != static_cast<ssize_t>(page)) copy.reset();
  return (pages_[begin] = std::move(copy)).get();
}

bool target_pages::read(std::uint64_t at, void* to, std::size_t size) {
  if (at > ~std::uint64_t{0} - size) return false;
  for (std::size_t done = 0; done < size;) {
    const std::uint64_t from = at + done, inside = from % page;
    const std::size_t n = std::min<std::size_t>(size - done, page - inside);
    const content* const copy = copy_of(from - inside);
    if (copy == nullptr) return false;
    std::memcpy(static_cast<char*>(to) + done, copy->data() + inside, n);
    done += n;
  }
  return true;
}

bool target_maps::read() {
  constexpr std::size_t most_regions = 32768, longest = 8 << 20;
  const std::string text = support::content_of(AT_FDCWD, fmt::format("/proc/{}/maps", pid_), longest);
  std::vector<region> found;
  std::vector<std::string> paths;
  std::map<std::string, std::uint32_t, std::less<>> known;
  is_cut_ = text.size() >= longest;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    auto m = support::read_mapping(std::string_view(text).substr(at, end - at));
    at = end + 1;
    if (!m) continue;
    if (found.size() >= most_regions) {
      is_cut_ = true;
      break;
    }
    const auto [name, is_new] = known.try_emplace(m->path, static_cast<std::uint32_t>(paths.size()));
    if (is_new) paths.push_back(m->path);
    found.push_back({m->range.begin, m->range.end, m->offset, m->rights[2] == 'x', m->is_of_file, m->path.empty(),
                     name->second, 0});
  }
  std::sort(found.begin(), found.end(), [](const region& a, const region& b) { return a.begin < b.begin; });
  if (found == regions_ && paths == paths_) return false;
  regions_ = std::move(found);
  paths_ = std::move(paths);
  modules_.clear();
  return true;
}

target_maps::region* target_maps::region_at(std::uint64_t address) {
  auto after = std::upper_bound(regions_.begin(), regions_.end(), address,
                                [](std::uint64_t a, const region& r) { return a < r.begin; });
  if (after == regions_.begin() || (--after)->end <= address) return nullptr;
  return &*after;
}

bool target_maps::is_code(std::uint64_t address) const {
  const region* const r = region_at(address);
  return r != nullptr && r->is_code;
}

std::uint32_t target_maps::module_at(std::uint64_t address) {
  region* const r = region_at(address);
  if (r == nullptr) return 0;
  if (r->module == 0) r->module = identify(static_cast<std::size_t>(r - regions_.data())) + 1;
  return r->module - 1;
}

/// Returns the number of the module to which a region belongs, + 1; 0: none. Bias, identity and the place of the tables
/// come from the ELF header in the process's memory; a forged one gives wrong addresses, which no file confirms.
std::uint32_t target_maps::identify(std::size_t index) {
  constexpr std::uint64_t page = target_pages::page;
  constexpr std::size_t most_segments = 64, most_modules = 4096, longest_path = 4096;
  std::size_t first = index;
  // .bss is an anonymous mapping behind the file's.
  while (first > 0 && regions_[first].is_empty_name && regions_[first - 1].end == regions_[first].begin) first--;
  if (!regions_[first].is_file) return 0;
  const std::uint32_t path = regions_[first].path;
  std::size_t last = index;
  while (first > 0 && !(regions_[first].path == path && regions_[first].offset == 0)) first--;
  if (regions_[first].path != path || regions_[first].offset != 0) return 0;
  for (std::uint32_t i = 0; i < modules_.size(); i++)
    if (modules_[i].begin == regions_[first].begin) {
      modules_[i].end = std::max(modules_[i].end, regions_[index].end);
      return i + 1;
    }
  if (modules_.size() >= most_modules) return 0;
  while (last + 1 < regions_.size() && regions_[last + 1].path == path && regions_[last + 1].offset != 0) last++;
  target_module m;
  m.begin = regions_[first].begin;
  m.end = regions_[last].end;
  m.path = paths_[path].substr(0, longest_path);
  m.bias = m.begin;
  m.identity = 1;  // that of no file
  Elf64_Ehdr head{};
  if (memory_.read(m.begin, head) && std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
      head.e_phentsize == sizeof(Elf64_Phdr) && head.e_phoff <= page) {
    std::uint64_t tables = 0;
    bool is_known = false;
    for (std::size_t i = 0; i < std::min<std::size_t>(head.e_phnum, most_segments); i++) {
      Elf64_Phdr p{};
      if (!memory_.read(m.begin + head.e_phoff + i * sizeof p, p)) break;
      if (p.p_type == PT_LOAD && p.p_offset < page && !is_known) {
        is_known = true;
        m.bias = m.begin - p.p_vaddr / page * page;
      }
      if (p.p_type == PT_GNU_EH_FRAME) tables = p.p_vaddr;
    }
    if (tables != 0) m.tables = m.bias + tables;
    m.identity = contract::module_identity(
        [&](std::uint64_t at, void* to, std::size_t size) { return memory_.read(m.begin + at, to, size); },
        [&](std::uint64_t, std::uint64_t in_file) { return m.bias + in_file - m.begin; });
    if (m.identity == 0) m.identity = 1;
  }
  modules_.push_back(std::move(m));
  return static_cast<std::uint32_t>(modules_.size());
}

std::vector<std::string> target_maps::paths() const {
  return paths_;
}

}  // namespace usher::reader
