#include "watch/reader/name/confinement.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

extern char** environ;

namespace usher::reader {
namespace {

std::string failed(const char* what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

// ---- capabilities ---------------------------------------------------------------------------------------------------

struct capability_sets {
  std::uint64_t effective = 0, permitted = 0, inheritable = 0;
};

bool read_capabilities(capability_sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  const auto both = [&data](auto member) {
    return std::uint64_t{data[1].*member} << 32 | std::uint64_t{data[0].*member};
  };
  sets = {both(&__user_cap_data_struct::effective), both(&__user_cap_data_struct::permitted),
          both(&__user_cap_data_struct::inheritable)};
  return true;
}

bool set_capabilities(std::uint64_t only) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  data[0].effective = data[0].permitted = static_cast<std::uint32_t>(only);
  data[1].effective = data[1].permitted = static_cast<std::uint32_t>(only >> 32);
  return syscall(SYS_capset, &header, data) == 0;
}

bool has_effective(unsigned capability) {
  capability_sets now;
  return read_capabilities(now) && (now.effective >> capability & 1) != 0;
}

/// Drops all capabilities except `only`, for this process and the programs that it executes. The bounding set cannot be
/// changed without CAP_SETPCAP, and has no effect under no_new_privs.
std::string drop_capabilities(std::uint64_t only) {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (!set_capabilities(only)) return failed("capset");
  capability_sets now;
  if (!read_capabilities(now)) return failed("capget");
  if ((now.effective | now.permitted) != only || now.inheritable != 0) return "capabilities are left";
  return "";
}

// ---- descriptors, memory, limits ------------------------------------------------------------------------------------

void close_between(unsigned first, unsigned last) {
  if (first > last) return;
  if (syscall(SYS_close_range, first, last, 0) == 0) return;
  rlimit files{};  // Linux < 5.9
  const auto end = getrlimit(RLIMIT_NOFILE, &files) == 0
                       ? static_cast<unsigned>(std::min<rlim_t>(files.rlim_max, 1 << 20))
                       : 1u << 20;
  for (unsigned fd = first; fd <= last && fd < end; fd++) close(static_cast<int>(fd));
}

std::string keep_only(std::vector<int> kept) {
  std::erase_if(kept, [](int fd) { return fd < 0; });
  std::sort(kept.begin(), kept.end());
  unsigned next = 3;
  for (const int fd : kept) {
    if (fd < 3) return "a descriptor is a standard stream";
    if (static_cast<unsigned>(fd) > next) close_between(next, static_cast<unsigned>(fd) - 1);
    next = static_cast<unsigned>(fd) + 1;
  }
  close_between(next, ~0u);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1, 2})
    if (null < 0 || dup2(null, fd) < 0) close(fd);
  if (null > 2) close(null);
  return "";
}

/// Overwrites and clears the environment: variables may hold secrets of the observer, or change the behaviour of
/// libraries.
void forget_environment() {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    explicit_bzero(*variable, std::strlen(*variable));
  clearenv();
}

std::string set_limits(const confinement_limits& limits) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t space = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + limits.more_address_space;
  const auto limit = [](auto resource, rlim_t value) {
    rlimit now{};
    if (getrlimit(resource, &now) != 0) return false;
    value = std::min(value, now.rlim_max);
    const rlimit wanted{value, value};
    return setrlimit(resource, &wanted) == 0;
  };
  if (!limit(RLIMIT_AS, space) || !limit(RLIMIT_CPU, limits.cpu_seconds) || !limit(RLIMIT_FSIZE, 0) ||
      !limit(RLIMIT_CORE, 0) || !limit(RLIMIT_NOFILE, limits.descriptors) || !limit(RLIMIT_NPROC, 0))
    return failed("setrlimit");
  // If memory runs out, the kernel kills this process first.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  return "";
}

// ---- root, user and groups ------------------------------------------------------------------------------------------

bool enter_root(int root) {
  return fchdir(root) == 0 && chroot(".") == 0 && chdir("/") == 0;
}

