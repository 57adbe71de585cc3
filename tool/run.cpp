// usher run: starts a program with Usher's library preloaded and a selected lock. The program replaces this process (exec), so exit
// status, signals, standard input and job control are the program's own.
#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "library/catalog/names.hpp"
#include "library/catalog/probability.hpp"
#include "support/locks.hpp"
#include "support/process/launch.hpp"
#include "support/process/preload.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/words.hpp"
#include "tool/commands.hpp"

namespace usher::tool {
namespace {

/// An option for the order in which waiters are woken.
struct order_option {
  const char* option;
  const char* variable;
  const char* waiters;
  std::string chance;  ///< as given; else the variable's value
};

struct run_options {
  CLI::Option* lock_given = nullptr;
  std::string lock;
  CLI::Option* rwlock_given = nullptr;
  std::string rwlock;
  std::array<order_option, 2> orders{{
      {"--cond-append", "USHER_COND_APPEND", "condition variables", ""},
      {"--sem-append", "USHER_SEM_APPEND", "semaphores", ""},
  }};
  bool print_env = false;
  bool quiet = false;
};

/// False after an error message.
bool check_orders(std::array<order_option, 2>& orders) {
  for (order_option& o : orders) {
    const char* said_in = o.option;
    if (o.chance.empty()) {
      o.chance = support::environment(o.variable);
      said_in = o.variable;
    }
    if (o.chance.empty() || parse_probability(o.chance) > 0) continue;
    support::report_error("{} must be a decimal number above 0 and up to 1, as in 0.001, not '{}'", said_in, o.chance);
    return false;
  }
  return true;
}

/// The read-write lock of --rwlock, if given, else of USHER_RWLOCK; empty: the C library's. nullopt after an error message.
std::optional<std::string> choose_rwlock(const run_options& options) {
  const bool given = options.rwlock_given->count() != 0;
  const std::string name = given ? options.rwlock : support::environment("USHER_RWLOCK");
  if ((name.empty() && !given) || name == "pthread") return name;
  if (support::is_read_write_lock(name)) return name;
  const std::string_view nearest = support::nearest_read_write_lock(name);
  support::report_error("no read-write lock is called '{}'{}{}; 'usher list' has them, and pthread is the C library's",
                        name, given ? "" : " in USHER_RWLOCK",
                        nearest.empty() ? "" : fmt::format("; the nearest is '{}'", nearest));
  return std::nullopt;
}

int carry_out(run_options& options, char** command) {
  const bool has_command = command[0] != nullptr;
  if (!has_command && !options.print_env) {
    support::report_error("run: which command? usher run [--lock LOCK] -- CMD [ARGS...] (see usher run --help)");
    return support::bad_usage;
  }
  const lock_table* lock = support::choose_lock(options.lock_given->count() != 0, options.lock, default_lock);
  if (lock == nullptr || !check_orders(options.orders)) return support::bad_usage;
  const std::optional<std::string> rwlock = choose_rwlock(options);
  if (!rwlock) return support::bad_usage;

  const auto found = support::find_library({lock, *rwlock});
  if (const auto* none = std::get_if<support::no_library>(&found)) {
    support::report_error("{}", none->reason);
    return support::cannot_start;
  }
  const auto& library = std::get<support::preload_library>(found);
  const std::string preload = support::preload_list(support::environment("LD_PRELOAD"), library.path);

  if (!options.quiet) {
    support::warn_of_waiting(*lock);
    for (const order_option& o : options.orders)
      if (!o.chance.empty() && lock->traits->native_only)
        support::warn("{} has no effect under {}: the C library's {} have their own order", o.option, lock->name,
                      o.waiters);
    if (has_command) support::warn_of_hindrances(command[0], library.target);
  }
  if (options.print_env) {
    fmt::print("export USHER_LOCK={}\nexport LD_PRELOAD={}\n", support::shell_quoted(lock->name),
               support::shell_quoted(preload));
    if (!rwlock->empty()) fmt::print("export USHER_RWLOCK={}\n", support::shell_quoted(*rwlock));
    for (const order_option& o : options.orders)
      if (!o.chance.empty()) fmt::print("export {}={}\n", o.variable, support::shell_quoted(o.chance));
    return 0;
  }
  bool set = setenv("USHER_LOCK", lock->name, 1) == 0 && setenv("LD_PRELOAD", preload.c_str(), 1) == 0;
  set = set && (rwlock->empty() || setenv("USHER_RWLOCK", rwlock->c_str(), 1) == 0);
  for (const order_option& o : options.orders)
    set = set && (o.chance.empty() || setenv(o.variable, o.chance.c_str(), 1) == 0);
  if (!set) {
    support::report_error("cannot set the environment: {}", std::strerror(errno));
    return support::cannot_start;
  }
  return support::become_command(command);
}

constexpr const char* run_notes = R"text(Examples:
  usher run -- ./server --port 80
  usher run --lock mcscr -- python3 script.py
  usher run --rwlock phase-fair -- ./server     read-write locks, too
  usher run --cond-append 0.001 -- ./server     wakes the worker that became idle last
  eval "$(usher run --lock twa --print-env)"    for all programs that this shell starts

Exit status: the command's own; 2 for bad usage or an unknown lock, 125 if Usher's
library cannot be used, 126 if the command cannot be executed, 127 if there is none
of that name.

Environment: USHER_LOCK is the lock if --lock is not given, USHER_RWLOCK the read-write
lock if --rwlock is not, USHER_COND_APPEND and USHER_SEM_APPEND are P if --cond-append or --sem-append are not. USHER_LIBRARY is the path
of libusher.so instead of the one near this program; libusher-all.so, for the locks that it
lacks, lies beside it. LD_PRELOAD is kept: Usher's library
is inserted at the front, but after the runtimes of sanitizers. With USHER_VERBOSE=1 the
library prints the lock on stderr when a program starts; 'usher status PID' shows it
later.)text";

}  // namespace

support::subcommand run(CLI::App& app) {
  auto* sub = app.add_subcommand("run", "Run a program under a lock of Usher's");
  auto options = std::make_shared<run_options>();
  options->lock_given =
      sub->add_option("--lock", options->lock,
                      fmt::format("The lock (default: USHER_LOCK if set, else {}). Under one that is first come, "
                                  "first served, no thread passes one that a signal handler keeps (as collectors' do)",
                                  default_lock))
          ->type_name("LOCK");
  options->rwlock_given =
      sub->add_option("--rwlock", options->rwlock,
                      "The read-write lock: phase-fair, bravo, or one of them over another lock, as "
                      "phase-fair-mcs (default: USHER_RWLOCK if set, else pthread, the C library's)")
          ->type_name("RWLOCK");
  for (order_option& o : options->orders)
    sub->add_option(o.option, o.chance,
                    fmt::format("Probability that a waiter for {} is appended at the tail, not at the head (1, the "
                                "default: FIFO; 0.001: mostly LIFO)",
                                o.waiters))
        ->type_name("P");
  sub->add_flag("--print-env", options->print_env, "Print what would be set, for a shell, and start nothing");
  sub->add_flag("--quiet", options->quiet, "Do not warn");
  sub->formatter(std::make_shared<support::help>("usher run [OPTIONS] -- CMD [ARGS...]"));
  sub->footer(run_notes);
  return {sub, [options](char** command) { return carry_out(*options, command); }, true};
}

}  // namespace usher::tool
