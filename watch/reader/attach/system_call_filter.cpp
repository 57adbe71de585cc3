#include "watch/reader/attach/system_call_filter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "support/process/running_process.hpp"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

namespace usher::reader {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#else
#error "the audit number of this architecture"
#endif

constexpr std::uint64_t descriptor = 64, address = 0x7f0000000000, size = 54 << 20;
constexpr system_call calls[] = {
    {"memfd_create", SYS_memfd_create, {address, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0, 0, 0}},
    {"memfd_create", SYS_memfd_create, {address, MFD_CLOEXEC | MFD_ALLOW_SEALING | 8U /* no exec */, 0, 0, 0, 0}},
    {"ftruncate", SYS_ftruncate, {descriptor, size, 0, 0, 0, 0}},
    {"fcntl", SYS_fcntl, {descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 0, 0, 0}},
    {"mmap", SYS_mmap, {0, size, PROT_NONE, MAP_SHARED, descriptor, 0}},
    {"mprotect", SYS_mprotect, {address, size, PROT_READ | PROT_WRITE, 0, 0, 0}},
    {"mremap", SYS_mremap, {address, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, address, 0}},
    {"munmap", SYS_munmap, {address, size, 0, 0, 0, 0}},
    {"fstat", SYS_fstat, {descriptor, address, 0, 0, 0, 0}},
    {"close", SYS_close, {descriptor, 0, 0, 0, 0, 0}},
    {"madvise", SYS_madvise, {address, size, MADV_REMOVE, 0, 0, 0}},
    {"getpid", SYS_getpid, {0, 0, 0, 0, 0, 0}},
    {"gettid", SYS_gettid, {0, 0, 0, 0, 0, 0}},
    // The library's test of memory (watch/recorder/readable_memory.hpp) passes an invalid operation.
    {"rt_sigprocmask", SYS_rt_sigprocmask, {~0u >> 1, address, 0, 8, 0, 0}},
};

/// An interpreter of classic BPF, for the instructions that seccomp permits.
class machine {
 public:
  explicit machine(const system_call& call) : data_{call.number, architecture, 0, {}} {
    std::memcpy(data_.args, call.arguments, sizeof data_.args);
  }

