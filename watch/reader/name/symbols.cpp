// Each mapped file is read only once, even if several processes map it at different addresses: names are cached by the
// address in the file.
#include "watch/reader/name/symbols.hpp"

#include <cxxabi.h>
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "watch/contract/module_identity.hpp"

namespace usher::reader {
namespace mapped_files {

constexpr std::uint64_t page = 4096;
constexpr std::int64_t largest_file = std::int64_t{2} << 30;  // bytes, with debug information; chosen
constexpr std::uint32_t longest_path = 4096;                  // PATH_MAX

// ---- names ----------------------------------------------------------------------------------------------------------

std::string demangled(std::string name) {
  if (const auto version = name.find('@'); version != std::string::npos) name.resize(version);
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                          &std::free);
  return plain ? std::string(plain.get()) : name;
}

/// The name without arguments and without the return type of a function template: "std::f<int>" for "void
/// std::f<int>(int)".
std::string_view qualified_name(std::string_view function) {
  std::size_t begin = 0;
  int depth = 0;
  const auto has = [&](std::size_t i, std::string_view word) { return function.substr(i).starts_with(word); };
  for (std::size_t i = 0; i < function.size(); i++) {
    const char c = function[i];
    if (depth == 0) {
      const bool is_word_start = i == begin || function[i - 1] == ':';
      if (is_word_start && has(i, "operator")) break;  // the operator's name may contain blanks and brackets
      if (has(i, "(anonymous namespace)")) {
        i += std::string_view("(anonymous namespace)").size() - 1;
        continue;
      }
      if (is_word_start && (has(i, "decltype (") || has(i, "decltype("))) {
        i = function.find('(', i);
        depth++;
        continue;
      }
      if (c == ' ') begin = i + 1;
      if (c == '(') return function.substr(begin, i - begin);
    }
    if (c == '<' || c == '(' || c == '{' || c == '[') depth++;
    if ((c == '>' && (i == 0 || function[i - 1] != '-')) || c == ')' || c == '}' || c == ']') depth--;
  }
  return function.substr(begin);
}

/// The words of an identifier ("InstrumentedMutexLock", "uv_mutex_lock"), without arguments, in lower case.
std::vector<std::string> words_of(std::string_view identifier) {
  std::vector<std::string> words;
  bool is_inside = false, was_capital = false;
  for (const char c : identifier.substr(0, identifier.find('<'))) {
    const bool is_capital = c >= 'A' && c <= 'Z';
    const bool is_small = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    // A capital letter begins a word, except within an abbreviation: "DBMutex" becomes "db", "mutex".
    if (is_small && is_inside && words.back().size() > 1 && was_capital) {
      const char first = words.back().back();
      words.back().pop_back();
      words.emplace_back(1, first);
    } else if ((is_capital || is_small) && (!is_inside || (is_capital && !was_capital))) {
      words.emplace_back();
    }
    is_inside = is_capital || is_small;
    was_capital = is_capital;
    if (is_inside) words.back() += static_cast<char>(is_capital ? c - 'A' + 'a' : c);
  }
  return words;
}

template <std::size_t N>
bool is_among(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Whether, by its name, a function only locks or initialises a lock: a member of a class whose name ends in "mutex" or
/// a similar word, or a function such as mutex_lock() in any library. Such a function is not a useful place, since a
/// program may lock hundreds of mutexes in it.
bool is_named_like_a_lock(std::string_view name) {
  static constexpr std::array<std::string_view, 12> locks{"mutex", "cond",      "condvar",  "condition",
                                                          "sem",   "semaphore", "spinlock", "futex",
                                                          "lock",  "guard",     "locker",   "monitor"};
  static constexpr std::array<std::string_view, 5> makes{"init", "create", "new", "alloc", "allocate"};
  static constexpr std::array<std::string_view, 17> uses{
      "lock",      "unlock",  "trylock", "timedlock", "wait", "timedwait", "signal", "notify", "post",
      "broadcast", "acquire", "release", "enter",     "exit", "leave",     "try",    "assert"};
  std::size_t last = std::string_view::npos, before = std::string_view::npos;
  int depth = 0;
  for (std::size_t i = 0; i + 1 < name.size(); i++) {
    if (name[i] == '<' || name[i] == '(' || name[i] == '{') depth++;
    if (name[i] == '>' || name[i] == ')' || name[i] == '}') depth--;
    if (depth == 0 && name[i] == ':' && name[i + 1] == ':') {
      before = last;
      last = i++;
    }
  }
  if (last != std::string_view::npos) {
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 2;
    const std::string_view scope = name.substr(begin, last - begin), member = name.substr(last + 2);
    std::vector<std::string> in_scope = words_of(scope);
    while (!in_scope.empty() && (in_scope.back() == "t" || in_scope.back() == "impl" || in_scope.back() == "base"))
      in_scope.pop_back();
    if (in_scope.size() > 1 && (in_scope.back() == "var" || in_scope.back() == "variable")) in_scope.pop_back();
    if (!in_scope.empty() && is_among(in_scope.back(), locks)) {
      const std::vector<std::string> in_member = words_of(member);
      return member.starts_with('~') || words_of(scope) == in_member ||
             (!in_member.empty() && is_among(in_member.front(), uses)) ||
             (in_member.size() == 2 && is_among(in_member.back(), uses));
    }
    name = member;
  }
  for (const std::string_view of_python : {"PyThread_allocate_lock", "PyThread_acquire_lock", "PyThread_release_lock"})
    if (name.starts_with(of_python)) return true;
  const std::vector<std::string> words = words_of(name);
  for (std::size_t i = 0; i + 1 < words.size(); i++) {
    const auto is_lock = [&](std::size_t k) {
      return is_among(words[k], locks) && words[k] != "lock" && words[k] != "guard";
    };
    if ((is_lock(i) && is_among(words[i + 1], uses)) || (is_among(words[i], uses) && is_lock(i + 1))) return true;
    // uv_mutex_init() counts, since its prefix shows that it belongs to a library. mutex_init() does not: it may
    // initialise all mutexes of a program.
    if (words.size() > 2 && is_lock(i) && is_among(words[i + 1], makes)) return true;
  }
  return false;
}

bool is_of_a_library(const frame& f) {
  const std::string_view name = qualified_name(f.function);
  for (const std::string_view of_libraries :
       {"std::", "__gthread", "__gthrw_", "__gnu_cxx::", "__cxxabiv1::", "boost::", "usher::"})
    if (name.starts_with(of_libraries)) return true;
  const std::string_view path = f.module;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const std::string_view library :
       {"libc.so", "libc-", "libpthread.so", "libpthread-", "libc++.so", "libc++abi.so", "libstdc++.so", "libgcc_s",
        "libboost_thread", "libusher.so", "libusher-all.so", "libusher-stat.so", "libusher-locks.so", "ld-linux",
        "ld-musl", "ld-2", "ld.so"})
    if (file.starts_with(library)) return true;
  return false;
}

// ---- the range that contains an address -----------------------------------------------------------------------------

/// A set of address ranges, which may be nested. at() returns the innermost range that contains an address.
template <class T>
class address_ranges {
 public:
  void add(std::uint64_t begin, std::uint64_t end, T what) {
    if (begin != 0 && begin < end)  // begin 0: code that the linker dropped
      ranges_.push_back({begin, end, 0, std::move(what)});
  }
  void sort() {
    std::stable_sort(ranges_.begin(), ranges_.end(), [](const range& a, const range& b) {
      return std::tuple(a.begin, b.end) < std::tuple(b.begin, a.end);
    });
    std::uint64_t furthest = 0;
    for (range& r : ranges_) r.furthest = furthest = std::max(furthest, r.end);
  }
  /// The value of the innermost range that contains the address; null if there is none. If several have the same begin
  /// and end, the first one added.
  const T* at(std::uint64_t address) const {
    auto r = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                              [](std::uint64_t a, const range& b) { return a < b.begin; });
    while (r != ranges_.begin() && (--r)->furthest > address) {
      if (r->end <= address) continue;
      while (r != ranges_.begin() && std::prev(r)->begin == r->begin && std::prev(r)->end == r->end) --r;
      return &r->what;
    }
    return nullptr;
  }
  bool empty() const { return ranges_.empty(); }

