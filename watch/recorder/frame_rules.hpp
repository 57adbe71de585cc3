// Computes a caller's registers by DWARF's call frame information (DWARF 5, 6.4; Linux Standard Base, "Exception
// frames"). frame_machine.hpp has the differences between processors. Memory is read by readable_memory. An unsupported
// table counts as a failure, which unwind.hpp handles.
//
// The attacker is the author of a module's tables: offsets, lengths, register numbers and expressions may have any
// value. tests/unit/unwind_test.cpp has such tables (tables_with_errors, tables_that_lie, hostile_tables).
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>

#include "watch/recorder/frame_machine.hpp"
#include "watch/recorder/readable_memory.hpp"

namespace usher::recorder {

struct registers {
  static constexpr unsigned number = machine::registers;
  std::uint64_t r[number];
  std::uint64_t known;  ///< one bit for each known register

  bool knows(std::uint64_t i) const { return i < number && (known >> i & 1) != 0; }
  void set(unsigned i, std::uint64_t value) {
    r[i] = value;
    known |= std::uint64_t{1} << i;
  }
  void forget(unsigned i) { known &= ~(std::uint64_t{1} << i); }
};

/// A module's unwind tables. Memory outside of [low, high) is not read. `Memory` has
/// bool read(address, T& value); its addresses need not be those of this process.
template <class Memory>
struct tables_in {
  static constexpr std::uintptr_t reach = 0x7fffffff;  ///< range of the 32-bit distances from the header

  /// `begin` and `end` bound the module. If its segments are not adjacent, its tables may lie outside: then `low` and
  /// `high` are wide bounds, and `memory` checks each page.
  tables_in(std::uintptr_t header, Memory* memory, std::uintptr_t begin, std::uintptr_t end)
      : header(header), memory(memory) {
    const bool inside = header >= begin && header < end;
    low = inside ? begin : header > reach ? header - reach : 0;
    high = inside ? end : header + reach;
  }

  std::uintptr_t header;  ///< address of .eh_frame_hdr
  Memory* memory;
  std::uintptr_t low, high;
};
using tables = tables_in<readable_memory>;

/// Rules that compute the caller's registers from the callee's.
struct frame_rules {
  enum how : std::uint8_t { same, undefined, at_offset, is_offset, in_register, at_expression, is_expression };
  struct rule {
    std::int32_t value;  ///< offset from the CFA, register number, or the expression's distance from the header
    how kind;
  };
  rule of[machine::columns];
  rule cfa;  ///< is_offset (from cfa_register) or is_expression
  std::uint8_t cfa_register;
  bool interrupted;    ///< the frame of a signal: its caller was interrupted between two instructions
  bool signed_return;  ///< the return address is signed
};

/// Reads values from [at, end). A value beyond the end, or in memory that cannot be read, is zero and clears `ok`.
template <class Memory>
class table_reader {
 public:
  table_reader(const tables_in<Memory>& in, std::uintptr_t at, std::uintptr_t end) : at(at), end(end), in_(in) {
    if (at < in.low || end > in.high || at > end) fail();
  }

  std::uintptr_t at, end;
  bool ok = true;

  bool more() const { return ok && at < end; }
  void fail() {
    ok = false;
    at = end;
  }
  template <class T>
  T get() {
    T value{};
    if (!ok || end - at < sizeof(T) || !in_.memory->read(at, value)) {
      fail();
      return T{};
    }
    at += sizeof(T);
    return value;
  }
  void skip(std::uint64_t bytes) { bytes <= end - at ? void(at += bytes) : fail(); }

  std::uint64_t uleb() {
    unsigned shift = 0;
    return bits(shift);
  }
  std::int64_t sleb() {
    unsigned shift = 0;
    std::uint64_t value = bits(shift);
    if (shift < 64 && shift > 0 && (value >> (shift - 1) & 1) != 0) value |= ~std::uint64_t{0} << shift;
    return std::int64_t(value);
  }

