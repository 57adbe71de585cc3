#include "watch/recorder/unwind.hpp"

#include <elf.h>

#include <atomic>
#include <bit>
#include <iterator>
#include <new>

#include "watch/contract/format.hpp"
#include "watch/recorder/found_values.hpp"
#if defined(__x86_64__) || defined(__aarch64__)
#include "watch/recorder/frame_words.hpp"
#endif

extern "C" {
// The bounds of libusher.so's image in memory, defined by the linker.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];  // NOLINT(bugprone-reserved-identifier)
[[gnu::visibility("hidden")]] extern const char _end[];          // NOLINT(bugprone-reserved-identifier)
}

namespace usher::recorder {
namespace {

bool is_own(std::uint64_t address) {
  return address >= reinterpret_cast<std::uintptr_t>(__ehdr_start) && address < reinterpret_cast<std::uintptr_t>(_end);
}

/// Adds an address to the chain, except addresses in libusher.so, whose C11 functions call pthread functions. False if
/// the chain is full.
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
// The largest number of pages that the kernel tests to find the thread's own stack; chosen. few_pages is the limit at
// the beginning of each chain, to save later tests; most_pages is the limit when a chain has become uncertain.
constexpr std::uintptr_t few_pages = 16, most_pages = 256;

#if defined(__x86_64__) || defined(__aarch64__)

constinit found_values<4096> found{};  // 64 KiB, allocated where used; chosen, not measured

/// The module of a frame.
struct frame_module : loaded_module {
  std::uint64_t name = 0;    ///< identifies the module in keys of `found`
  std::uint32_t number = 0;  ///< from module_numbers
  bool is_own = false;
};

/// The state of a walk along the frames of a chain.
struct walk {
  walk(stack_bounds& bounds, const module_numbers* numbers) : bounds(bounds), numbers(numbers) {}

