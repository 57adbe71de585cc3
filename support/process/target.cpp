#include "support/process/target.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "support/process/files.hpp"
#include "support/process/preload.hpp"

namespace usher::support {
namespace {

bool is_executable(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

/// The first file of that name, in the order of execvp()'s search, for which `passes` is true.
template <class Predicate>
std::optional<std::string> look_up(const std::string& command, Predicate passes) {
  if (command.find('/') != std::string::npos) return passes(command) ? std::optional(command) : std::nullopt;
  if (command.empty()) return std::nullopt;
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/bin:/usr/bin" : path);  // the default of execvp()
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string file = (directory.empty() ? "." : directory) + "/" + command;
    if (passes(file)) return file;
  }
  return std::nullopt;
}

/// The words after "#!"; empty if the file is no script.
std::vector<std::string> script_line(const std::string& path) {
  std::ifstream file(path);
  char line[256];  // as many bytes as the kernel reads
  file.read(line, sizeof line);
  std::string_view text(line, static_cast<std::size_t>(file.gcount()));
  if (!text.starts_with("#!")) return {};
  text = text.substr(2, text.find('\n') - 2);
  // Words end only at blanks and tabs. A carriage return belongs to the name of the interpreter, as for the kernel.
  std::vector<std::string> words;
  for (std::size_t from = 0; (from = text.find_first_not_of(" \t", from)) != std::string_view::npos;) {
    const std::size_t to = std::min(text.find_first_of(" \t", from), text.size());
    words.emplace_back(text.substr(from, to - from));
    from = to;
  }
  return words;
}

/// The program that `env` starts in a script's first line, such as `#!/usr/bin/env -S python3 -u`.
std::optional<std::string> program_of_env(const std::vector<std::string>& line) {
  for (std::size_t i = 1; i < line.size(); ++i)
    if (line[i].front() != '-' && line[i].find('=') == std::string::npos) return find_program(line[i]);
  return std::nullopt;
}

/// Whether the kernel will run the program in secure mode, in which the loader ignores preloads: whether the set-user-ID and
/// set-group-ID bits change an id of the calling user.
bool gains_rights(const std::string& path) {
  struct stat status;
  struct statvfs mounted;
  if (stat(path.c_str(), &status) != 0) return false;
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return false;
  if (statvfs(path.c_str(), &mounted) == 0 && (mounted.f_flag & ST_NOSUID) != 0) return false;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) return true;
  // A set-group-ID bit without the group's execute bit gives no rights: it means mandatory locking.
  if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 && status.st_gid != getgid()) return true;
  return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

constexpr std::string_view keeps_its_locks = "so it keeps the C library's locks";

void examine(const std::string& program, const std::string& subject, const elf_target& library, int depth,
             std::vector<std::string>& found);

/// Examines the programs by which the kernel or the shell runs a script.
void examine_interpreters(const std::string& script, const elf_target& library, int depth,
                          std::vector<std::string>& found) {
  constexpr int deepest = 5;  // the kernel's limit for scripts that are interpreters of scripts
  if (depth >= deepest) return;
  const auto line = script_line(script);
  // execvp() lets the shell execute a file that is neither ELF nor a script with an interpreter.
  const std::string interpreter = line.empty() ? "/bin/sh" : line.front();
  const auto go_on = [&](const std::string& next) {
    if (is_executable(next))
      examine(next, fmt::format("{} is run by {}, which", script, next), library, depth + 1, found);
  };
  go_on(interpreter);
  if (file_name(interpreter) == "env")
    if (const auto next = program_of_env(line)) go_on(*next);
}

/// The sanitizer's runtime that must be loaded first and that LD_PRELOAD does not name. Null: there is none.
const std::string* missing_runtime(const elf_file& elf) {
  // Only these sanitizers require that their runtime is the first library. The others (undefined behaviour, leaks) do
  // not.
  const auto minds = [](std::string_view name) {
    return is_sanitizer_runtime(name) &&
           (name.find("asan") != std::string_view::npos || name.find("tsan") != std::string_view::npos);
  };
  const auto runtime = std::find_if(elf.needed.begin(), elf.needed.end(), minds);
  if (runtime == elf.needed.end()) return nullptr;
  const char* preloaded = std::getenv("LD_PRELOAD");
  const bool is_preloaded =
      preloaded != nullptr && std::string_view(preloaded).find(*runtime) != std::string_view::npos;
  return is_preloaded ? nullptr : &*runtime;
}

void examine_elf(const elf_file& elf, const std::string& subject, const elf_target& library,
                 std::vector<std::string>& found) {
  if (elf.target != library) {
    const bool narrow = elf.target.word_size == ELFCLASS32 && library.word_size == ELFCLASS64;
    found.push_back(fmt::format("{} is {}: Usher's library cannot be loaded into it, {}", subject,
                                narrow ? "a 32-bit program" : "a program for another processor", keeps_its_locks));
    return;
  }
  if (!elf.is_native) return;
  if (elf.interpreter.empty()) {
    // The loader, started as a program, has no interpreter, like a static program. But it loads preloads, and it has a
    // soname, which a static program lacks.
    if (elf.soname.empty())
      found.push_back(fmt::format("{} is statically linked: Usher's library cannot be loaded into it, {}", subject,
                                  keeps_its_locks));
    return;
  }
  if (file_name(elf.interpreter).starts_with("ld-musl-"))
    found.push_back(
        fmt::format("{} is linked with the C library musl: Usher's library is for glibc, and the program may not "
                    "start with it",
                    subject));
  if (const std::string* runtime = missing_runtime(elf))
    found.push_back(
        fmt::format("{} is built with a sanitizer, whose runtime must be loaded first: set LD_PRELOAD={} for usher run",
                    subject, *runtime));
}

void examine(const std::string& program, const std::string& subject, const elf_target& library, int depth,
             std::vector<std::string>& found) {
  const auto elf = read_elf(program);
  const bool readable = access(program.c_str(), R_OK) == 0;
  // The set-ID bits have no effect on scripts. A file that cannot be read may be a program.
  if ((elf || !readable) && gains_rights(program))
    found.push_back(
        fmt::format("{} runs with another user's, group's or extra rights (set-user-ID and the like): the "
                    "loader ignores preloads, {}",
                    subject, keeps_its_locks));
  if (!readable) return;
  if (elf)
    examine_elf(*elf, subject, library, found);
  else
    examine_interpreters(program, library, depth, found);
}

}  // namespace

std::optional<std::string> find_program(const std::string& command) {
  return look_up(command, is_executable);
}

std::optional<std::string> find_file(const std::string& command) {
  return look_up(command, [](const std::string& path) { return access(path.c_str(), F_OK) == 0; });
}

std::vector<std::string> hindrances(const std::string& program, const elf_target& library) {
  return hindrances(program, program, library);
}

std::vector<std::string> hindrances(const std::string& program, const std::string& called, const elf_target& library) {
  std::vector<std::string> found;
  examine(program, called, library, 0, found);
  return found;
}

std::optional<std::string> missing_interpreter(const std::string& program) {
  std::string interpreter;
  if (const auto elf = read_elf(program))
    interpreter = elf->interpreter;
  else if (const auto line = script_line(program); !line.empty())
    interpreter = line.front();
  if (interpreter.empty() || access(interpreter.c_str(), F_OK) == 0) return std::nullopt;
  return interpreter;
}

}  // namespace usher::support
