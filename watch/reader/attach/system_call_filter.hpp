// Determines whether a process's seccomp filters permit the system calls of a recording.
//
// A filter may kill the process for a call that the process has never made. So the filters are evaluated before a
// record is requested. ptrace reads them (PTRACE_SECCOMP_GET_FILTER), which needs CAP_SYS_ADMIN, and they are
// interpreted here for each call. If an instruction reads an unknown value (the address of the calling instruction),
// the result is unknown.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace usher::reader {

/// A system call with its arguments.
struct system_call {
  const char* name;
  int number;
  std::uint64_t arguments[6];
};

/// The system calls that recording adds to a process when `usher stat -p` attaches (watch/recorder/).
std::span<const system_call> calls_of_recording();

using filter_program = std::vector<sock_filter>;

/// The value that a filter returns for a native system call of this machine; its high 16 bits are the action. Nothing
/// if the filter reads an unknown value or is invalid.
std::optional<std::uint32_t> run_filter(const filter_program& filter, const system_call& call);

/// The reason why the filters do not permit all calls of a recording, or why this is unknown; empty if they permit all.
/// A call that a filter refuses by an error number counts as permitted: the recording reports the error.
std::string objection_of(const std::vector<filter_program>& filters);

/// The filters of a thread that the caller has stopped by ptrace. Nothing, with errno set, if the caller may not read
/// them.
std::optional<std::vector<filter_program>> filters_of(pid_t tid);

/// Reads the threads' seccomp modes. Returns a reason to refuse if a thread has mode 1 (strict), which permits no call
/// that a lock needs. Sets `any` if a thread has a filter.
std::string objection_to_modes(pid_t pid, bool& any);

}  // namespace usher::reader
