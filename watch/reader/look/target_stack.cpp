#include "watch/reader/look/target_stack.hpp"

#include <array>
#include <span>

#include "watch/reader/read/off_cpu.hpp"
#include "watch/recorder/frame_words.hpp"

namespace usher::reader {

using recorder::frame_rules;
using recorder::machine;
using recorder::registers;

#if defined(__x86_64__) || defined(__aarch64__)

const target_unwinder::found_rules& target_unwinder::rules_at(std::uint64_t address) {
  constexpr std::size_t most_rules = 8192;
  if (const auto known = rules_.find(address); known != rules_.end()) return known->second;
  if (rules_.size() >= most_rules) rules_.clear();
  found_rules& f = rules_[address];
  f.module = maps_.module_at(address);
  if (f.module == 0) return f;
  const target_module& m = maps_.modules()[f.module - 1];
  if (m.tables == 0) return f;
  const recorder::tables_in<target_pages> in(m.tables, &tables_, m.begin, m.end);
  f.is_found = recorder::find_rules(in, address, room_);
  f.rules = room_.rules;
  return f;
}

/// Replaces the registers by those of the caller. `failed`: they are unchanged.
target_unwinder::step target_unwinder::by_tables(registers& regs, std::uint64_t address, bounded_stack& stack) {
  using r = frame_rules;
  const found_rules& f = rules_at(address);
  if (!f.is_found) return step::failed;
  const frame_rules& rules = f.rules;
  if (rules.of[machine::return_column].kind == r::undefined) return step::ended;
  const target_module& m = maps_.modules()[f.module - 1];
  const recorder::tables_in<target_pages> in(m.tables, &tables_, m.begin, m.end);
  std::uint64_t cfa = 0;
  if (rules.cfa.kind == r::is_expression) {
    if (!recorder::evaluate(in, rules.cfa.value, regs, nullptr, stack, room_, cfa)) return step::failed;
  } else {
    if (!regs.knows(rules.cfa_register)) return step::failed;
    cfa = regs.r[rules.cfa_register] + std::uint64_t(std::int64_t{rules.cfa.value});
  }
  if (cfa % 8 != 0 || (!rules.interrupted && !recorder::may_follow(regs, cfa))) return step::failed;
  constexpr std::uint64_t may_stay = machine::survive_calls | std::uint64_t{1} << machine::return_column;
  registers caller{};
  caller.set(machine::sp, cfa);
  for (unsigned i = 0; i < machine::columns; i++) {
    const r::rule& rule = rules.of[i];
    std::uint64_t value = cfa + std::uint64_t(std::int64_t{rule.value});
    if (rule.kind == r::undefined) continue;
    if (rule.kind == r::same) {
      if (!regs.knows(i) || (may_stay >> i & 1) == 0) continue;
      value = regs.r[i];
    } else if (rule.kind == r::in_register) {
      if (!regs.knows(unsigned(rule.value))) continue;
      value = regs.r[rule.value];
    } else if (rule.kind == r::at_offset) {
      if (!stack.read(std::uint64_t{value}, value)) return step::failed;
    } else if (rule.kind != r::is_offset) {
      if (!recorder::evaluate(in, rule.value, regs, &cfa, stack, room_, value)) continue;
      if (rule.kind == r::at_expression && !stack.read(std::uint64_t{value}, value)) continue;
    }
    caller.set(i, value);
  }
  if (!caller.knows(machine::return_column)) return step::failed;
  regs = caller;
  recorder::return_from(regs, rules.signed_return);
  return rules.interrupted ? step::interrupted : step::called;
}

bool target_unwinder::is_return_address(std::uint64_t address) {
  if (address < 4096 || !maps_.is_code(address - 1)) return false;
  std::array<unsigned char, bytes_before> before;
  if (!tables_.read(address - bytes_before, before.data(), before.size())) return false;
  return ends_in_call(std::span<const unsigned char, bytes_before>(before), address,
                      [this](std::uint64_t a) { return maps_.is_code(a); });
}

/// A step by words of the stack. False: none looks like a frame.
bool target_unwinder::by_words(registers& regs, bounded_stack& stack) {
  constexpr std::uint64_t searched = 4096;
  const auto take = [&](std::uint64_t frame, std::optional<std::uint64_t> outer, std::uint64_t sp) {
    std::uint64_t pc = 0;
    if (!stack.read(frame, pc)) return false;
    pc = machine::without_signature(pc);
    if (!is_return_address(pc)) return false;
    regs.known = 0;
    if (outer) regs.set(machine::frame, *outer);
    regs.set(machine::sp, sp);
    regs.set(machine::pc, pc);
    return true;
  };
  const std::uint64_t sp = (regs.r[machine::sp] + 7) & ~std::uint64_t{7};
  if (regs.knows(machine::frame)) {
    const std::uint64_t frame = regs.r[machine::frame];
    std::uint64_t outer = 0;
    if (frame % 8 == 0 && frame >= sp && frame - sp < deepest && stack.read(frame, outer) &&
        take(frame + 8, outer, frame + 16))
      return true;
  }
  for (std::uint64_t at = sp; at < sp + searched; at += 8) {
    std::uint64_t outer = 0;
    if (!stack.read(at, outer)) break;
    if (outer > at && outer - at < deepest && outer % 8 == 0 && take(at + 8, outer, at + 16)) return true;
  }
  for (std::uint64_t at = sp; at < sp + searched; at += 8)
    if (take(at, std::nullopt, at + 8)) return true;
  return false;
}

target_chain target_unwinder::unwind(std::uint64_t sp, std::uint64_t pc) {
  target_chain c;
  if (sp == 0 || pc == 0 || sp > ~std::uint64_t{0} - deepest) return c;
  registers regs{};
  regs.set(machine::sp, sp);
  regs.set(machine::pc, pc);
  bounded_stack stack{stack_, sp > 128 ? sp - 128 : 0, sp + deepest};
  bool is_certain = true, interrupted = false;
  for (; c.pc.size() < most_frames;) {
    const std::uint64_t now = regs.r[machine::pc];
    c.pc.push_back(interrupted ? now + 1 : now);
    if (is_certain) c.certain = static_cast<std::uint32_t>(c.pc.size());
    const step taken = by_tables(regs, interrupted ? now : now - 1, stack);
    if (taken == step::ended) return c;
    interrupted = taken == step::interrupted;
    if (taken == step::failed) {
      is_certain = false;
      if (!by_words(regs, stack)) break;
    }
    if (regs.r[machine::pc] == 0) return c;
    if (!maps_.is_code(regs.r[machine::pc] - 1)) break;
  }
  c.is_cut = true;
  return c;
}

#else

target_chain target_unwinder::unwind(std::uint64_t, std::uint64_t pc) {
  return {{pc}, true, 1};
}

#endif

}  // namespace usher::reader