 private:
  struct range {
    std::uint64_t begin, end;
    std::uint64_t furthest;  // largest end of this and all earlier ranges
    T what;
  };
  std::vector<range> ranges_;
};

// ---- a file ---------------------------------------------------------------------------------------------------------

/// Unsets the variable that makes elfutils download debug information, which may be hundreds of megabytes.
class without_debug_servers {
 public:
  without_debug_servers() {
    if (const char* v = getenv(name)) {
      was_ = v;
      unsetenv(name);
    }
  }
  ~without_debug_servers() {
    if (was_) setenv(name, was_->c_str(), 1);
  }
  without_debug_servers(const without_debug_servers&) = delete;
  without_debug_servers& operator=(const without_debug_servers&) = delete;

 private:
  static constexpr const char* name = "DEBUGINFOD_URLS";
  std::optional<std::string> was_;
};

int find_local_debug_file(Dwfl_Module* module, void** data, const char* name, Dwarf_Addr base, const char* file,
                          const char* link, GElf_Word crc, char** found) {
  const without_debug_servers none;
  return dwfl_standard_find_debuginfo(module, data, name, base, file, link, crc, found);
}
constexpr Dwfl_Callbacks from_local_files = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_local_debug_file,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = nullptr,
};

struct segment {
  std::uint64_t address, memory_size;
};