bool has_ids(uid_t uid, gid_t gid) {
  uid_t u[3];
  gid_t g[3];
  if (getresuid(&u[0], &u[1], &u[2]) != 0 || getresgid(&g[0], &g[1], &g[2]) != 0) return false;
  for (const uid_t one : u)
    if (one != uid) return false;
  for (const gid_t one : g)
    if (one != gid) return false;
  return true;
}

enum class ids {
  outside,  ///< as at the start of this process
  inside,   ///< in the place's user namespace
  fixed,    ///< in a new user namespace, in which the process cannot change them
};

/// Enters the root directory of `place`. Sets `numbers` to the numbering of the place's user and group ids afterwards.
std::string change_root(const process_place& place, ids& numbers) {
  numbers = ids::outside;
  if (!place.root || enter_root(place.root.get())) return "";
  if (errno != EPERM) return failed("its root directory cannot be entered");
  if (place.user_namespace && setns(place.user_namespace.get(), CLONE_NEWUSER) == 0) {
    numbers = ids::inside;
    return enter_root(place.root.get()) ? "" : failed("its root directory cannot be entered");
  }
  if (!has_ids(place.uid, place.gid)) return "its files are below another root directory and belong to another user";
  numbers = ids::fixed;
  if (unshare(CLONE_NEWUSER) != 0 || !enter_root(place.root.get()))
    return failed("its root directory cannot be entered without CAP_SYS_CHROOT or a user namespace");
  return "";
}

/// Changes to these user and group ids and drops the supplementary groups. A process that may not drop its groups keeps
/// them; it must then have the ids already.
std::string change_ids(uid_t uid, gid_t gid) {
  const bool has_no_groups = setgroups(0, nullptr) == 0;
  if (!has_no_groups && !has_ids(uid, gid)) return failed("the groups of the observer cannot be left");
  if (setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
    return failed("its user and group cannot be taken");
  return has_ids(uid, gid) ? "" : "its user and group were not taken";
}

// ---- system calls ---------------------------------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#elif defined(__riscv) && __riscv_xlen == 64
constexpr std::uint32_t architecture = AUDIT_ARCH_RISCV64;
#else
constexpr std::uint32_t architecture = 0;  // the calls are not filtered
#endif

constexpr int harmless[] = {
    SYS_read,          SYS_pread64, SYS_readv,     SYS_close,       SYS_fstat,           SYS_lseek,
    SYS_munmap,        SYS_mremap,  SYS_brk,       SYS_madvise,     SYS_futex,           SYS_readlinkat,
    SYS_faccessat,     SYS_getcwd,  SYS_exit,      SYS_exit_group,  SYS_rt_sigreturn,    SYS_rt_sigprocmask,
    SYS_getpid,        SYS_gettid,  SYS_getuid,    SYS_geteuid,     SYS_getgid,          SYS_getegid,
    SYS_clock_gettime, SYS_sysinfo, SYS_getrandom, SYS_sched_yield, SYS_restart_syscall,
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
#ifdef SYS_statx
    SYS_statx,
#endif
#ifdef SYS_stat
    SYS_stat,          SYS_lstat,   SYS_access,    SYS_readlink,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
};

/// A system call that the filter permits only if this argument & `mask` equals `value`.
struct conditional {
  int call;
  unsigned argument;
  std::uint32_t mask, value;
};

constexpr std::uint32_t writing = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);

/// An instruction of the filter. unless() below makes a comparison that skips `skipped` instructions if the values
/// differ.
sock_filter step(unsigned code, std::uint32_t value) {
  return {static_cast<std::uint16_t>(code), 0, 0, value};
}
sock_filter unless(std::uint32_t value, std::uint8_t skipped) {
  return {BPF_JMP | BPF_JEQ | BPF_K, 0, skipped, value};
}

