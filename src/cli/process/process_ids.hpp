// The processes and threads of a record as this process's /proc has them.
//
// A record has the ids that its processes see. In another PID namespace these are not this process's, and the program may
// forge them: so an id is only a hint. A process is taken for one of the record's if its id in its own namespace is the one
// sought and it maps the record's file; nothing is done with it but to read its entry in /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace usher::cli {

/// A process that /proc shows, at one moment.
struct seen_process {
  pid_t pid = 0;              ///< as this process sees it
  std::uint64_t started = 0;  ///< clock ticks since boot: another process with this id started at another time
  char state = '?';           ///< 'Z': only its first thread has ended if it has several
  long threads = 1;

  bool has_ended() const { return (state == 'Z' && threads <= 1) || state == 'X'; }
  bool has_first_ended() const { return state == 'Z' || state == 'X'; }
};

/// What /proc shows of the process now; nullopt: nothing.
std::optional<seen_process> read_process(pid_t pid);

/// The id of a process or thread in its own PID namespace, by the file `status` in this folder of /proc; 0: not known.
/// `is_inside`: this namespace is another than that of /proc.
struct own_id {
  std::uint32_t id = 0;
  bool is_inside = false;
};
own_id read_own_id(const char* folder);

/// Whether /proc may leave processes out, as it does for other users' with the option hidepid.
bool are_processes_hidden();

/// Finds processes by the ids that they see themselves.
class process_finder {
 public:
  /// `record`: the descriptor of the file that they map; -1: it is not known.
  explicit process_finder(int record);

  /// Forgets the processes that were found by searching all of /proc.
  void begin_sample() { is_searched_ = false; }
  struct found {
    seen_process process;
    bool is_inside = false;  ///< another namespace than that of /proc
  };
  /// The process with this id in its own namespace. Of several, which are in different namespaces, one that is not taken, if
  /// there is one.
  template <class F>
  std::optional<found> find(std::uint32_t own, F is_taken) {
    std::optional<found> any = find_here(own);
    if (any && !is_taken(any->process)) return any;
    for (const found& other : find_inside(own)) {
      if (!is_taken(other.process)) return other;
      if (!any) any = other;
    }
    return any;
  }

 private:
  struct candidate {
    std::uint32_t own;
    pid_t pid;
  };
  std::optional<found> find_here(std::uint32_t own) const;
  std::vector<found> find_inside(std::uint32_t own);
  void search();
  std::optional<bool> maps_record(pid_t pid) const;
  std::optional<found> confirmed(pid_t pid, bool is_inside, bool is_alone) const;

  std::uint64_t device_ = 0, inode_ = 0;
  bool is_known_ = false, is_searched_ = false;
  std::vector<candidate> inside_;  ///< processes in other namespaces than that of /proc
};

/// The threads of a process, by the ids that they see themselves.
class thread_list {
 public:
  /// What lives now. `is_inside`: of a process in another namespace. False if they cannot be seen.
  bool read(pid_t pid, bool is_inside);
  /// The thread's id as this process sees it; 0: no such thread lives.
  pid_t seen(std::uint32_t own) const;

 private:
  std::unordered_map<pid_t, std::uint32_t>
      own_;  ///< by the id that this process sees; kept from one reading to the next
  std::unordered_map<std::uint32_t, pid_t> seen_;  ///< of the last reading
};

}  // namespace usher::cli
