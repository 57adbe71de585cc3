// The rules of a frame, packed into one word, which a table can keep without a lock. Most rules of gcc, clang and the C
// library fit. This file also has the steps by packed rules.
//
//                    x86-64                                      AArch64
//     bits  0 – 1    kind                                        kind
//           2 …      3: base register of the CFA                 2: base register of the CFA
//                    20: CFA's offset / 8                        1: the return address is signed
//                                                                1: places count down from the CFA, not up from the base
//                                                                10: CFA's offset / 16
//     each saved     6: distance from the CFA / 8                4: place, 1 to 15, of 8 bytes
//     register       rbx, rbp, r12 to r15                        x19 to x30
//     return         always at CFA − 8                           saved only if x30 has a place; else in x30
//     address
//
// A register whose number in the word is 0 is not saved.
#pragma once

#include <cstdint>
#include <iterator>

#include "watch/recorder/frame_rules.hpp"

namespace usher::recorder {

enum word_kind : std::uint64_t { nothing, by_frame, outermost, no_rules };

/// Whether a frame with this CFA may be the caller of the present one. A called function has its return address in its
/// frame; an interrupted function may have it in the register instead, and have an empty frame.
inline bool may_follow(const registers& regs, std::uint64_t cfa) {
  const bool may_be_empty = machine::return_column != machine::pc && regs.knows(machine::return_column);
  return cfa > regs.r[machine::sp] || (may_be_empty && cfa == regs.r[machine::sp]);
}

/// The last part of a step: `regs` already has the caller's registers.
inline void return_from(registers& regs, bool is_signed) {
  if constexpr (machine::return_column != machine::pc) {
    const std::uint64_t address = regs.r[machine::return_column];
    regs.set(machine::pc, is_signed ? machine::without_signature(address) : address);
    regs.forget(machine::return_column);  // the caller's call instruction has overwritten it
  } else {
    (void)regs, (void)is_signed;
  }
}

/// Whether rules with this base cannot be applied, because an earlier step by the frame pointer lost the stack pointer.
inline bool lacks_sp(unsigned base, const registers& regs) {
  return !machine::frame_pointer_finds_sp && base == machine::sp && !regs.knows(machine::sp);
}

#if defined(__x86_64__)

constexpr std::uint8_t bases[] = {rsp, rbx, rbp, r12, r13, r14, r15};
constexpr unsigned saved = 6;  // bases without rsp

inline unsigned base_of(std::uint64_t word) {
  return bases[word >> 2 & 7];
}

/// The rules, packed into a word; `nothing` if they do not fit.
inline std::uint64_t packed(const frame_rules& rules) {
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

inline bool apply(std::uint64_t word, registers& regs, readable_memory& stack) {
  const unsigned base = base_of(word);
  if (!regs.knows(base)) return false;
  const std::uint64_t cfa = regs.r[base] + (word >> 5 & 0xfffff) * 8;
  if (!may_follow(regs, cfa) || cfa % 8 != 0) return false;
  for (unsigned i = 0; i < saved; i++) {
    const std::uint64_t distance = word >> (25 + 6 * i) & 63;
    if (distance == 0) continue;
    if (!stack.read(cfa - distance * 8, regs.r[bases[i + 1]])) return false;
    regs.known |= 1u << bases[i + 1];
  }
  regs.r[rsp] = cfa;
  regs.known &= machine::survive_calls | 1u << rsp;
  return stack.read(cfa - 8, regs.r[rip]);
}

#elif defined(__aarch64__)

constexpr std::uint8_t bases[] = {machine::sp, x29, x19, x20};
constexpr unsigned saved = 12, most_places = 15;  // x19 to x30

inline unsigned base_of(std::uint64_t word) {
  return bases[word >> 2 & 3];
}

/// The places of the saved registers in a word, counted from the CFA or from the base. `nothing` if a register does not
/// fit.
inline std::uint64_t places(const frame_rules& rules, bool from_cfa) {
  using r = frame_rules;
  std::uint64_t word = by_frame;
  for (unsigned i = 0; i < saved; i++) {
    const r::rule& rule = rules.of[x19 + i];
    if (rule.kind == r::same) continue;
    const std::int64_t place = from_cfa ? -std::int64_t{rule.value} : std::int64_t{rules.cfa.value} + rule.value + 8;
    if (rule.kind != r::at_offset || place % 8 != 0 || place < 8 || place > std::int64_t{most_places} * 8)
      return nothing;
    word |= std::uint64_t(place / 8) << (16 + 4 * i);
  }
  return word | std::uint64_t{from_cfa} << 5;
}

inline std::uint64_t packed(const frame_rules& rules) {
  using r = frame_rules;
  if (rules.of[x30].kind == r::undefined) return outermost;
  const std::int32_t offset = rules.cfa.value;
  if (rules.interrupted || rules.cfa.kind != r::is_offset || offset < 0 || offset % 16 != 0 || offset >> 14 != 0 ||
      rules.of[machine::sp].kind != r::same)
    return nothing;
  std::uint64_t word = places(rules, false), base = 0;
  if (word == nothing) word = places(rules, true);
  while (base < std::size(bases) && bases[base] != rules.cfa_register) base++;
  if (word == nothing || base == std::size(bases)) return nothing;
  return word | base << 2 | std::uint64_t{rules.signed_return} << 4 | std::uint64_t(offset / 16) << 6;
}

inline bool apply(std::uint64_t word, registers& regs, readable_memory& stack) {
  const unsigned base = base_of(word);
  if (!regs.knows(base)) return false;
  const std::uint64_t bottom = regs.r[base], cfa = bottom + (word >> 6 & 0x3ff) * 16;
  if (!may_follow(regs, cfa) || cfa % 8 != 0) return false;
  for (unsigned i = 0; i < saved; i++) {
    const std::uint64_t place = word >> (16 + 4 * i) & 15;
    if (place == 0) continue;
    if (!stack.read((word >> 5 & 1) != 0 ? cfa - place * 8 : bottom + (place - 1) * 8, regs.r[x19 + i])) return false;
    regs.known |= 1u << (x19 + i);
  }
  if (!regs.knows(x30)) return false;
  regs.known &= machine::survive_calls | 1u << x30;
  regs.set(machine::sp, cfa);
  return_from(regs, (word >> 4 & 1) != 0);
  return true;
}

#endif

}  // namespace usher::recorder