  stack_bounds& bounds;
  const module_numbers* numbers;
  registers regs, caller;
  readable_memory stack{}, of_module{};
  frame_module module{};  ///< of the present frame; `tables` is 0 if they must not be read
  /// All frames so far were found by unwind tables, and none was interrupted by a signal: this thread will return to
  /// each of them.
  bool certain = true;
  unsigned pinned = 0;
  const void* pins[4];  ///< loader's entries of the modules of certain frames; chosen: few chains have more
  rule_room room;
};
static_assert(sizeof(walk) <= sizeof(capture_area::room));

bool is_pinned(const walk& w, const void* entry) {
  for (unsigned i = 0; i < w.pinned; i++)
    if (w.pins[i] == entry) return true;
  return false;
}

/// Called when the rest of the chain may be wrong. Afterwards no memory is read that another thread could unmap.
void end_certainty(walk& w) {
  if (!w.certain) return;
  w.certain = false;
  w.stack.pin(0, 0);
  w.stack.refuse_others();
  pin_own_stack(w.regs.r[machine::sp], most_pages, w.bounds, w.stack);
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

/// Extends the name of a module that can be unloaded, so that another module at the same addresses gets a different
/// name. Adds the build id and the header of the tables: versions and encodings, the place of .eh_frame, the number of
/// frames, the first frame. False if these cannot be read.
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

/// Sets w.module to the module that contains `address`, in most cases the previous frame's. Does not read memory of a
/// module that another thread could unload at the same time.
void find_module_of(std::uint64_t address, walk& w) {
  frame_module& m = w.module;
  if (m.has(address)) return;
  m = {};
  if (is_own(address)) return find_own(m);
  if (const lookup result = find_module(address, m); result != lookup::found) {
    m = {};
    m.number = result == lookup::none ? contract::in_no_module : 0;
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

/// Applies w.room.rules, which do not fit into a word.
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
  if (cfa % 8 != 0 || (!rules.interrupted && !may_follow(regs, cfa))) return false;
  constexpr std::uint64_t may_stay = machine::survive_calls | std::uint64_t{1} << machine::return_column;
  caller.known = 0;
  caller.set(machine::sp, cfa);
  for (unsigned i = 0; i < machine::columns; i++) {
    const r::rule& rule = rules.of[i];
    const std::uint64_t there = cfa + std::uint64_t(std::int64_t{rule.value});
    std::uint64_t value = there;
    switch (rule.kind) {
      case r::undefined:
        continue;
      case r::same:
        if (!regs.knows(i) || (may_stay >> i & 1) == 0) continue;
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
  if (!caller.knows(machine::return_column)) return false;
  regs = caller;
  return_from(regs, rules.signed_return);
  return true;
}

/// Takes a step by the frame pointer, for code without rules. Reads only the thread's own stack. False if the step is
/// not plausible.
[[gnu::cold, gnu::noinline]] bool guess(walk& w) {
  registers& regs = w.regs;
  const std::uint64_t frame = regs.r[machine::frame], sp = regs.r[machine::sp];
  if (!regs.knows(machine::frame) || frame % 8 != 0 || frame < sp || frame - sp > largest_guess) return false;
  end_certainty(w);
  std::uint64_t outer = 0, pc = 0;
  if (!w.stack.read(frame, outer) || !w.stack.read(frame + 8, pc)) return false;
  pc = machine::without_signature(pc);
  if (pc != 0 && (pc < 4096 || pc >> machine::address_bits != 0 || w.stack.is_pinned(pc, 1))) return false;
  regs.known = 0;
  regs.set(machine::frame, outer);
  regs.set(machine::sp, frame + 16);
  if (!machine::frame_pointer_finds_sp) regs.forget(machine::sp);  // the value remains as a lower bound
  regs.set(machine::pc, pc);
  return true;
}

enum class step { called, interrupted, ended, failed };

#if defined(__aarch64__)
/// Takes a step out of a signal handler, if the present address is the handler's return address. The thread will return
/// to these instructions, since its frames were called; then the kernel will load the registers from the memory that is
/// read here, even if the program has written it. In an uncertain chain only code that is never unmapped is read.
[[gnu::cold, gnu::noinline]] bool leave_handler(walk& w) {
  const registers& regs = w.regs;
  std::uint32_t there[std::size(machine::signal_return)];
  // In an uncertain chain pc may be any number: both instructions must lie in a module that is never unloaded.
  const std::uint64_t pc = regs.r[machine::pc];
  const bool stays = w.module.stays && pc >= w.module.begin && pc < w.module.end && w.module.end - pc >= sizeof there;
  if (!regs.knows(machine::sp) || (!w.certain && !stays)) return false;
  readable_memory code;
  for (unsigned i = 0; i < std::size(there); i++)
    if (!code.read(pc + std::uint64_t{4} * i, there[i]) || there[i] != machine::signal_return[i]) return false;
  const std::uint64_t saved = regs.r[machine::sp] + machine::saved_by_signal;
  w.caller.known = 0;
  for (unsigned i = 0; i < registers::number; i++) {
    std::uint64_t value = 0;
    if (!w.stack.read(saved + std::uint64_t{8} * i, value)) return false;
    w.caller.set(i, value);
  }
  w.regs = w.caller;
  return true;
}
#else
bool leave_handler(const walk&) {
  return false;
}
#endif

/// Takes a step by the unwind tables. `word` becomes the packed rules, or `nothing` if they do not fit into a word. Not
/// inlined, because it needs much stack.
[[gnu::cold, gnu::noinline]] step step_by_tables(walk& w, std::uint64_t address, std::uint64_t& word) {
  const frame_module& m = w.module;
  w.of_module = m.is_own ? readable_memory(m.begin, m.end) : readable_memory();
  const tables in(m.tables, &w.of_module, m.begin, m.end);
  word = find_rules(in, address, w.room) ? packed(w.room.rules) : std::uint64_t{no_rules};
  if (word != nothing) return step::failed;
  const frame_rules& rules = w.room.rules;
  if (rules.interrupted && leave_handler(w))
    return step::interrupted;  // tables of old vDSOs skip the interrupted frame
  if (rules.cfa.kind == frame_rules::is_offset && lacks_sp(rules.cfa_register, w.regs))
    return guess(w) ? step::called : step::failed;
  if (!apply(in, w)) return step::failed;
  return rules.interrupted ? step::interrupted : step::called;
}

/// Replaces the registers by the caller's.
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
  if (word == no_rules && leave_handler(w)) return step::interrupted;
  if (word == no_rules || lacks_sp(base_of(word), w.regs)) return guess(w) ? step::called : step::failed;
  return apply(word, w.regs, w.stack) ? step::called : step::failed;
}

#endif

}  // namespace

#if defined(__x86_64__) || defined(__aarch64__)

[[gnu::noinline]] void capture(capture_area& area, stack_bounds& bounds, const module_numbers* numbers) {
  call_chain& into = area.chain;
  walk& w = *::new (area.room) walk(bounds, numbers);
  w.regs.known = machine::read(w.regs.r);
  into.length = 0;
  into.cut = true;
  pin_own_stack(w.regs.r[machine::sp], few_pages, bounds, w.stack);
  bool interrupted = false;
  std::uint64_t address = w.regs.r[machine::pc];
  find_module_of(address, w);
  constexpr unsigned most_frames = 256;  // including libusher.so's; chosen
  for (unsigned frames = 0; frames < most_frames; frames++) {
    // libusher.so's own frames are certainly mapped, so they are read even if a sandbox refuses the system call that
    // tests memory.
    if (w.certain) w.stack.trust(w.module.is_own);
    const bool was_interrupted = interrupted;
    const step taken = take_step(w, address);
    const std::uint64_t pc = w.regs.r[machine::pc];
    into.cut = taken == step::failed || (taken != step::ended && pc != 0);
    if (!into.cut || taken == step::failed || pc >> 48 != 0) break;
    // Some compilers' tables are right only at calls, but a signal may interrupt a function anywhere.
    if (was_interrupted) end_certainty(w);
    interrupted = taken == step::interrupted;
    address = interrupted ? pc : pc - 1;
    find_module_of(address, w);
    if (!add(into, address + 1, w.module.number)) break;
  }
}

#else

void capture(capture_area& area, stack_bounds&, const module_numbers*) {
  area.chain.length = 0;
  area.chain.cut = true;
}

#endif

}  // namespace usher::recorder