  /// Reads a pointer in an encoding of .eh_frame (DW_EH_PE_*). Indirect pointers are not followed, since only
  /// personality routines have them.
  std::uint64_t pointer(std::uint8_t encoding) {
    const std::uint64_t base = (encoding & 0x70) == 0x10 ? at : 0;
    if ((encoding & 0x70) > 0x10) fail();
    const auto value = [&]() -> std::uint64_t {
      switch (encoding & 0x0f) {  // clang-format off
        case 0x0: case 0x4: case 0xc: return get<std::uint64_t>();
        case 0x1: return uleb();
        case 0x2: return get<std::uint16_t>();
        case 0x3: return get<std::uint32_t>();
        case 0x9: return std::uint64_t(sleb());
        case 0xa: return std::uint64_t(std::int64_t{get<std::int16_t>()});
        case 0xb: return std::uint64_t(std::int64_t{get<std::int32_t>()});
        default: fail(); return 0;
      }  // clang-format on
    }();
    return base + value;
  }

  const tables_in<Memory>& in() const { return in_; }

 private:
  std::uint64_t bits(unsigned& shift) {
    std::uint64_t value = 0;
    for (;;) {
      const auto byte = get<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t(byte & 0x7f) << shift;
      shift += 7;
      if ((byte & 0x80) == 0) return value;
    }
  }

  const tables_in<Memory>& in_;
};

/// The fields of a frame description entry (FDE) and of its common information entry (CIE), without their instructions.
class frame_entry {
 public:
  /// Reads the FDE at `fde`. False if it does not cover `address`.
  template <class Memory>
  bool read(const tables_in<Memory>& in, std::uintptr_t fde, std::uint64_t address) {
    table_reader<Memory> r = record(in, fde);
    const std::uintptr_t field = r.at;
    const auto back = r.template get<std::uint32_t>();
    if (!r.ok || back == 0 || back > field || !read_common(in, field - back)) return false;
    begin = r.pointer(pointers_);
    const std::uint64_t size = r.pointer(pointers_ & 0x0f);
    if (augmented_) r.skip(r.uleb());
    from = r.at;
    to = r.end;
    return r.ok && address >= begin && address - begin < size;
  }

  std::uint64_t begin = 0;  ///< address of the code
  std::uint64_t code_align = 1;
  std::int64_t data_align = 1;
  bool interrupted = false;
  std::uint8_t pointers_ = 0;
  std::uintptr_t common_from = 0, common_to = 0, from = 0, to = 0;  ///< bounds of the CIE's and the FDE's instructions

 private:
  template <class Memory>
  static table_reader<Memory> record(const tables_in<Memory>& in, std::uintptr_t at) {
    table_reader<Memory> r(in, at, in.high);
    const auto size = r.template get<std::uint32_t>();
    if (size == 0 || size > r.end - r.at) r.fail();  // also for records with a 64-bit length: modules are smaller
    r.end = r.at + size;
    if (!r.ok) r.end = r.at;
    return r;
  }

  template <class Memory>
  bool read_common(const tables_in<Memory>& in, std::uintptr_t cie) {
    table_reader<Memory> r = record(in, cie);
    const auto id = r.template get<std::uint32_t>();
    const auto version = r.template get<std::uint8_t>();
    char letters[8] = {};
    for (char& c : letters) {
      c = r.template get<char>();
      if (c == 0) break;
    }
    if (id != 0 || (version != 1 && version != 3) || letters[7] != 0) return false;
    code_align = r.uleb();
    data_align = r.sleb();
    if ((version == 1 ? r.template get<std::uint8_t>() : r.uleb()) != machine::return_column) return false;
    augmented_ = letters[0] == 'z';
    if (augmented_) {
      const std::uint64_t size = r.uleb();
      const std::uintptr_t after = r.at + size;
      for (const char* c = letters + 1; *c != 0; c++) {
        if (*c == 'R')
          pointers_ = r.template get<std::uint8_t>();
        else if (*c == 'L')
          r.template get<std::uint8_t>();
        else if (*c == 'P')
          r.pointer(r.template get<std::uint8_t>() & 0x0f);  // skips the personality routine
        else if (*c == 'S')
          interrupted = true;
        else if (!machine::signs_returns || (*c != 'B' && *c != 'G'))  // AArch64: B is the second key, G tagged memory
          return false;
      }
      if (size > tables_in<Memory>::reach || after < r.at) return false;
      r.skip(after - r.at);
    } else if (letters[0] != 0) {
      return false;
    }
    common_from = r.at;
    common_to = r.end;
    return r.ok;
  }

