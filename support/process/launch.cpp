#include "support/process/launch.hpp"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>

#include "support/locks.hpp"
#include "support/process/target.hpp"
#include "support/process/this_computer.hpp"
#include "support/text/messages.hpp"
#include "support/text/words.hpp"

namespace usher::support {

const lock_table* choose_lock(bool given, const std::string& asked, std::string_view otherwise) {
  std::string name(otherwise);
  const char* said_in = "";
  if (given) {
    name = asked;
  } else if (const std::string set = environment("USHER_LOCK"); !set.empty()) {
    name = set;
    said_in = " in USHER_LOCK";
  }
  const lock_table* lock = find_lock(name);
  if (lock == nullptr)
    report_error("unknown lock '{}'{}{} (usher list shows all)", name, said_in, did_you_mean(nearest_lock(name)));
  else if (!lock->traits->excludes)
    report_error("{}{} excludes nobody: it is for measurements only, and no program may run under it", name, said_in);
  return lock != nullptr && lock->traits->excludes ? lock : nullptr;
}

void warn_of_waiting(const lock_table& lock) {
  if (lock.traits->native_only) return;  // the C library's locks: the run is a plain one
  if (needs_own_cpu(lock))
    warn(
        "{} wants a CPU for every thread that waits; with more threads than CPUs ({} here) it can be slow "
        "beyond "
        "use{}",
        lock.name, usable_cpus(), lock.kind == waiting_kind::spin ? ", or never finish" : "");
  const int scheduling = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  if (scheduling == SCHED_FIFO || scheduling == SCHED_RR)
    warn("real-time scheduling ({}): a thread that spins can keep the lock's holder from its CPU for ever",
         scheduling == SCHED_FIFO ? "SCHED_FIFO" : "SCHED_RR");
}

void warn_of_hindrances(const char* command, const elf_target& library) {
  if (const auto program = find_program(command))
    for (const auto& sentence : hindrances(*program, library)) warn("{}", sentence);
}

int become_command(char** command) {
  execvp(command[0], command);
  const int error = errno;
  const auto program = find_program(command[0]);
  if (error == ENOENT && program) {
    // If the interpreter of a program is missing, execvp() gives the same error as for a missing program.
    const std::string missing = missing_interpreter(*program).value_or("or loader");
    if (missing.ends_with('\r'))
      report_error("cannot run {}: its first line ends with a carriage return, as in DOS", *program);
    else
      report_error("cannot run {}: its interpreter {} does not exist", *program, missing);
    return not_executable;
  }
  // execvp() also fails with EACCES if no such file exists but a folder in PATH cannot be searched.
  const auto file = find_file(command[0]);
  if (error == ENOENT || error == ENOTDIR || (error == EACCES && !file && std::strchr(command[0], '/') == nullptr)) {
    report_error("cannot run '{}': no such command{}", command[0],
                 find_lock(command[0]) != nullptr ? fmt::format(": did you mean --lock {}?", command[0]) : "");
    return not_found;
  }
  report_error("cannot run {}: {}", file.value_or(command[0]), std::strerror(error));
  return not_executable;
}

}  // namespace usher::support
