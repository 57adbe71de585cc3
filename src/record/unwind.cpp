#include "record/unwind.hpp"

#include <elf.h>

#include <atomic>
#include <bit>
#include <iterator>
#include <new>

#include "record/format.hpp"
#include "record/found_values.hpp"
#if defined(__x86_64__)
#include "record/frame_rules.hpp"
#endif

extern "C" {
// The bounds of libusher.so's image in memory, defined by the linker.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];  // NOLINT(bugprone-reserved-identifier)
[[gnu::visibility("hidden")]] extern const char _end[];          // NOLINT(bugprone-reserved-identifier)
}

namespace usher::preload {
namespace {

bool is_own(std::uint64_t address) {
  return address >= reinterpret_cast<std::uintptr_t>(__ehdr_start) && address < reinterpret_cast<std::uintptr_t>(_end);
}

/// Adds an address to the chain, unless it is in libusher.so, whose C11 functions call pthread's. False if the chain is full.
bool add(call_chain& chain, std::uint64_t pc, std::uint32_t module) {
  if (is_own(pc)) return true;
  if (chain.length == call_chain::longest) return false;
  chain.module[chain.length] = std::uint16_t(module);
  chain.pc[chain.length++] = pc;
  return true;
}

[[gnu::constructor]] void at_start() {
  find_first_thread(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
}

constexpr std::uintptr_t largest_guess = 1 << 20;  // bytes from the stack pointer to the frame pointer; chosen
// The most pages for which the kernel is asked to find the thread's own stack; chosen. few_pages limits the search at
// the beginning of each chain, which saves later system calls; most_pages limits it when a chain has become uncertain.
constexpr std::uintptr_t few_pages = 16, most_pages = 256;

#if defined(__x86_64__)

constinit found_values<4096> found{};  // 64 KiB, touched where used; chosen, not measured

/// The module of a frame.
struct frame_module : loaded_module {
  std::uint64_t name = 0;    ///< in `found`
  std::uint32_t number = 0;  ///< as module_numbers has it
  bool is_own = false;
};

/// The state of a walk along the frames of a chain.
struct walk {
  walk(stack_bounds& bounds, const module_numbers* numbers) : bounds(bounds), numbers(numbers) {}

  stack_bounds& bounds;
  const module_numbers* numbers;
  registers regs, caller;
  readable_memory stack{}, of_module{};
  frame_module module{};  ///< of the present frame; its tables are set only if they may be read
  /// The frames so far were all found by unwind tables, and no signal has interrupted one: this thread will return to
  /// each.
  bool certain = true;
  unsigned pinned = 0;
  const void* pins[4];  ///< loader's entries of modules that certain frames are in; chosen: few chains have more
  rule_room room;
};
static_assert(sizeof(walk) <= sizeof(capture_area::room));

bool is_pinned(const walk& w, const void* entry) {
  for (unsigned i = 0; i < w.pinned; i++)
    if (w.pins[i] == entry) return true;
  return false;
}

/// Called when the rest of the chain may be wrong: from now on no memory is read that another thread could unmap.
void end_certainty(walk& w) {
  if (!w.certain) return;
  w.certain = false;
  w.stack.pin(0, 0);
  w.stack.refuse_others();
  pin_own_stack(w.regs.r[rsp], most_pages, w.bounds, w.stack);
}

void find_own(frame_module& m) {
  m.begin = reinterpret_cast<std::uintptr_t>(__ehdr_start);
  m.end = reinterpret_cast<std::uintptr_t>(_end);
  m.is_own = true;
  m.name = m.begin;
  const auto* head = reinterpret_cast<const Elf64_Ehdr*>(__ehdr_start);
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(__ehdr_start + head->e_phoff);
  for (unsigned i = 0; i < head->e_phnum; i++)
    if (segments[i].p_type == PT_GNU_EH_FRAME) m.tables = m.begin + segments[i].p_vaddr;
}

/// Extends the name of a module that can be unloaded, so that another module loaded at the same addresses has another
/// name. It contains the build id and the header of the tables: versions and encodings, the place of .eh_frame, the
/// number of frames, the first frame. False if these cannot be read.
[[gnu::noinline]] bool name_unloadable(walk& w) {
  frame_module& m = w.module;
  w.of_module = {};
  std::uint64_t words[2] = {};
  for (unsigned i = 0; i < 2 && m.tables != 0; i++)
    if (!w.of_module.read(m.tables + std::uintptr_t{8} * i, words[i])) return false;
  m.identity = identity_in_memory(m, w.of_module);
  m.name = mix(mix(m.name, m.identity), mix(words[0], words[1]));
  return true;
}

/// Sets w.module to the module that contains `address`; it is most often that of the last frame. No memory is read of
/// a module that another thread could unload meanwhile.
void find_module_of(std::uint64_t address, walk& w) {
  frame_module& m = w.module;
  if (m.has(address)) return;
  m = {};
  if (is_own(address)) return find_own(m);
  if (!find_module(address, m)) {
    m = {};
    m.number = can_find_modules() ? record::in_no_module : 0;
    return;
  }
  m.name = mix(mix(m.begin, m.end), mix(reinterpret_cast<std::uintptr_t>(m.entry), m.tables));
  if (!m.stays) {
    const bool pinned = is_pinned(w, m.entry);
    if (w.certain && !pinned && w.pinned < std::size(w.pins)) w.pins[w.pinned++] = m.entry;
    if ((!w.certain && !pinned) || !name_unloadable(w)) {
      m.tables = 0;
      return;
    }
  }
  if (w.numbers != nullptr) m.number = w.numbers->number(w.numbers->context, m);
}

// ---- rules as a word ------------------------------------------------------------------------------------------------
// 2 bits for the kind, 3 for the base register of the CFA, 20 for the CFA's offset / 8, and 6 for each saved register:
// its distance from the CFA / 8.

enum kind : std::uint64_t { nothing, by_frame, outermost, no_rules };
constexpr std::uint8_t bases[] = {rsp, rbx, rbp, r12, r13, r14, r15};
constexpr unsigned saved = 6;  // bases without rsp

/// The rules as a word; `nothing` if they do not fit into one.
std::uint64_t packed(const frame_rules& rules) {
  using r = frame_rules;
  if (rules.of[rip].kind == r::undefined) return outermost;
  const std::int32_t offset = rules.cfa.value;
  if (rules.interrupted || rules.cfa.kind != r::is_offset || offset < 0 || offset % 8 != 0 || offset >> 23 != 0 ||
      rules.of[rip].kind != r::at_offset || rules.of[rip].value != -8 || rules.of[rsp].kind != r::same)
    return nothing;
  std::uint64_t word = by_frame | std::uint64_t(offset / 8) << 5, base = 0;
  while (base < std::size(bases) && bases[base] != rules.cfa_register) base++;
  if (base == std::size(bases)) return nothing;
  word |= base << 2;
  for (unsigned i = 0; i < saved; i++) {
    const r::rule& rule = rules.of[bases[i + 1]];
    if (rule.kind == r::same) continue;
    if (rule.kind != r::at_offset || rule.value % 8 != 0 || rule.value >= -8 || rule.value < -63 * 8) return nothing;
    word |= std::uint64_t(-rule.value / 8) << (25 + 6 * i);
  }
  return word;
}

bool apply(std::uint64_t word, registers& regs, readable_memory& stack) {
  const unsigned base = bases[word >> 2 & 7];
  if (!regs.knows(base)) return false;
  const std::uint64_t cfa = regs.r[base] + (word >> 5 & 0xfffff) * 8;
  if (cfa <= regs.r[rsp] || cfa % 8 != 0) return false;
  for (unsigned i = 0; i < saved; i++) {
    const std::uint64_t distance = word >> (25 + 6 * i) & 63;
    if (distance == 0) continue;
    if (!stack.read(cfa - distance * 8, regs.r[bases[i + 1]])) return false;
    regs.known |= 1u << bases[i + 1];
  }
  regs.r[rsp] = cfa;
  regs.known &= 1u << rbx | 1u << rbp | 1u << rsp | 0xfu << r12;
  return stack.read(cfa - 8, regs.r[rip]);
}

/// Applies w.room.rules: rules that do not fit into a word.
[[gnu::cold, gnu::noinline]] bool apply(const tables& in, walk& w) {
  using r = frame_rules;
  const frame_rules& rules = w.room.rules;
  registers& regs = w.regs;
  registers& caller = w.caller;
  readable_memory& stack = w.stack;
  std::uint64_t cfa = 0;
  if (rules.cfa.kind == r::is_expression) {
    if (!evaluate(in, rules.cfa.value, regs, nullptr, stack, w.room, cfa)) return false;
  } else {
    if (!regs.knows(rules.cfa_register)) return false;
    cfa = regs.r[rules.cfa_register] + std::uint64_t(std::int64_t{rules.cfa.value});
  }
  if (cfa % 8 != 0 || (cfa <= regs.r[rsp] && !rules.interrupted)) return false;
  constexpr std::uint32_t survive_calls = 1u << rbx | 1u << rbp | 0xfu << r12;
  caller.known = 0;
  caller.set(rsp, cfa);
  for (unsigned i = 0; i < registers::number; i++) {
    const r::rule& rule = rules.of[i];
    const std::uint64_t there = cfa + std::uint64_t(std::int64_t{rule.value});
    std::uint64_t value = there;
    switch (rule.kind) {
      case r::undefined:
        continue;
      case r::same:
        if (!regs.knows(i) || (survive_calls >> i & 1) == 0) continue;
        value = regs.r[i];
        break;
      case r::is_offset:
        break;
      case r::at_offset:
        if (!stack.read(there, value)) return false;
        break;
      case r::in_register:
        if (!regs.knows(unsigned(rule.value))) continue;
        value = regs.r[rule.value];
        break;
      case r::at_expression:
      case r::is_expression:
        if (!evaluate(in, rule.value, regs, &cfa, stack, w.room, value)) return false;
        if (rule.kind == r::at_expression && !stack.read(value, value)) return false;
        break;
    }
    caller.set(i, value);
  }
  if (!caller.knows(rip)) return false;
  regs = caller;
  return true;
}

/// Takes a step by the frame pointer, for code without rules. Reads only the thread's own stack. False if the step is
/// not plausible.
[[gnu::cold, gnu::noinline]] bool guess(walk& w) {
  registers& regs = w.regs;
  const std::uint64_t frame = regs.r[rbp], sp = regs.r[rsp];
  if (!regs.knows(rbp) || frame % 8 != 0 || frame < sp || frame - sp > largest_guess) return false;
  end_certainty(w);
  std::uint64_t outer = 0, pc = 0;
  if (!w.stack.read(frame, outer) || !w.stack.read(frame + 8, pc)) return false;
  if (pc != 0 && (pc < 4096 || pc >> 47 != 0 || w.stack.is_pinned(pc, 1))) return false;
  regs.known = 0;
  regs.set(rbp, outer);
  regs.set(rsp, frame + 16);
  regs.set(rip, pc);
  return true;
}

/// Reads the registers of the function into which this is inlined.
[[gnu::always_inline]] inline void read_registers(registers& regs) {
  __asm__ volatile(
      "movq %%rbx, 3*8(%0)\n\tmovq %%rbp, 6*8(%0)\n\tmovq %%rsp, 7*8(%0)\n\t"
      "movq %%r12, 12*8(%0)\n\tmovq %%r13, 13*8(%0)\n\tmovq %%r14, 14*8(%0)\n\tmovq %%r15, 15*8(%0)\n\t"
      "leaq 0(%%rip), %%rax\n\tmovq %%rax, 16*8(%0)"
      :
      : "r"(regs.r)
      : "rax", "memory");
  regs.known = 1u << rbx | 1u << rbp | 1u << rsp | 0xfu << r12 | 1u << rip;
}

enum class step { called, interrupted, ended, failed };

/// Takes a step by the unwind tables. `word` becomes the packed rules, or `nothing` if they do not fit into a word.
/// Not inlined, because it needs much stack.
[[gnu::cold, gnu::noinline]] step step_by_tables(walk& w, std::uint64_t address, std::uint64_t& word) {
  const frame_module& m = w.module;
  w.of_module = m.is_own ? readable_memory(m.begin, m.end) : readable_memory();
  const tables in(m.tables, &w.of_module, m.begin, m.end);
  word = find_rules(in, address, w.room) ? packed(w.room.rules) : std::uint64_t{no_rules};
  if (word != nothing || !apply(in, w)) return step::failed;
  return w.room.rules.interrupted ? step::interrupted : step::called;
}

/// Replaces the registers by those of the caller.
step take_step(walk& w, std::uint64_t address) {
  std::uint64_t word = no_rules;
  if (w.module.tables != 0) {
    const std::uint64_t key = mix(w.module.name, address);
    word = found.get(key);
    if (word == nothing) {
      const step taken = step_by_tables(w, address, word);
      if (word == nothing) return taken;
      found.put(key, word);
    }
  }
  if (word == outermost) return step::ended;
  if (word == no_rules) return guess(w) ? step::called : step::failed;
  return apply(word, w.regs, w.stack) ? step::called : step::failed;
}

#endif

}  // namespace

#if defined(__x86_64__)

[[gnu::noinline]] void capture(capture_area& area, stack_bounds& bounds, const module_numbers* numbers) {
  call_chain& into = area.chain;
  walk& w = *::new (area.room) walk(bounds, numbers);
  read_registers(w.regs);
  into.length = 0;
  into.cut = true;
  pin_own_stack(w.regs.r[rsp], few_pages, bounds, w.stack);
  bool interrupted = false;
  std::uint64_t address = w.regs.r[rip];
  find_module_of(address, w);
  constexpr unsigned most_frames = 256;  // including our own; chosen
  for (unsigned frames = 0; frames < most_frames; frames++) {
    // libusher.so's own frames are certain to be mapped, so they are read even where a sandbox refuses the system call
    // that tests memory.
    if (w.certain) w.stack.trust(w.module.is_own);
    const bool was_interrupted = interrupted;
    const step taken = take_step(w, address);
    const std::uint64_t pc = w.regs.r[rip];
    into.cut = taken == step::failed || (taken != step::ended && pc != 0);
    if (!into.cut || taken == step::failed || pc >> 48 != 0) break;
    // Some compilers make tables that are right only at calls, and a signal may interrupt a function anywhere.
    if (was_interrupted) end_certainty(w);
    interrupted = taken == step::interrupted;
    address = interrupted ? pc : pc - 1;
    find_module_of(address, w);
    if (!add(into, address + 1, w.module.number)) break;
  }
}

#elif defined(__aarch64__)

/// The number of the module that contains the address; 0 if finding it takes reading a module that another thread
/// could unload.
std::uint32_t number_of_frame(std::uint64_t address, bool certain, const module_numbers* numbers) {
  loaded_module m;
  if (numbers == nullptr || !can_find_modules()) return 0;
  if (!find_module(address, m)) return record::in_no_module;
  if (!m.stays && !certain) return 0;
  readable_memory memory;
  if (!m.stays) m.identity = identity_in_memory(m, memory);
  return numbers->number(numbers->context, m);
}

[[gnu::noinline]] void capture(capture_area& area, stack_bounds& bounds, const module_numbers* numbers) {
  call_chain& into = area.chain;
  into.length = 0;
  into.cut = true;
  readable_memory stack;
  stack.trust(true);  // as long as the frames are our own
  bool own = true;
  auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  for (unsigned frames = 0; frames < 256; frames++) {
    std::uint64_t outer = 0, pc = 0;
    if (!stack.read(frame, outer) || !stack.read(frame + 8, pc)) break;
    register std::uint64_t x30 __asm__("x30") = pc;
    __asm__("hint 7" : "+r"(x30));  // xpaclri: removes the signature
    pc = x30;
    // The return address of libusher.so's own function is certain. From there on, frame pointers may be anything.
    const bool added = pc != 0 && add(into, pc, number_of_frame(pc - 1, own, numbers));
    into.cut = pc != 0 && (!added || outer != 0);
    if (!added || outer == 0) break;
    if (own && !is_own(pc)) {
      own = false;
      stack.refuse_others();
      pin_own_stack(frame, most_pages, bounds, stack);
    }
    if (outer % 8 != 0 || outer <= frame || outer - frame > largest_guess) break;
    frame = outer;
  }
}

#else

void capture(capture_area& area, stack_bounds&, const module_numbers*) {
  area.chain.length = 0;
  area.chain.cut = true;
}

#endif

}  // namespace usher::preload
