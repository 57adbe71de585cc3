// Whether a process's seccomp filters let the system calls of a recording pass.
//
// A filter may kill the process for a call that it has never made, so the filters must be evaluated before anything
// is asked of the process. They are read by ptrace (PTRACE_SECCOMP_GET_FILTER), which takes CAP_SYS_ADMIN, and are
// run here for each call. If an instruction reads an unknown value (the address of the calling instruction), the
// result is unknown.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace usher::cli::stat {

/// A system call with its arguments.
struct system_call {
  const char* name;
  int number;
  std::uint64_t arguments[6];
};

/// The calls that a recording begun by `usher stat -p` adds to the process (src/record/).
std::span<const system_call> calls_of_recording();

using filter_program = std::vector<sock_filter>;

/// The value that a filter returns for a call of this machine's native system calls, with its action in the upper
/// half. Nothing: the program reads an unknown value, or is not valid.
std::optional<std::uint32_t> run_filter(const filter_program& filter, const system_call& call);

/// The reason why the filters do not let all calls pass, or why that is unknown; empty: they do. A call that is
/// refused by an error number passes: the recording reports it.
std::string objection_of(const std::vector<filter_program>& filters);

/// The filters of a thread that the caller has stopped by ptrace. Nothing, with errno, if they may not be read.
std::optional<std::vector<filter_program>> filters_of(pid_t tid);

/// The reason to refuse one of the threads by its mode alone: 1, strict, permits nothing that a lock needs. Sets `any`: a thread has a
/// filter.
std::string objection_to_modes(pid_t pid, bool& any);

}  // namespace usher::cli::stat