  bool augmented_ = false;
};

/// Work area of find_rules() and evaluate(), provided by the caller, since it may be too large for a signal handler's
/// stack.
struct rule_room {
  static constexpr unsigned deepest = 4;  ///< gcc's tables and glibc's assembly remember one state, rarely two
  /// On an expression's stack; chosen: the signal trampoline's expressions need 2
  static constexpr unsigned most_values = 16;
  frame_rules rules;  ///< found by find_rules()
  frame_rules initial, remembered[deepest];
  frame_entry entry;
  std::uint64_t values[most_values];
};

/// Executes the instructions of a frame entry up to an address.
template <class Memory>
class rule_program {
  using table_reader = recorder::table_reader<Memory>;

 public:
  rule_program(const tables_in<Memory>& in, rule_room& room) : in_(in), entry_(room.entry), room_(room) {}

  bool run(std::uint64_t address) {
    frame_rules& rules = room_.rules;
    rules = {};
    if (!run(entry_.common_from, entry_.common_to, ~std::uint64_t{0})) return false;
    room_.initial = rules;
    rules.interrupted = entry_.interrupted;
    return run(entry_.from, entry_.to, address);
  }

 private:
  bool run(std::uintptr_t from, std::uintptr_t to, std::uint64_t address) {
    table_reader r(in_, from, to);
    location_ = entry_.begin;
    depth_ = 0;
    while (r.more()) {
      if (!execute(r, room_.rules)) return false;
      if (location_ > address) break;
    }
    return r.ok;
  }

  /// Executes one instruction. False if it is unknown, if too many states are remembered, or if no remembered state is
  /// left to restore.
  bool execute(table_reader& r, frame_rules& rules) {
    const auto number = [&] { return unsigned(std::min(r.uleb(), std::uint64_t{~0u})); };
    const auto scaled = [&] { return std::int64_t(r.uleb() * std::uint64_t(entry_.data_align)); };
    const auto scaled_signed = [&] { return std::int64_t(std::uint64_t(r.sleb()) * std::uint64_t(entry_.data_align)); };
    const auto set = [&](unsigned i, frame_rules::how how, std::int64_t value) { set_rule(r, rules, i, how, value); };
    const auto set_cfa = [&](unsigned i, std::int64_t offset) { set_cfa_offset(r, rules, i, offset); };
    const auto expression = [&] { return skip_expression(r); };
    const auto op = r.template get<std::uint8_t>();
    const unsigned low = op & 0x3f;
    switch (op < 0x40 ? op : op & 0xc0) {  // clang-format off
      case 0x40: location_ += low * entry_.code_align; break;                                 // advance_loc
      case 0x80: set(low, frame_rules::at_offset, scaled()); break;                           // offset
      case 0xc0: restore(rules, low); break;                                                  // restore
      case 0x00: break;                                                                       // nop
      case 0x01: location_ = r.pointer(entry_.pointers_); break;                              // set_loc
      case 0x02: location_ += r.template get<std::uint8_t>() * entry_.code_align; break;               // advance_loc1
      case 0x03: location_ += r.template get<std::uint16_t>() * entry_.code_align; break;              // advance_loc2
      case 0x04: location_ += r.template get<std::uint32_t>() * entry_.code_align; break;              // advance_loc4
      case 0x05: { const auto i = number(); set(i, frame_rules::at_offset, scaled()); break; }         // offset_extended
      case 0x06: restore(rules, number()); break;                                             // restore_extended
      case 0x07: set(number(), frame_rules::undefined, 0); break;                             // undefined
      case 0x08: set(number(), frame_rules::same, 0); break;                                  // same_value
      case 0x09: { const auto i = number(); set(i, frame_rules::in_register, number()); break; }       // register
      case 0x0a: return remember(rules);                                                      // remember_state
      case 0x0b: return recall(rules);                                                        // restore_state
      case 0x0c: { const auto i = number(); set_cfa(i, std::int64_t(r.uleb())); break; }      // def_cfa
      case 0x0d: set_cfa(number(), rules.cfa.value); break;                                   // def_cfa_register
      case 0x0e: set_cfa(rules.cfa_register, std::int64_t(r.uleb())); break;                  // def_cfa_offset
      case 0x0f: rules.cfa = {std::int32_t(expression()), frame_rules::is_expression}; break; // def_cfa_expression
      case 0x10: { const auto i = number(); set(i, frame_rules::at_expression, expression()); break; } // expression
      case 0x11: { const auto i = number(); set(i, frame_rules::at_offset, scaled_signed()); break; }  // offset_extended_sf
      case 0x12: { const auto i = number(); set_cfa(i, scaled_signed()); break; }             // def_cfa_sf
      case 0x13: set_cfa(rules.cfa_register, scaled_signed()); break;                         // def_cfa_offset_sf
      case 0x14: { const auto i = number(); set(i, frame_rules::is_offset, scaled()); break; }         // val_offset
      case 0x15: { const auto i = number(); set(i, frame_rules::is_offset, scaled_signed()); break; }  // val_offset_sf
      case 0x16: { const auto i = number(); set(i, frame_rules::is_expression, expression()); break; } // val_expression
      case 0x2c: case 0x2d: return negate_signed(rules);                                      // AARCH64_negate_ra_state_with_pc, …
      case 0x2e: r.uleb(); break;                                                             // GNU_args_size
      default: return false;
    }  // clang-format on
    return true;
  }

