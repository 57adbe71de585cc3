// Finds the processes and threads of a record in this process's /proc.
//
// A record contains the ids that its processes see themselves. In another PID namespace these differ from the ids that
// this process sees, and the program may forge them, so an id in a record is only a hint. A process counts as one of
// the record's if its id in its own namespace is the requested one and it maps the record's file. A wrong process comes
// to no harm: only its entry in /proc is read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace usher::support {

/// A process that /proc shows, at one moment.
struct seen_process {
  pid_t pid = 0;              ///< as this process sees it
  std::uint64_t started = 0;  ///< clock ticks since boot: another process with this id started at another time
  char state = '?';           ///< 'Z': only its first thread has ended if it has several
  long threads = 1;
  std::string command;  ///< its name

  bool has_ended() const { return (state == 'Z' && threads <= 1) || state == 'X'; }
  bool has_first_ended() const { return state == 'Z' || state == 'X'; }
};

/// Calls f(id) for each entry of a folder whose name is a number. Returns false if there is no such folder.
bool each_number(const char* folder, const std::function<void(pid_t)>& f);

/// Reads the process's entry in /proc; nullopt: there is none.
std::optional<seen_process> read_process(pid_t pid);

/// Returns the processes and their descendants, at most some dozens. Of a process, only the first dozens of threads are
/// asked for children.
std::vector<pid_t> family_of(std::vector<pid_t> all);

/// The id of a process or thread in its own PID namespace, from the file `status` in its folder of /proc; 0: unknown.
/// `is_inside`: that namespace is not the one of /proc.
struct own_id {
  std::uint32_t id = 0;
  bool is_inside = false;
};
own_id read_own_id(const char* folder);
/// Returns the id, given the content of the file `status`.
own_id own_id_in(const std::string& status);

/// Whether /proc may leave processes out, as it does with other users' processes under the option hidepid.
bool are_processes_hidden();
/// Whether the kernel has a process of this id, even where /proc does not show it.
bool has_process(pid_t pid);

/// Finds processes by the ids that they have in their own namespaces.
class process_finder {
 public:
  /// `record`: the descriptor of the file that the record's processes map; -1: not known.
  explicit process_finder(int record);

  /// Drops the list of processes that was read from all of /proc, so that the next search reads it again.
  void begin_sample() { is_searched_ = false; }
  struct found {
    seen_process process;
    bool is_inside = false;  ///< its PID namespace is not the one of /proc
  };
  struct answer {
    std::optional<found> process;
    bool is_possible = false;  ///< no process was found, but a process whose maps cannot be read may be it
  };
  /// Finds the process with the id `own` in its own namespace. If several namespaces have such a process, prefers one
  /// that is not taken. If the maps of processes cannot be read, finds one with the name `command`. `mapped_at`: the
  /// address at which the process maps the file; 0: any.
  template <class F>
  answer find(std::uint32_t own, std::string_view command, F is_taken, std::uint64_t mapped_at = 0) {
    answer a;
    mapped_at_ = mapped_at;
    fit best = add(a, fit::none, find_here(own), command, is_taken);
    if (best == fit::sure_and_free) return a;
    for (const candidate& c : find_inside(own)) best = add(a, best, c, command, is_taken);
    return a;
  }
  /// Whether the process maps the record's file. Nullopt if its maps may not be read, or if it has none because its
  /// first thread has ended.
  std::optional<bool> maps_record(const seen_process& p) const { return maps_record(std::to_string(p.pid)); }

 private:
  struct candidate {
    std::uint32_t own = 0;
    pid_t pid = 0;
    bool is_inside = false;
  };
  enum class fit { none, by_name, sure, sure_and_free };
  /// Puts the candidate into the answer if it fits better than `best`. A process that has ended and was not waited for
  /// (a zombie) never fits.
  template <class F>
  fit add(answer& a, fit best, const candidate& c, std::string_view command, F is_taken) const {
    const auto process = c.pid != 0 ? read_process(c.pid) : std::nullopt;
    if (!process || process->has_ended()) return best;
    const std::optional<bool> maps = maps_record(*process);
    a.is_possible = a.is_possible || !maps;
    fit its = fit::none;
    if (maps)
      its = !*maps ? fit::none : is_taken(*process) ? fit::sure : fit::sure_and_free;
    else if (process->command == command && !is_taken(*process))
      its = fit::by_name;
    if (its <= best) return best;
    a.process = found{*process, c.is_inside};
    return its;
  }
  candidate find_here(std::uint32_t own) const;
  std::vector<candidate> find_inside(std::uint32_t own);
  void search();
  std::optional<bool> maps_record(const std::string& process) const;

  std::uint64_t device_ = 0, inode_ = 0;
  std::uint64_t mapped_at_ = 0;  ///< of the process that find() searches for
  bool is_known_ = false, is_searched_ = false;
  std::vector<candidate> inside_;  ///< processes in other namespaces than that of /proc
};

/// The threads of a process, by the ids that they have in its namespace.
class thread_list {
 public:
  /// Reads the living threads. `is_inside`: the process is in another namespace. Returns false if its threads are not
  /// visible.
  bool read(pid_t pid, bool is_inside);
  /// Returns the id by which this process sees the thread with the id `own`; 0 if no such thread lives.
  pid_t seen(std::uint32_t own) const;

 private:
  std::unordered_map<pid_t, std::uint32_t>
      own_;  ///< by the id that this process sees; kept from one reading to the next
  std::unordered_map<std::uint32_t, pid_t> seen_;  ///< of the last reading
};

}  // namespace usher::support