/// Installs the filter of system calls. Without it, an attacker who controls this process could change files of the
/// target's user, or attack that user's other processes. Refused calls fail with EPERM, so that a library can use
/// another call instead.
std::string filter_calls(int channel) {
  if (architecture == 0) return "";
  const std::vector<conditional> some = {
      {SYS_write, 0, ~0u, static_cast<std::uint32_t>(channel)},
      {SYS_openat, 2, writing, 0},
#ifdef SYS_open
      {SYS_open, 1, writing, 0},
#endif
      {SYS_mmap, 2, PROT_EXEC, 0},
      {SYS_mprotect, 2, PROT_EXEC, 0},
      {SYS_fcntl, 1, ~2u, F_GETFD},  // ~2 also permits F_GETFL
  };
  static_assert((F_GETFD | 2) == F_GETFL);
  constexpr unsigned load = BPF_LD | BPF_W | BPF_ABS, result = BPF_RET | BPF_K;
  const sock_filter skips_one_if_expected{BPF_JMP | BPF_JEQ | BPF_K, 1, 0, architecture};
  std::vector<sock_filter> program = {step(load, offsetof(seccomp_data, arch)), skips_one_if_expected,
                                      step(result, SECCOMP_RET_KILL_PROCESS), step(load, offsetof(seccomp_data, nr))};
  for (const int call : harmless) {
    program.push_back(unless(static_cast<std::uint32_t>(call), 1));
    program.push_back(step(result, SECCOMP_RET_ALLOW));
  }
  for (const conditional& c : some) {  // little-endian: the lower half of an argument comes first
    const auto at = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + sizeof(std::uint64_t) * c.argument);
    program.push_back(unless(static_cast<std::uint32_t>(c.call), 5));
    program.push_back(step(load, at));
    program.push_back(step(BPF_ALU | BPF_AND | BPF_K, c.mask));
    program.push_back(unless(c.value, 1));
    program.push_back(step(result, SECCOMP_RET_ALLOW));
    program.push_back(step(result, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(step(result, SECCOMP_RET_ERRNO | EPERM));
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0) != 0) return failed("seccomp");
  return "";
}

/// Makes the kernel kill this process when its parent ends. To be called after each change of ids, which resets this.
bool ends_with(pid_t parent) {
  return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent;
}

/// Blocks all signals except SIGXCPU. ^C at the terminal also reaches the parent, and this process ends with the
/// parent.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGXCPU);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  signal(SIGXCPU, SIG_DFL);
}

}  // namespace

std::string confine(const process_place& place, int channel, std::span<const int> kept, pid_t parent,
                    const confinement_limits& limits) {
  if (!place.refusal.empty()) return place.refusal;
  block_signals();
  if (!ends_with(parent)) return "the parent has ended";
  std::vector<int> all(kept.begin(), kept.end());
  all.insert(all.end(), {channel, place.root.get(), place.user_namespace.get()});
  if (std::string error = keep_only(std::move(all)); !error.empty()) return error;
  forget_environment();
  if (std::string error = set_limits(limits); !error.empty()) return error;

  constexpr std::uint64_t read_search = std::uint64_t{1} << CAP_DAC_READ_SEARCH;
  capability_sets before;
  if (!read_capabilities(before)) return failed("capget");
  const std::uint64_t left = place.reads_all ? before.permitted & read_search : 0;
  ids numbers{};
  if (std::string error = change_root(place, numbers); !error.empty()) return error;
  if (has_effective(CAP_SETPCAP))
    for (unsigned long c = 0; c <= CAP_LAST_CAP; c++) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
  if (left != 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return failed("PR_SET_KEEPCAPS");
  if (numbers != ids::fixed) {
    const bool inside = numbers == ids::inside;
    std::string error = change_ids(inside ? place.uid_inside : place.uid, inside ? place.gid_inside : place.gid);
    if (!error.empty()) return error;
  }
  if (std::string error = drop_capabilities(left); !error.empty()) return error;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return failed("PR_SET_DUMPABLE");
  if (!ends_with(parent)) return "the parent has ended";
  if (place.root) close(place.root.get());
  return filter_calls(channel);
}

}  // namespace usher::reader