/// The loaded segments of an ELF file; empty if the file is not an ELF file for this machine.
std::vector<segment> loaded_segments(int fd) {
  Elf64_Ehdr h;
  if (pread(fd, &h, sizeof h, 0) != sizeof h ||
      std::string_view(reinterpret_cast<char*>(h.e_ident), SELFMAG) != ELFMAG || h.e_ident[EI_CLASS] != ELFCLASS64 ||
      h.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  std::vector<Elf64_Phdr> headers(h.e_phnum);
  const auto bytes = static_cast<ssize_t>(headers.size() * sizeof(Elf64_Phdr));
  if (pread(fd, headers.data(), static_cast<std::size_t>(bytes), static_cast<off_t>(h.e_phoff)) != bytes) return {};
  std::vector<segment> loaded;
  for (const Elf64_Phdr& p : headers)
    if (p.p_type == PT_LOAD) loaded.push_back({p.p_vaddr, p.p_memsz});
  return loaded;
}

/// The identity of the file, equal to what libusher.so computes from the mapped module. The recorded program chose the
/// file's content, so module_identity() bounds each size that it reads.
std::uint64_t identity_of_file(int fd) {
  const auto read = [fd](std::uint64_t place, void* to, std::size_t size) {
    return pread(fd, to, size, static_cast<off_t>(place)) == static_cast<ssize_t>(size);
  };
  return contract::module_identity(read, [](std::uint64_t offset, std::uint64_t) { return offset; });
}

/// The absolute path of a module. The loader's path is empty for the program itself, and may be relative to the working
/// directory. A forged process id leads to another process's path, but that file has another identity.
std::string whole_path(std::string path, std::uint32_t pid) {
  if (path.starts_with('/')) return path;
  const bool is_program = path.empty();
  if (!is_program && path.find('/') == std::string::npos) return "";  // a module of the kernel
  std::error_code error;
  const auto its =
      std::filesystem::read_symlink("/proc/" + std::to_string(pid) + (is_program ? "/exe" : "/cwd"), error);
  if (!error) return is_program ? its.string() : (its / path).lexically_normal().string();
  if (is_program) return "";
  return (std::filesystem::current_path(error) / path).lexically_normal().string();  // the program began there
}

/// A mapped file. Addresses are as in the file's program headers and in the output of `nm`.
class mapped_file {
 public:
  /// Opens the file without blocking, and reads only a regular file, since the recorded program chose the path and the
  /// content.
  mapped_file(std::string path, std::uint64_t identity, const file_reading& how) : path_(std::move(path)) {
    if (!how.opens_files || how.left_out.contains(path_) || path_.ends_with(" (deleted)")) return;
    if (how.entered) how.entered(path_);
    const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
      if (errno == EACCES && how.denied) how.denied(path_);
      return;
    }
    struct ::stat now;
    if (fstat(fd, &now) == 0 && S_ISREG(now.st_mode) && now.st_size <= largest_file &&
        (identity == 0 || identity == identity_of_file(fd)))
      segments_ = loaded_segments(fd);
    if (segments_.empty())
      close(fd);
    else
      fd_ = fd;
  }
  ~mapped_file() {
    if (session_ != nullptr) dwfl_end(session_);
    if (fd_ >= 0) close(fd_);
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  const std::string& path() const { return path_; }
  bool is_open() const { return !segments_.empty(); }

  /// Whether the address is in one of the file's segments, including the part of a segment beyond the end of the file
  /// (.bss).
  bool has(std::uint64_t address) const {
    return std::any_of(segments_.begin(), segments_.end(),
                       [&](const segment& s) { return address - s.address < s.memory_size; });
  }
  std::uint64_t lowest() const {
    std::uint64_t lowest = segments_.empty() ? 0 : ~std::uint64_t{0};
    for (const segment& s : segments_) lowest = std::min(lowest, s.address / page * page);
    return lowest;
  }

  /// The frames of an address: at least one, the innermost first. Their `address` is not set.
  const std::vector<frame>& frames_at(std::uint64_t address) {
    const auto [known, is_new] = frames_.try_emplace(address);
    if (is_new) known->second = look_up(address);
    return known->second;
  }

  struct symbol {
    std::string_view name;
    std::uint64_t address, size;
  };
  const symbol* data_at(std::uint64_t address) {
    read_symbols();
    return data_.at(address);
  }

 private:
  struct unit {
    Dwarf_Die die;
    Dwarf_Die functions_die;  // of the .dwo file, if any
    bool has_functions = false, has_nested = false;
    address_ranges<Dwarf_Die> functions, nested;
  };

  void open_session() {
    if (session_ != nullptr || fd_ < 0) return;
    session_ = dwfl_begin(&from_local_files);
    if (session_ == nullptr) return;
    dwfl_report_begin(session_);
    module_ = dwfl_report_elf(session_, path_.c_str(), path_.c_str(), fd_, 0, true);
    if (module_ != nullptr) fd_ = -1;  // elfutils closes it
    dwfl_report_end(session_, nullptr, nullptr);
    if (module_ != nullptr && dwfl_module_getelf(module_, &file_bias_) == nullptr) module_ = nullptr;
  }

  void read_units() {
    if (std::exchange(has_units_, true)) return;
    open_session();
    if (module_ == nullptr) return;
    Dwarf_Addr bias = 0;
    for (Dwarf_Die* die = nullptr; (die = dwfl_module_nextcu(module_, die, &bias)) != nullptr;) {
      dwarf_bias_ = bias;
      each_range(*die,
                 [&](std::uint64_t begin, std::uint64_t end) { ranges_of_units_.add(begin, end, units_.size()); });
      units_.emplace_back().die = *die;
    }
    ranges_of_units_.sort();
  }

  template <class F>
  static void each_range(Dwarf_Die& die, F f) {
    if (dwarf_hasattr(&die, DW_AT_low_pc) == 0 && dwarf_hasattr(&die, DW_AT_ranges) == 0) return;
    Dwarf_Addr base = 0, begin = 0, end = 0;
    for (std::ptrdiff_t i = 0; (i = dwarf_ranges(&die, i, &base, &begin, &end)) > 0;) f(begin, end);
  }

  /// Adds the functions of a unit, including those in namespaces and classes. Functions declared inside functions are
  /// rare, and only added if `nested` is true.
  static void add_functions(Dwarf_Die parent, bool nested, address_ranges<Dwarf_Die>& to) {
    Dwarf_Die die;
    if (dwarf_child(&parent, &die) != 0) return;
    do switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram:
          each_range(die, [&](std::uint64_t begin, std::uint64_t end) { to.add(begin, end, die); });
          if (nested) add_functions(die, nested, to);
          break;
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
          add_functions(die, nested, to);
          break;
        case DW_TAG_lexical_block:
          if (nested) add_functions(die, nested, to);
          break;
        default:
          break;
      }
    while (dwarf_siblingof(&die, &die) == 0);
  }

  static const Dwarf_Die* function_at(unit& u, std::uint64_t pc) {
    if (!std::exchange(u.has_functions, true)) {
      u.functions_die = u.die;
      Dwarf_Die split{};
      if (dwarf_cu_info(u.die.cu, nullptr, nullptr, nullptr, &split, nullptr, nullptr, nullptr) == 0 &&
          split.addr != nullptr)
        u.functions_die = split;
      add_functions(u.functions_die, false, u.functions);
      u.functions.sort();
    }
    if (const Dwarf_Die* f = u.functions.at(pc)) return f;
    if (!std::exchange(u.has_nested, true)) {
      add_functions(u.functions_die, true, u.nested);
      u.nested.sort();
    }
    return u.nested.at(pc);
  }

  /// Appends the functions inlined at an address, the outermost first.
  static void add_inlined(Dwarf_Die parent, std::uint64_t pc, std::vector<Dwarf_Die>& to) {
    Dwarf_Die die;
    if (dwarf_child(&parent, &die) != 0) return;
    do {
      const int tag = dwarf_tag(&die);
      if (tag == DW_TAG_inlined_subroutine) {
        if (dwarf_haspc(&die, pc) > 0) {
          to.push_back(die);
          return add_inlined(die, pc, to);
        }
      } else if (tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block) {
        if (dwarf_haspc(&die, pc) > 0) return add_inlined(die, pc, to);
        const std::size_t before = to.size();
        if (dwarf_hasattr(&die, DW_AT_low_pc) == 0 && dwarf_hasattr(&die, DW_AT_ranges) == 0) add_inlined(die, pc, to);
        if (to.size() != before) return;
      }
    } while (dwarf_siblingof(&die, &die) == 0);
  }

  /// The name of a function; if possible from its linkage name, since that contains the arguments. Empty if the debug
  /// information has no name.
  std::string name_of(Dwarf_Die die, const symbol* concrete) {
    Dwarf_Attribute a;
    for (const unsigned linkage : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
      if (dwarf_attr_integrate(&die, linkage, &a) != nullptr)
        if (const char* name = dwarf_formstring(&a)) return demangled(name);
    if (concrete != nullptr && concrete->name.starts_with("_Z")) return demangled(std::string(concrete->name));
    const auto [known, is_new] = names_.try_emplace(die.addr);
    if (is_new) known->second = scoped_name(die);
    return known->second;
  }

  /// The name of a function without a linkage name, with its namespaces and classes. gcc emits no linkage name for a
  /// function that is local to a file and inlined at every call.
  static std::string scoped_name(Dwarf_Die die) {
    for (const unsigned to_declaration : {DW_AT_abstract_origin, DW_AT_specification}) {
      Dwarf_Attribute a;
      Dwarf_Die other;
      if (dwarf_attr(&die, to_declaration, &a) != nullptr && dwarf_formref_die(&a, &other) != nullptr) die = other;
    }
    const char* own = dwarf_diename(&die);
    if (own == nullptr) return "";
    std::string name = own;
    Dwarf_Die unit;
    if (dwarf_diecu(&die, &unit, nullptr, nullptr) == nullptr || is_c(dwarf_srclang(&unit))) return name;
    Dwarf_Die* scopes = nullptr;
    const int count = dwarf_getscopes_die(&die, &scopes);
    for (int i = 1; i < count; i++) {
      const int tag = dwarf_tag(&scopes[i]);
      const char* scope = dwarf_diename(&scopes[i]);
      if (scope == nullptr && tag == DW_TAG_namespace) scope = "(anonymous namespace)";
      if (scope == nullptr && i == 1 && name == "operator()") scope = "{lambda}";
      if (scope != nullptr && (tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
                               tag == DW_TAG_union_type || tag == DW_TAG_subprogram))
        name = std::string(scope) + "::" + name;
    }
    std::free(scopes);
    return name;
  }
  static bool is_c(int language) {
    return language == DW_LANG_C || language == DW_LANG_C89 || language == DW_LANG_C99 || language == DW_LANG_C11;
  }

  static unsigned number(Dwarf_Die die, unsigned attribute) {
    Dwarf_Attribute a;
    Dwarf_Word v = 0;
    return dwarf_attr(&die, attribute, &a) != nullptr && dwarf_formudata(&a, &v) == 0 ? static_cast<unsigned>(v) : 0;
  }

  std::vector<frame> look_up(std::uint64_t address) {
    frame f;
    f.module = path_;
    f.offset = address;
    read_units();
    const Dwarf_Addr pc = address + file_bias_ - dwarf_bias_;
    const std::size_t* where = ranges_of_units_.at(pc);
    if (where == nullptr) {
      if (const symbol* s = code_at(address)) f.function = demangled(std::string(s->name));
      return {f};
    }
    unit& u = units_[*where];
    if (Dwarf_Line* line = dwarf_getsrc_die(&u.die, pc)) {
      int n = 0;
      if (const char* file = dwarf_linesrc(line, nullptr, nullptr)) f.file = file;
      if (dwarf_lineno(line, &n) == 0 && n > 0) f.line = static_cast<unsigned>(n);
    }
    const Dwarf_Die* function = function_at(u, pc);
    if (function == nullptr) {
      if (const symbol* s = code_at(address)) f.function = demangled(std::string(s->name));
      return {f};
    }
    std::vector<Dwarf_Die> inlined;
    add_inlined(*function, pc, inlined);
    Dwarf_Files* files = nullptr;
    std::size_t files_count = 0;
    if (!inlined.empty() && dwarf_getsrcfiles(&u.functions_die, &files, &files_count) != 0) files = nullptr;
    std::vector<frame> found;
    for (auto die = inlined.rbegin(); die != inlined.rend(); ++die) {
      f.function = name_of(*die, nullptr);
      f.is_inlined = true;
      found.push_back(f);
      f.line = number(*die, DW_AT_call_line);  // of the call, which is in the next frame
      const char* file =
          files != nullptr ? dwarf_filesrc(files, number(*die, DW_AT_call_file), nullptr, nullptr) : nullptr;
      f.file = file != nullptr ? file : "";
    }
    f.is_inlined = false;
    f.function = name_of(*function, code_at(address));
    found.push_back(f);
    return found;
  }

  const symbol* code_at(std::uint64_t address) {
    read_symbols();
    return code_.at(address);
  }

  /// Reads the symbol table of the file or of its debug file; for a stripped file, the dynamic symbols.
  void read_symbols() {
    if (std::exchange(has_symbols_, true)) return;
    open_session();
    if (module_ == nullptr) return;
    struct entry {
      symbol s;
      bool is_data;
      int rank;  // of several symbols with one address, the one of lowest rank is used
    };
    std::vector<entry> entries;
    const int count = dwfl_module_getsymtab(module_);
    for (int i = 1; i < count; i++) {
      GElf_Sym sym;
      GElf_Addr value = 0;
      GElf_Word section = 0;
      const char* name = dwfl_module_getsym_info(module_, i, &sym, &value, &section, nullptr, nullptr);
      if (name == nullptr || *name == '\0' || section == SHN_UNDEF || section == SHN_ABS) continue;
      const unsigned type = ELF64_ST_TYPE(sym.st_info);
      const bool is_data = type == STT_OBJECT || type == STT_COMMON;
      if (!is_data && type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) continue;
      const std::string_view plain = name;
      if (type == STT_NOTYPE && (sym.st_size == 0 || plain.starts_with("$"))) continue;
      const int rank = (ELF64_ST_BIND(sym.st_info) == STB_LOCAL ? 4 : 0) + (type == STT_NOTYPE ? 2 : 0) +
                       (plain.starts_with('_') && !plain.starts_with("_Z") ? 1 : 0);
      entries.push_back({{plain, value - file_bias_, sym.st_size}, is_data, rank});
    }
    std::stable_sort(entries.begin(), entries.end(), [](const entry& a, const entry& b) {
      return std::tuple(a.s.address, a.rank) < std::tuple(b.s.address, b.rank);
    });
    for (std::size_t i = 0; i < entries.size(); i++) {
      const entry& e = entries[i];
      std::uint64_t size = e.s.size;
      if (size == 0 && !e.is_data) {  // a function in assembly: it extends to the next symbol
        for (std::size_t next = i + 1; size == 0 && next < entries.size(); next++)
          size = entries[next].s.address - e.s.address;
      }
      (e.is_data ? data_ : code_).add(e.s.address, e.s.address + size, e.s);
    }
    code_.sort();
    data_.sort();
  }

  std::string path_;
  int fd_ = -1;
  std::vector<segment> segments_;
  Dwfl* session_ = nullptr;
  Dwfl_Module* module_ = nullptr;
  Dwarf_Addr file_bias_ = 0, dwarf_bias_ = 0;
  bool has_units_ = false, has_symbols_ = false;
  std::vector<unit> units_;
  address_ranges<std::size_t> ranges_of_units_;
  address_ranges<symbol> code_, data_;
  std::unordered_map<std::uint64_t, std::vector<frame>> frames_;
  std::unordered_map<const void*, std::string> names_;  // by entry in the debug information
};

struct mapping {
  std::uint64_t begin, end, bias;
  mapped_file* file;
};

}  // namespace mapped_files

