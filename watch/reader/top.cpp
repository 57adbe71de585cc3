// usher top: what the threads of a running process wait for, without preparation: nothing is loaded into it, no thread is
// stopped.
//
// This file has the options, the choice of the process, and the order of looks; watch/reader/look looks, and
// watch/reader/print/top_*.hpp write.
#include "watch/reader/top.hpp"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/process/files.hpp"
#include "support/process/interruption.hpp"
#include "support/process/process_ids.hpp"
#include "support/process/running_process.hpp"
#include "support/process/stat_line.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "watch/reader/attach/process_place.hpp"
#include "watch/reader/attach/running.hpp"
#include "watch/reader/attach/standing_deadlocks.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/look/look_assembly.hpp"
#include "watch/reader/look/look_names.hpp"
#include "watch/reader/look/looker.hpp"
#include "watch/reader/print/top_json.hpp"
#include "watch/reader/print/top_text.hpp"

namespace usher::reader {
namespace {

using namespace std::chrono_literals;
using steady_clock = std::chrono::steady_clock;

constexpr int cannot_be_looked_at = 1;

struct top_options {
  std::string target;
  bool all_mine = false, once = false;
  unsigned batch = 0;
  double period = 1, duration = 0;
  std::size_t limit = 20;
  std::string json;
};

bool is_interrupted() {
  return support::interrupted() != 0;
}

/// Waits. False: interrupted.
bool wait_for(double seconds) {
  const auto until =
      steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
  while (!is_interrupted() && steady_clock::now() < until)
    std::this_thread::sleep_for(std::min<steady_clock::duration>(20ms, until - steady_clock::now()));
  return !is_interrupted();
}

// ---- which process -------------------------------------------------------------------------------------------------------

/// The processes of this user.
std::vector<support::seen_process> own_processes() {
  std::vector<support::seen_process> all;
  support::each_number("/proc", [&](pid_t pid) {
    struct ::stat folder {};
    if (pid == getpid() || ::stat(fmt::format("/proc/{}", pid).c_str(), &folder) != 0 || folder.st_uid != geteuid())
      return;
    if (const auto p = support::read_process(pid); p && !p->has_ended()) all.push_back(*p);
  });
  return all;
}

/// Whether a process has this name: the kernel's, which has 15 characters at most, or that of its first word.
bool has_name(const support::seen_process& p, const std::string& name) {
  constexpr std::size_t longest = 15;
  if (p.command == name || (name.size() > longest && p.command == name.substr(0, longest))) return true;
  const std::string first = support::content_of(AT_FDCWD, fmt::format("/proc/{}/cmdline", p.pid), 4096);
  return support::file_name(first.substr(0, first.find('\0'))) == name;
}

/// The process that the user means; nullopt after a message.
std::optional<pid_t> chosen(const std::string& target) {
  if (target.find_first_not_of("0123456789") == std::string::npos) {
    const long pid = std::strtol(target.c_str(), nullptr, 10);
    if (pid > 0 && pid <= std::numeric_limits<pid_t>::max()) return static_cast<pid_t>(pid);
  }
  std::vector<support::seen_process> found;
  for (const support::seen_process& p : own_processes())
    if (has_name(p, target)) found.push_back(p);
  if (found.size() == 1) return found.front().pid;
  if (found.empty()) {
    support::report_error("top: no process of this user has the name '{}'", target);
    return std::nullopt;
  }
  support::report_error("top: {} processes have the name '{}': usher top PID", found.size(), target);
  for (const support::seen_process& p : found) {
    std::string words;
    for (const std::string& word : command_of(p.pid)) words += (words.empty() ? "" : " ") + word;
    fmt::print("{:>8}  {}, {}\n", p.pid, with_noun(static_cast<std::uint64_t>(p.threads), "thread"),
               shortened(support::printable_line(words), 60));
  }
  return std::nullopt;
}

/// The reason why there is nothing to look at; empty: there may be.
std::string no_process(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return fmt::format("there is no process {}", pid);
  if (access(fmt::format("/proc/{}", pid).c_str(), F_OK) != 0)
    return fmt::format("/proc does not show process {} (hidepid): try as root, or with the group of its option gid=",
                       pid);
  const std::string group = support::status_field(std::to_string(pid), "Tgid");
  if (!group.empty() && group != std::to_string(pid))
    return fmt::format("{} is a thread of process {}: usher top {}", pid, group, group);
  const auto p = support::read_process(pid);
  if (p && p->has_ended()) return fmt::format("process {} has ended already", pid);
  return "";
}

/// Why the kernel does not show the calls of a process's threads, and what to do; empty: it shows them.
std::string missing_right(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/task/{}/syscall", pid, pid);
  const support::owned_descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  const int error = !file.is_open() ? errno : read(file.get(), &byte, 1) < 0 ? errno : 0;
  if (error != EPERM && error != EACCES) return "";
  const std::string scope = support::content_of(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", 16);
  struct ::stat folder {};
  const bool is_own = ::stat(fmt::format("/proc/{}", pid).c_str(), &folder) == 0 && folder.st_uid == geteuid();
  if (is_own && geteuid() != 0 && !scope.empty() && scope[0] != '0')
    return fmt::format(
        "process {} may not be looked into: kernel.yama.ptrace_scope is {}: try as root, or first sysctl "
        "kernel.yama.ptrace_scope=0",
        pid, scope.substr(0, 1));
  if (geteuid() == 0)
    return fmt::format(
        "process {} may not be looked into: this root has no CAP_SYS_PTRACE (in a container: --cap-add SYS_PTRACE)",
        pid);
  return support::refusal(pid);
}

// ---- what is known without looking ---------------------------------------------------------------------------------------

std::string date_now() {
  const time_t now = time(nullptr);
  struct tm parts {};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string machine_text() {
  utsname system{};
  uname(&system);
  return fmt::format("{} {}, {}", system.sysname, system.release,
                     with_noun(std::thread::hardware_concurrency(), "CPU"));
}

c_library libc_in(const std::vector<std::string>& files, std::string& text) {
  for (const std::string& path : files) {
    const std::string_view name = support::file_name(path);
    if (name.starts_with("ld-musl") || name.starts_with("libc.musl") || name == "libc.so")
      return text = "musl", c_library::musl;
    if (!name.starts_with("libc.so.6") && !name.starts_with("libc-2.")) continue;
    // The same file as this command's has its version.
    const std::string own = support::content_of(AT_FDCWD, "/proc/self/maps");
    text = own.find(" " + path + "\n") != std::string::npos ? fmt::format("glibc {}", gnu_get_libc_version()) : "glibc";
    return c_library::glibc;
  }
  return c_library::unknown;
}

/// The name of a process's PID namespace; empty: not shown.
std::string namespace_of(pid_t pid) {
  char text[64];
  const ssize_t n = readlink(fmt::format("/proc/{}/ns/pid", pid).c_str(), text, sizeof text);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "";
}

shown_id shown_id_in(const std::string& folder, pid_t id) {
  const support::own_id own = support::read_own_id(folder.c_str());
  return {id, own.is_inside ? std::int64_t{own.id} : 0};
}

outside_thread outside_thread_of(pid_t pid, pid_t tid) {
  const std::string folder = fmt::format("/proc/{}/task/{}", pid, tid);
  const support::stat_line line = support::stat_line::of_thread(pid, tid);
  return {shown_id_in(folder, tid), shown_id_in(fmt::format("/proc/{}", pid), pid), std::string(line.name()),
          line.state()};
}

/// A thread of another process by the id that it has in the same PID namespace, which is this command's.
std::optional<outside_thread> outside_of_here(pid_t pid, std::uint32_t tid) {
  if (tid > static_cast<std::uint32_t>(std::numeric_limits<pid_t>::max())) return std::nullopt;
  const std::string group = support::status_field(std::to_string(tid), "Tgid");
  const long other = std::strtol(group.c_str(), nullptr, 10);
  if (other <= 0 || other == pid) return std::nullopt;
  const std::string its = namespace_of(static_cast<pid_t>(other));
  if (its.empty() || its != namespace_of(pid)) return std::nullopt;
  return outside_thread_of(static_cast<pid_t>(other), static_cast<pid_t>(tid));
}

/// The same in another PID namespace, where no file has the name of that id: the threads of its processes are searched.
/// A container that makes many of them gets no holder named.
std::optional<outside_thread> outside_of_inside(pid_t pid, std::uint32_t tid) {
  constexpr std::size_t most_threads = 16384;  // chosen
  const std::string ours = namespace_of(pid);
  if (ours.empty()) return std::nullopt;
  std::optional<outside_thread> found;
  std::size_t seen = 0;
  support::each_number("/proc", [&](pid_t other) {
    if (found || other == pid || seen > most_threads || namespace_of(other) != ours) return;
    support::each_number(fmt::format("/proc/{}/task", other).c_str(), [&](pid_t its) {
      if (found || ++seen > most_threads) return;
      const outside_thread t = outside_thread_of(other, its);
      if (t.tid.own == std::int64_t{tid}) found = t;
    });
  });
  return found;
}

/// A page of a file that a process maps.
struct mapped_page {
  std::string device;
  std::uint64_t file = 0, offset = 0;
  bool operator==(const mapped_page&) const = default;
};

/// Calls f(begin, end, page) for each mapping of a file, with the page of its begin, until f returns false.
template <class F>
void each_mapped_file(pid_t pid, F&& f) {
  const std::string maps = support::content_of(AT_FDCWD, fmt::format("/proc/{}/maps", pid), std::size_t{16} << 20);
  for (std::size_t at = 0; at < maps.size();) {
    const std::size_t end_of_line = std::min(maps.find('\n', at), maps.size());
    const std::string line = maps.substr(at, std::min(end_of_line - at, std::size_t{256}));
    at = end_of_line + 1;
    unsigned long begin = 0, end = 0, offset = 0, file = 0;
    char device[24] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %*4s %lx %23s %lu", &begin, &end, &offset, device, &file) != 5) continue;
    if (file != 0 && !f(begin, end, mapped_page{device, file, offset})) return;
  }
}

/// Whether another process maps the page at an address of the first one. An id of a process that has ended, or of another
/// container, may be that of any thread: only one that has the lock's memory can hold it.
bool maps_page_of(pid_t pid, std::uint64_t address, pid_t other) {
  std::optional<mapped_page> page;
  each_mapped_file(pid, [&](std::uint64_t begin, std::uint64_t end, mapped_page its) {
    if (address < begin || address >= end) return true;
    its.offset += address - begin;
    page = its;
    return false;
  });
  bool is_mapped = false;
  if (page)
    each_mapped_file(other, [&](std::uint64_t begin, std::uint64_t end, const mapped_page& its) {
      is_mapped = its.device == page->device && its.file == page->file && page->offset >= its.offset &&
                  page->offset - its.offset < end - begin;
      return !is_mapped;
    });
  return is_mapped;
}

std::optional<outside_thread> outside_of(pid_t pid, bool is_inside, std::uint32_t tid, std::uint64_t address) {
  if (tid == 0) return std::nullopt;
  auto t = is_inside ? outside_of_inside(pid, tid) : outside_of_here(pid, tid);
  if (t && !maps_page_of(pid, address, static_cast<pid_t>(t->pid.seen))) t.reset();
  return t;
}

/// What went wrong with a reader of the process's memory; empty: nothing.
std::string reason_of(look_trouble t) {
  switch (t) {  // clang-format off
    case look_trouble::none: break;
    case look_trouble::blocked: return "the process's memory blocked its reader";
    case look_trouble::busy: return "a read of the process's memory did not come to an end";
    case look_trouble::starved: return "the reader of the process's memory got no CPU";
    case look_trouble::ended: return "the reader of the process's memory ended early";
  }  // clang-format on
  return "";
}

/// One process that is looked at.
class looked_process {
 public:
  looked_process(pid_t pid, bool opens_files)
      : pid_(pid), watch_(pid), names_(place_of(pid), opens_files), looker_(pid, look_options{}) {
    head_.usher = USHER_VERSION;
    for (const std::string& word : command_of(pid)) head_.command.push_back(support::printable(word, 4096));
    head_.process = support::printable_line(support::name_of_process(pid));
    const support::own_id own = support::read_own_id(fmt::format("/proc/{}", pid).c_str());
    head_.pid = {pid, own.is_inside ? std::int64_t{own.id} : 0};
    head_.date = date_now();
    head_.machine = machine_text();
  }

  /// Nullopt: the process has ended, or cannot be looked at now, or this command was interrupted.
  std::optional<look_report> look() {
    const auto s = looker_.look(is_interrupted);
    if (!s || s->has_ended || s->threads.empty()) return std::nullopt;
    if (!is_known_) know(*s);
    look_report r = head_;
    look_subject subject;
    subject.pid = pid_;
    subject.libc = libc_;
    subject.is_under_usher = has_usher_locks_;
    subject.outside = [this, is_inside = s->is_inside](std::uint32_t own, std::uint64_t address) {
      return outside_of(pid_, is_inside, own, address);
    };
    assemble(*s, names_, subject, r);
    add_remarks(*s, r);
    return r;
  }

  /// Says why there is no report, and returns the exit status.
  int say_why_not() const {
    if (is_interrupted()) {
      support::report_error("top: interrupted");
      return 128 + support::interrupted();
    }
    const std::string why = reason_of(looker_.trouble());
    if (watch_.has_ended())
      support::report_error("top: process {} has ended while it was looked at", pid_);
    else
      support::report_error("top: process {} lives, but could not be looked at{}{}: try again", pid_,
                            why.empty() ? "" : ": ", why);
    return cannot_be_looked_at;
  }

 private:
  void know(const sighting& s) {
    is_known_ = true;
    libc_ = libc_in(s.files, head_.libc);
    head_.looked = "from outside";
    if (std::none_of(s.files.begin(), s.files.end(), [](const std::string& f) { return support::is_library_file(f); }))
      return;
    head_.looked = "recorded";
    standing_deadlocks locks(pid_);
    if (locks.finish(is_interrupted)) head_.lock = support::printable_line(locks.lock());
    has_usher_locks_ = head_.lock != "pthread";
  }
  void add_remarks(const sighting& s, look_report& r) const {
    if (s.shows_no_calls)
      r.remarks.emplace_back("the kernel does not show the system calls of these threads: only their states are known");
    if (const std::string why = reason_of(looker_.trouble()); !why.empty())
      r.remarks.push_back(why + ", so it was not read any more: locks and stacks are not known");
    else if (s.shows_no_memory)
      r.remarks.emplace_back("the process's memory may not be read: locks and stacks are not known");
    if (s.stacks_left_out != 0)
      r.remarks.push_back(fmt::format("the stacks of {} were not read", with_noun(s.stacks_left_out, "thread")));
    for (const std::string& one : names_.remarks()) r.remarks.push_back(one);
  }

  pid_t pid_;
  process_watch watch_;
  look_names names_;
  looker looker_;
  look_report head_;
  c_library libc_ = c_library::unknown;
  bool is_known_ = false, has_usher_locks_ = false;
};

// ---- what is shown -------------------------------------------------------------------------------------------------------

bool write_json(support::output_file& file, const look_report& r) {
  if (!file.wanted()) return true;
  const auto lenient = nlohmann::ordered_json::error_handler_t::replace;
  return file.write(as_json(r).dump(2, ' ', false, lenient) + "\n");
}

/// A page after a second; if it must be seen whether a lock stays free, after ten.
int show_once(const top_options& o, pid_t pid, support::output_file& json) {
  constexpr double enough = 1, until_lost = lost_after + 0.5;
  const auto begin = steady_clock::now();
  looked_process process(pid, true);
  auto r = process.look();
  if (!r) return process.say_why_not();
  const double duration = o.duration > 0 ? o.duration : enough;
  const auto passed = [&] { return std::chrono::duration<double>(steady_clock::now() - begin).count(); };
  bool goes_on = wait_for(duration - passed());
  if (auto later = goes_on ? process.look() : std::nullopt) r = std::move(later);
  if (o.duration <= 0 && goes_on && has_suspect(*r)) {
    support::report_error("top: threads sleep on a lock that is free: looking on for {:.0f} s", until_lost - passed());
    goes_on = wait_for(until_lost - passed());
    if (auto later = goes_on ? process.look() : std::nullopt) r = std::move(later);
  }
  const bool is_written = write_json(json, *r);
  fmt::print("{}", as_page(*r));
  return is_written ? 0 : int{support::cannot_start};
}

int show_tables(const top_options& o, pid_t pid, support::output_file& json) {
  looked_process process(pid, true);
  auto r = process.look();
  if (!r) return process.say_why_not();
  const auto begin = steady_clock::now();
  const auto is_over = [&] {
    return o.duration > 0 && std::chrono::duration<double>(steady_clock::now() - begin).count() >= o.duration;
  };
  for (unsigned i = 0; i < o.batch && !is_over(); i++) {
    if (!wait_for(o.period)) break;
    auto now = process.look();
    if (!now) break;
    r = std::move(now);
    fmt::print("{}{}", i == 0 ? "" : "\n", as_table(*r, o.limit));
    std::fflush(stdout);
  }
  return write_json(json, *r) ? 0 : int{support::cannot_start};
}

/// One line for each process of this user in which a thread waits for an object.
int show_all(const top_options& o) {
  constexpr std::size_t most = 512;
  std::vector<std::vector<std::string>> cells;
  std::size_t refused = 0, looked = 0, left_out = 0;
  for (const support::seen_process& p : own_processes()) {
    if (is_interrupted()) break;
    if (looked >= most) {
      left_out++;
      continue;
    }
    if (!missing_right(p.pid).empty()) {
      refused++;
      continue;
    }
    looked++;
    looked_process process(p.pid, false);
    const auto r = process.look();
    if (!r) continue;
    const auto is_object = [](const looked_wait& w) {
      return w.what != awaited::call && w.what != awaited::unknown && !w.waiters.empty();
    };
    std::size_t waiting = 0;
    for (const looked_wait& w : r->waits) waiting += is_object(w) ? w.waiters.size() : 0;
    if (waiting == 0) continue;
    const auto first = std::find_if(r->waits.begin(), r->waits.end(), is_object);
    const std::string says =
        !r->findings.empty() ? r->findings.front().text
                             : fmt::format("{} of {} at {}", first->waiters.size(), name_of(first->what), first->name);
    cells.push_back({std::to_string(p.pid), shortened(r->process, 16), std::to_string(p.threads),
                     std::to_string(waiting), shortened(support::printable_line(says), 60)});
  }
  if (cells.empty())
    fmt::print("no thread of the {} that were looked at waits for a lock\n", with_noun(looked, "process of this user"));
  else
    fmt::print("{}", support::format_table(
                         {{"pid", true}, {"process"}, {"threads", true}, {"waiting", true}, {"first"}}, cells, 0));
  if (refused != 0) fmt::print("{} more may not be looked into: usher top PID says why\n", refused);
  if (left_out != 0) fmt::print("{} more were not looked at\n", left_out);
  (void)o;
  return 0;
}

std::string no_seconds(const std::string& text) {
  char* rest = nullptr;
  const double v = std::strtod(text.c_str(), &rest);
  return rest != text.c_str() && *rest == '\0' && v > 0 && v <= 1e9
             ? ""
             : fmt::format("'{}' is no number of seconds above 0", text);
}

int carry_out(const top_options& o) {
  if (o.all_mine != o.target.empty()) {
    support::report_error(
        "top: which process? usher top PID, usher top NAME, or usher top --all-mine (see usher top --help)");
    return support::bad_usage;
  }
  if (o.once && o.batch != 0) {
    support::report_error("top: either --once or --batch, not both");
    return support::bad_usage;
  }
  support::watch_for_interruption();
  if (o.all_mine) return show_all(o);
  support::output_file json;
  if (!json.open(o.json)) return support::cannot_start;
  const auto pid = chosen(o.target);
  if (!pid) return cannot_be_looked_at;
  for (const std::string& reason : {no_process(*pid), missing_right(*pid)})
    if (!reason.empty()) {
      support::report_error("top: {}", reason);
      return cannot_be_looked_at;
    }
  return o.batch != 0 ? show_tables(o, *pid, json) : show_once(o, *pid, json);
}

constexpr const char* top_notes =
    R"text(Shows what the threads of a running process wait for: which mutex, condition variable,
semaphore, read-write lock, barrier or system call, who holds it, and the stacks of waiters and
holders. The process needs no preparation, none of its threads is stopped, and nothing in it is
changed: its threads are looked at some twenty times a second in /proc, and the words of its
locks are copied. Times are lower bounds: a wait is known from the first look that saw it.

NAME is that of a process of this user; if several have it they are listed.

Examples:
  usher top 1234                     a page about a process that hangs, for a report
  usher top --batch 10 --period 2 server
                                     ten tables, one each 2 s
  usher top --json hang.json 1234    all data, as docs/schema/top.json describes them
  usher top --all-mine               the processes of this user in which threads wait

Exit status: 0; 1 if the process may not be looked into or has ended; 2 for bad usage; 125 if a
file cannot be written.)text";

}  // namespace

support::subcommand top_command(CLI::App& app) {
  auto* sub = app.add_subcommand("top", support::top_summary);
  auto o = std::make_shared<top_options>();
  sub->add_option("target", o->target, "The id or the name of a process")->type_name("PID|NAME");
  sub->add_flag("--all-mine", o->all_mine, "A line for each process of this user in which threads wait");
  sub->add_flag("--once", o->once, "One page of at most 60 lines (default)");
  sub->add_option("--batch", o->batch, "So many tables, and then the end")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000000000u));
  sub->add_option("--period", o->period, "Seconds from one table to the next (default: 1)")
      ->type_name("S")
      ->check(no_seconds);
  sub->add_option("--duration", o->duration,
                  "Look for so many seconds (default of the page: 1, or 10.5 if a free lock has sleepers)")
      ->type_name("S")
      ->check(no_seconds);
  sub->add_option("--limit", o->limit, "Rows of a table (default: 20)")->type_name("N")->check(CLI::Range(1, 100000));
  sub->add_option("--json", o->json, "Write all data to this file")->type_name("FILE");
  sub->formatter(std::make_shared<support::help>("usher top [OPTIONS] PID|NAME\n       usher top --all-mine"));
  sub->footer(top_notes);
  return {sub, [o](char**) { return carry_out(*o); }};
}

}  // namespace usher::reader
