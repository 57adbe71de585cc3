#include "lab/commands/calibrate.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "lab/calibrate/machine_file.hpp"
#include "lab/calibrate/native_machine.hpp"
#include "lab/sim/machine.hpp"
#include "support/process/foreign_cpu.hpp"
#include "support/process/process.hpp"
#include "support/process/this_computer.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"

namespace usher::lab {

std::string calibrated_machine_file(const std::string& command) {
  const support::foreign_cpu others;
  const calibrate::native_machine here = calibrate::look_around();
  if (!calibrate::can_pin(here)) support::report_error("threads cannot be pinned to CPUs here: much will be assumed");
  const std::string text = calibrate::machine_file(here, support::cpu_name());
  utsname system{};
  uname(&system);
  return fmt::format(
      "# Made by `{}` on {}, {} {}.\n"
      "# Others took {:.1f} % of the CPU time meanwhile. Cycles; a measured number is the median, and its range "
      "that of single runs.\n\n{}",
      command, support::now_in_words(), system.sysname, system.release, others.share() * 100, text);
}

namespace {

struct calibrate_options {
  std::string file;
};

int write_machine(const calibrate_options& o) try {
  support::output_file to;
  if (!to.open(o.file)) return support::cannot_start;
  const std::string text = calibrated_machine_file("usher sim calibrate" + (o.file.empty() ? "" : " -o " + o.file));
  if (!to.wanted()) {
    fmt::print("{}", text);
    return 0;
  }
  return to.write(text) ? 0 : int{support::cannot_start};
} catch (const sim::bad_machine& e) {
  support::report_error("{}", e.what());
  return support::bad_usage;
}

constexpr const char* calibrate_notes =
    R"(Measures the computer that it runs on, for up to 20 seconds, and writes a machine's file: CPUs, what cache lines
cost that other CPUs have, what sleeping and waking takes, caches. Each number says where it comes from. What cannot be
measured here is assumed, and says so. Others who use the CPUs meanwhile make it worse: the file tells how much they took.

Examples:
  usher sim calibrate -o here.toml
  usher sim mutexbench --machine ./here.toml)";

}  // namespace

support::subcommand calibrate_command(CLI::App& sim) {
  auto* sub = sim.add_subcommand("calibrate", "Measure this computer, and describe it as a machine");
  auto o = std::make_shared<calibrate_options>();
  sub->add_option("-o,--output", o->file, "Write the machine's file here (default: standard output)")->type_name("F");
  sub->formatter(std::make_shared<support::help>("usher sim calibrate [OPTIONS]"));
  sub->footer(calibrate_notes);
  return {sub, [o](char**) { return write_machine(*o); }};
}

}  // namespace usher::lab