  std::optional<std::uint32_t> run(const filter_program& f) {
    // The loop ends because jumps only go forward.
    for (std::size_t at = 0; at < f.size(); at++) {
      const sock_filter& i = f[at];
      switch (BPF_CLASS(i.code)) {
        case BPF_RET:
          return BPF_RVAL(i.code) == BPF_A ? a_ : i.k;
        case BPF_JMP:
          at += jump(i);
          break;
        default:
          if (!step(i)) return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  bool step(const sock_filter& i) {
    switch (BPF_CLASS(i.code)) {
      case BPF_LD:
        return load(i, a_);
      case BPF_LDX:
        return load(i, x_);
      case BPF_ST:
      case BPF_STX:
        if (i.k >= BPF_MEMWORDS) return false;
        memory_[i.k] = BPF_CLASS(i.code) == BPF_ST ? a_ : x_;
        return true;
      case BPF_ALU:
        return compute(i);
      case BPF_MISC:
        (BPF_MISCOP(i.code) == BPF_TAX ? x_ : a_) = BPF_MISCOP(i.code) == BPF_TAX ? a_ : x_;
        return true;
      default:
        return false;
    }
  }

  bool load(const sock_filter& i, std::uint32_t& to) const {
    switch (BPF_MODE(i.code)) {
      case BPF_IMM:
        to = i.k;
        return true;
      case BPF_LEN:
        to = sizeof data_;
        return true;
      case BPF_MEM:
        if (i.k >= BPF_MEMWORDS) return false;
        to = memory_[i.k];
        return true;
      case BPF_ABS: {
        constexpr std::size_t pc = offsetof(seccomp_data, instruction_pointer);
        if (i.k % 4 != 0 || i.k > sizeof data_ - 4 || (i.k >= pc && i.k < pc + 8)) return false;
        std::memcpy(&to, reinterpret_cast<const char*>(&data_) + i.k, sizeof to);
        return true;
      }
      default:
        return false;
    }
  }

  bool compute(const sock_filter& i) {
    const std::uint32_t operand = BPF_SRC(i.code) == BPF_X ? x_ : i.k;
    switch (BPF_OP(i.code)) {
      case BPF_ADD:
        a_ += operand;
        return true;
      case BPF_SUB:
        a_ -= operand;
        return true;
      case BPF_MUL:
        a_ *= operand;
        return true;
      case BPF_OR:
        a_ |= operand;
        return true;
      case BPF_AND:
        a_ &= operand;
        return true;
      case BPF_XOR:
        a_ ^= operand;
        return true;
      case BPF_LSH:
        a_ = operand < 32 ? a_ << operand : 0;
        return true;
      case BPF_RSH:
        a_ = operand < 32 ? a_ >> operand : 0;
        return true;
      case BPF_NEG:
        a_ = 0 - a_;
        return true;
      case BPF_DIV:
        if (operand == 0) return false;
        a_ /= operand;
        return true;
      default:
        return false;
    }
  }

  /// The number of instructions that a jump skips.
  std::size_t jump(const sock_filter& i) const {
    const std::uint32_t operand = BPF_SRC(i.code) == BPF_X ? x_ : i.k;
    bool taken = false;
    switch (BPF_OP(i.code)) {
      case BPF_JA:
        return i.k;
      case BPF_JEQ:
        taken = a_ == operand;
        break;
      case BPF_JGT:
        taken = a_ > operand;
        break;
      case BPF_JGE:
        taken = a_ >= operand;
        break;
      case BPF_JSET:
        taken = (a_ & operand) != 0;
        break;
      default:
        return BPF_MAXINSNS;  // beyond the program's end, so the filter is invalid
    }
    return taken ? i.jt : i.jf;
  }

  seccomp_data data_;
  std::uint32_t a_ = 0, x_ = 0, memory_[BPF_MEMWORDS] = {};
};

bool passes(std::uint32_t value) {
  const std::uint32_t action = value & SECCOMP_RET_ACTION_FULL;
  return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG || action == SECCOMP_RET_ERRNO;
}

}  // namespace

std::span<const system_call> calls_of_recording() {
  return calls;
}

std::optional<std::uint32_t> run_filter(const filter_program& filter, const system_call& call) {
  return machine(call).run(filter);
}

std::string objection_of(const std::vector<filter_program>& filters) {
  for (const system_call& c : calls)
    for (const filter_program& f : filters) {
      const auto value = run_filter(f, c);
      if (!value) return fmt::format("its effect on {} cannot be known", c.name);
      if (!passes(*value)) return fmt::format("it does not permit {}", c.name);
    }
  return "";
}

std::optional<std::vector<filter_program>> filters_of(pid_t tid) {
  constexpr int most = 32;  // the number of a thread's filters; chosen
  std::vector<filter_program> all;
  for (int i = 0; i < most; i++) {
    const long n = ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_FILTER), tid,
                          reinterpret_cast<void*>(long{i}), nullptr);
    if (n < 0 && errno == ENOENT) return all;
    if (n < 0 && errno == EINVAL && support::status_field(std::to_string(tid), "Seccomp") == "0") return all;
    if (n <= 0 || n > BPF_MAXINSNS) return std::nullopt;
    filter_program f(static_cast<std::size_t>(n));
    if (ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_FILTER), tid, reinterpret_cast<void*>(long{i}),
               f.data()) != n)
      return std::nullopt;
    all.push_back(std::move(f));
  }
  errno = E2BIG;
  return std::nullopt;
}

std::string objection_to_modes(pid_t pid, bool& any) {
  namespace fs = std::filesystem;
  any = false;
  std::error_code gone;
  for (fs::directory_iterator i(fmt::format("/proc/{}/task", pid), gone), end; !gone && i != end; i.increment(gone)) {
    const std::string mode =
        support::status_field(fmt::format("{}/task/{}", pid, i->path().filename().string()), "Seccomp");
    if (mode == "1") return "a thread is in strict seccomp mode, which kills it for any call that a lock needs";
    any = any || mode == "2";
  }
  return "";
}

}  // namespace usher::reader