  static void set_rule(table_reader& r, frame_rules& rules, unsigned i, frame_rules::how how, std::int64_t value) {
    if (value != std::int32_t(value)) r.fail();
    if (i < machine::columns) rules.of[i] = {std::int32_t(value), how};  // vector registers are ignored
  }
  static void set_cfa_offset(table_reader& r, frame_rules& rules, unsigned i, std::int64_t offset) {
    if (i >= machine::columns || offset != std::int32_t(offset)) r.fail();
    rules.cfa = {std::int32_t(offset), frame_rules::is_offset};
    rules.cfa_register = std::uint8_t(i);
  }
  /// Skips a DWARF expression. Returns its distance from the tables' header.
  std::int64_t skip_expression(table_reader& r) const {
    const std::intptr_t where = std::intptr_t(r.at) - std::intptr_t(in_.header);
    r.skip(r.uleb());
    return std::int64_t{where};
  }

  void restore(frame_rules& rules, unsigned i) const {
    if (i < machine::columns) rules.of[i] = room_.initial.of[i];
  }
  static bool negate_signed(frame_rules& rules) {
    rules.signed_return = !rules.signed_return;
    return machine::signs_returns;
  }
  bool remember(const frame_rules& rules) {
    if (depth_ == rule_room::deepest) return false;
    room_.remembered[depth_++] = rules;
    return true;
  }
  bool recall(frame_rules& rules) {
    if (depth_ == 0) return false;
    rules = room_.remembered[--depth_];
    return true;
  }