using mapped_files::mapped_file, mapped_files::mapping;

bool is_of_a_library(const frame& f) {
  return mapped_files::is_of_a_library(f);
}

// ---- the record's processes -----------------------------------------------------------------------------------------

struct symbols::state {
  contract::view record;
  file_reading how;
  std::unordered_map<std::string, std::unique_ptr<mapped_files::mapped_file>> files;  // by identity and path
  std::unordered_map<std::uint32_t, mapped_files::mapping> modules;                   // by number
  std::unordered_map<std::uint32_t, std::vector<mapped_files::mapping>> processes;
  std::vector<std::uint32_t> unready;  // modules that were incomplete when last read
  std::uint32_t modules_read = 0;

  /// Reads the modules that were added to the record since the last call, while the program may still run.
  void read_modules() {
    const contract::header& h = record.head();
    const std::uint32_t taken = std::min(h.modules.load(std::memory_order_acquire), record.room().modules);
    for (; modules_read < taken; modules_read++) unready.push_back(modules_read);
    std::erase_if(unready, [this](std::uint32_t i) {
      const contract::module_slot& m = record.module(i);
      if (m.ready.load(std::memory_order_acquire) == 0) return false;
      read(m, i + 1);
      return true;
    });
  }

  void read(const contract::module_slot& m, std::uint32_t number) {
    const std::uint32_t room = record.room().text, text = m.path, length = m.path_length;
    if (text > room || length > std::min(room - text, mapped_files::longest_path) || m.begin >= m.end) return;
    const std::uint32_t pid =
        m.process < record.room().processes ? record.process(m.process).pid.load(std::memory_order_relaxed) : 0;
    std::string path = mapped_files::whole_path(std::string(record.text() + text, length), pid);
    if (path.empty()) return;
    auto& file = files[std::to_string(m.identity) + path];
    if (!file) file = std::make_unique<mapped_files::mapped_file>(std::move(path), m.identity, how);
    const mapped_files::mapping found{m.begin, m.end, m.bias, file.get()};
    processes[m.process].push_back(found);
    modules.emplace(number, found);
  }

