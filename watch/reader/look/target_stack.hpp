// The call chain of a sleeping thread of another process, from the stack pointer and the program counter alone, which
// is all that /proc/PID/task/TID/syscall shows. The thread is not stopped: it may run on meanwhile, so a chain counts only
// if the thread has not run between two looks at it (passes.hpp).
//
// Steps are by the tables of .eh_frame, read from the process's memory (frame_rules.hpp). Registers other than the two
// are known from where a callee has saved them. A frame that needs another one, and code without tables (JIT, Go), is left
// by the stack's words: a slot that holds a higher stack address and beside it a return address, which a call instruction
// precedes; or else the next return address. From there on the chain is uncertain, since such words may be left over
// from earlier calls.
//
// The attacker is the process: its stack and tables may hold anything. At most 256 KiB of stack are read, 64 frames are
// made, and each address is compared with the mappings that the kernel reports.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "watch/reader/look/target_pages.hpp"
#include "watch/recorder/frame_rules.hpp"

namespace usher::reader {

struct target_chain {
  std::vector<std::uint64_t> pc;  ///< return addresses; the first is the address after the system call
  bool is_cut = false;
  std::uint32_t certain = 0;  ///< the first frames, which tables led to
};

class target_unwinder {
 public:
  static constexpr std::uint64_t deepest = 256 << 10;
  static constexpr std::size_t most_frames = 64;

  /// `stack` and `tables` may be read by others, too.
  target_unwinder(target_maps& maps, target_pages& stack, target_pages& tables)
      : maps_(maps), stack_(stack), tables_(tables) {}

  target_chain unwind(std::uint64_t sp, std::uint64_t pc);
  /// To be called when the mappings have changed.
  void forget() { rules_.clear(); }

 private:
  enum class step { called, interrupted, ended, failed };
  /// The part of the stack that may be read.
  struct bounded_stack {
    target_pages& pages;
    std::uint64_t low, high;
    template <class T>
    bool read(std::uint64_t at, T& to) {
      return at >= low && at <= high - sizeof to && pages.read(at, to);
    }
  };
  struct found_rules {
    recorder::frame_rules rules{};
    bool is_found = false;
    std::uint32_t module = 0;
  };

  const found_rules& rules_at(std::uint64_t address);
  step by_tables(recorder::registers& regs, std::uint64_t address, bounded_stack& stack);
  bool by_words(recorder::registers& regs, bounded_stack& stack);
  bool is_return_address(std::uint64_t address);

  target_maps& maps_;
  target_pages& stack_;
  target_pages& tables_;
  std::unordered_map<std::uint64_t, found_rules> rules_;
  recorder::rule_room room_;
};

}  // namespace usher::reader