  const tables_in<Memory>& in_;
  const frame_entry& entry_;
  rule_room& room_;
  std::uint64_t location_ = 0;
  unsigned depth_ = 0;  ///< number of states in room_.remembered
};

/// Searches the sorted table for the only FDE that may cover the address. Returns 0 if there is none.
template <class Memory>
[[gnu::cold, gnu::noinline]] inline std::uintptr_t find_entry(const tables_in<Memory>& in, std::uint64_t address) {
  // .eh_frame_hdr contains: the version (1); a 4-byte pointer to .eh_frame; the number of rows as udata4; rows of two
  // sdata4, the distances of the code and of its FDE from the header.
  table_reader<Memory> head(in, in.header, in.high);
  const auto version = head.template get<std::uint8_t>(), frames = head.template get<std::uint8_t>();
  const auto numbers = head.template get<std::uint8_t>(), rows = head.template get<std::uint8_t>();
  head.skip(4);
  std::uint32_t after = head.template get<std::uint32_t>(), first = 0;
  if (!head.ok || version != 1 || ((frames & 0x0f) != 0x3 && (frames & 0x0f) != 0xb) || numbers != 0x03 ||
      rows != 0x3b || after > (in.high - head.at) / 8)
    return 0;
  const auto field = [&](std::uint64_t offset) {
    table_reader<Memory> r(in, head.at + offset, in.high);
    return in.header + std::uintptr_t(std::intptr_t{r.template get<std::int32_t>()});
  };
  while (first < after) {
    const std::uint32_t middle = first + (after - first) / 2;
    if (field(std::uint64_t{middle} * 8) <= address)
      first = middle + 1;
    else
      after = middle;
  }
  return first != 0 ? field(std::uint64_t{first} * 8 - 4) : 0;
}

/// Sets room.rules to the rules at an address. False if the tables have none, or unsupported ones.
template <class Memory>
[[gnu::cold, gnu::noinline]] inline bool find_rules(const tables_in<Memory>& in, std::uint64_t address,
                                                    rule_room& room) {
  const std::uintptr_t fde = find_entry(in, address);
  ::new (&room.entry) frame_entry;
  return fde != 0 && room.entry.read(in, fde, address) && rule_program(in, room).run(address);
}

/// Evaluates one DWARF expression (DWARF 5, 2.5).
template <class Tables, class Memory>
class expression_machine {
 public:
  /// The expression lies at distance `where` from the tables' header, and may read `memory`.
  expression_machine(const tables_in<Tables>& in, std::int32_t where, const registers& from, Memory& memory,
                     rule_room& room)
      : r_(in, in.header + std::uintptr_t(std::intptr_t{where}), in.high),
        from_(from),
        memory_(memory),
        stack_(room.values) {
    const std::uint64_t size = r_.uleb();
    if (size > r_.end - r_.at) r_.fail();
    if (r_.ok) r_.end = r_.at + size;
    begin_ = r_.at;
  }

  /// Runs the expression. Unless `first` is null, *first is pushed before. False if the expression fails.
  bool run(const std::uint64_t* first, std::uint64_t& result) {
    if (first != nullptr) push(*first);
    for (unsigned steps = 0; r_.more(); steps++)
      if (steps == longest || !execute(r_.template get<std::uint8_t>())) return false;
    if (!r_.ok || depth_ == 0) return false;
    result = stack_[depth_ - 1];
    return true;
  }

 private:
  static constexpr unsigned longest = 256;  // number of operations; chosen

  /// Executes one operation. False if it is unknown.
  bool execute(std::uint8_t op) {
    if (op >= 0x30 && op <= 0x4f) return push(op - 0x30u), true;           // lit0 …
    if (op >= 0x70 && op <= 0x8f) return push_register(op - 0x70u), true;  // breg0 …
    switch (op) {  // clang-format off
      case 0x06: dereference(); break;                                            // deref
      case 0x08: push(r_.template get<std::uint8_t>()); break;                             // const1u …
      case 0x09: push(std::uint64_t(std::int64_t{r_.template get<std::int8_t>()})); break;
      case 0x0a: push(r_.template get<std::uint16_t>()); break;
      case 0x0b: push(std::uint64_t(std::int64_t{r_.template get<std::int16_t>()})); break;
      case 0x0c: push(r_.template get<std::uint32_t>()); break;
      case 0x0d: push(std::uint64_t(std::int64_t{r_.template get<std::int32_t>()})); break;
      case 0x0e: case 0x0f: push(r_.template get<std::uint64_t>()); break;
      case 0x10: push(r_.uleb()); break;
      case 0x11: push(std::uint64_t(r_.sleb())); break;
      case 0x12: push(pick(0)); break;                                            // dup
      case 0x13: pop(); break;                                                    // drop
      case 0x14: push(pick(1)); break;                                            // over
      case 0x15: push(pick(r_.template get<std::uint8_t>())); break;                       // pick
      case 0x16: { const auto b = pop(), a = pop(); push(b); push(a); break; }    // swap
      case 0x1f: push(-pop()); break;                                             // neg
      case 0x20: push(~pop()); break;                                             // not
      case 0x23: push(pop() + r_.uleb()); break;                                  // plus_uconst
      case 0x28: jump(pop() != 0); break;                                         // bra
      case 0x2f: jump(true); break;                                               // skip
      case 0x92: push_register(r_.uleb()); break;                                 // bregx
      case 0x96: break;                                                           // nop
      default: return combine(op);
    }                                                                      // clang-format on
    return true;
  }