  /// The latest mapping of the process for which `fits` is true. If there is none, searches the process that forked it,
  /// and so on.
  template <class F>
  const mapped_files::mapping* find_again(std::uint32_t process, F fits) const {
    constexpr std::uint32_t most_generations = 256;  // chosen; forged parents may form a circle
    const std::uint32_t taken = record.room().processes;
    for (std::uint32_t generations = 0; process < taken && generations < most_generations; generations++) {
      if (const auto known = processes.find(process); known != processes.end()) {
        const auto& all = known->second;
        if (const auto m = std::find_if(all.rbegin(), all.rend(), fits); m != all.rend()) return &*m;
      }
      process =
          record.process(process).parent.load(std::memory_order_relaxed) - 1;  // 0 - 1, without a parent, ends the loop
    }
    return nullptr;
  }
  template <class F>
  const mapped_files::mapping* find(std::uint32_t process, F fits) {
    if (const mapped_files::mapping* m = find_again(process, fits)) return m;
    read_modules();
    return find_again(process, fits);
  }

  void enter(const mapped_files::mapped_file& file) const {
    if (how.entered && file.is_open()) how.entered(file.path());
  }

  /// The mapping of the module whose number is in the word. For a word without a number: the latest mapping of the
  /// process for which `fits` is true.
  template <class F>
  const mapped_files::mapping* find(std::uint32_t process, std::uint64_t word, F fits) {
    const std::uint32_t number = contract::module_of(word);
    if (number == 0) return find(process, fits);
    if (number == contract::in_no_module) return nullptr;
    if (!modules.contains(number)) read_modules();
    const auto known = modules.find(number);
    return known != modules.end() ? &known->second : nullptr;
  }