  /// Executes an operation that replaces the top two values by one. False if `op` is not such an operation; execute()
  /// has already handled the other operations in this range.
  bool combine(std::uint8_t op) {
    if (op < 0x1a || op > 0x2e) return false;
    const std::uint64_t b = pop(), a = pop();
    const auto x = std::int64_t(a), y = std::int64_t(b);
    switch (op) {  // clang-format off
      case 0x1a: push(a & b); break;                                              // and
      case 0x1b: y == 0 || y == -1 ? r_.fail() : push(std::uint64_t(x / y)); break;  // div
      case 0x1c: push(a - b); break;                                              // minus
      case 0x1d: b == 0 ? r_.fail() : push(a % b); break;                         // mod
      case 0x1e: push(a * b); break;                                              // mul
      case 0x21: push(a | b); break;                                              // or
      case 0x22: push(a + b); break;                                              // plus
      case 0x24: push(b < 64 ? a << b : 0); break;                                // shl
      case 0x25: push(b < 64 ? a >> b : 0); break;                                // shr
      case 0x26: push(std::uint64_t(x >> (b < 64 ? b : 63))); break;              // shra
      case 0x27: push(a ^ b); break;                                              // xor
      case 0x29: push(x == y); break;                                             // eq
      case 0x2a: push(x >= y); break;                                             // ge
      case 0x2b: push(x > y); break;                                              // gt
      case 0x2c: push(x <= y); break;                                             // le
      case 0x2d: push(x < y); break;                                              // lt
      default: push(x != y); break;                                               // ne: 0x2e, the last
    }  // clang-format on
    return true;
  }

  void push(std::uint64_t value) { depth_ < rule_room::most_values ? void(stack_[depth_++] = value) : r_.fail(); }
  std::uint64_t pop() { return depth_ > 0 ? stack_[--depth_] : (r_.fail(), 0); }
  std::uint64_t pick(unsigned i) { return i < depth_ ? stack_[depth_ - 1 - i] : (r_.fail(), 0); }
  void push_register(std::uint64_t i) {
    const std::int64_t offset = r_.sleb();
    from_.knows(i) ? push(from_.r[i] + std::uint64_t(offset)) : r_.fail();
  }
  void dereference() {
    std::uint64_t value = 0;
    memory_.read(pop(), value) ? push(value) : r_.fail();
  }
  void jump(bool taken) {
    const std::intptr_t distance = r_.template get<std::int16_t>();
    const std::uintptr_t to = r_.at + std::uintptr_t(distance);
    if (!taken) return;
    if (to < begin_ || to > r_.end) return r_.fail();
    r_.at = to;
  }

  table_reader<Tables> r_;
  const registers& from_;
  Memory& memory_;
  std::uintptr_t begin_ = 0;
  std::uint64_t* stack_;
  unsigned depth_ = 0;
};

/// Evaluates the expression at distance `where` from the tables' header. Unless `first` is null, *first is pushed
/// before. The expression may read `memory`.
template <class Tables, class Memory>
[[gnu::cold, gnu::noinline]] inline bool evaluate(const tables_in<Tables>& in, std::int32_t where,
                                                  const registers& from, const std::uint64_t* first, Memory& memory,
                                                  rule_room& room, std::uint64_t& result) {
  return expression_machine(in, where, from, memory, room).run(first, result);
}

}  // namespace usher::recorder