  void add_frames(std::uint32_t process, std::uint64_t return_word, std::vector<frame>& to) {
    const std::uint64_t call = contract::address_of(return_word) - 1;
    const mapped_files::mapping* m =
        find(process, return_word, [call](const mapped_files::mapping& x) { return x.begin <= call && call < x.end; });
    if (m == nullptr) {
      to.emplace_back().address = call;
      return;
    }
    enter(*m->file);
    for (const frame& f : m->file->frames_at(call - m->bias)) {
      to.push_back(f);
      to.back().address = call;
    }
  }
};

symbols::symbols(contract::view record, file_reading how) : state_(std::make_unique<state>()) {
  state_->record = record;
  state_->how = std::move(how);
}
symbols::~symbols() = default;

stack symbols::resolve(const contract::chain& c) {
  stack s;
  s.is_cut = c.cut != 0;
  for (std::uint32_t i = 0; i < std::min(c.length, contract::chain::longest); i++)
    state_->add_frames(c.process, c.pc[i], s.frames);
  return s;
}

stack symbols::resolve(std::uint32_t process, std::uint64_t return_word) {
  stack s;
  state_->add_frames(process, return_word, s.frames);
  return s;
}

std::optional<symbols::static_object> symbols::object_at(std::uint32_t process, std::uint64_t word) {
  const std::uint64_t address = contract::address_of(word);
  const auto fits = [address](const mapped_files::mapping& x) { return x.file->has(address - x.bias); };
  const mapped_files::mapping* m = state_->find(process, word, fits);
  if (m == nullptr || !fits(*m)) return std::nullopt;
  const std::uint64_t in_file = address - m->bias;
  static_object o;
  state_->enter(*m->file);
  o.module = m->file->path();
  o.module_offset = in_file - m->file->lowest();
  if (const mapped_files::mapped_file::symbol* s = m->file->data_at(in_file)) {
    o.symbol = mapped_files::demangled(std::string(s->name));
    o.offset = in_file - s->address;
    o.size = s->size;
  }
  return o;
}

const frame* stack::place() const {
  using namespace mapped_files;
  for (const frame& f : frames)
    if (!mapped_files::is_of_a_library(f) &&
        !mapped_files::is_named_like_a_lock(mapped_files::qualified_name(f.function)))
      return &f;
  const auto own = std::find_if_not(frames.begin(), frames.end(), mapped_files::is_of_a_library);
  if (own != frames.end()) return &*own;
  return frames.empty() ? nullptr : &frames.front();
}

}  // namespace usher::reader
