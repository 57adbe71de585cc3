#include "tool/trial/candidates.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "support/locks.hpp"
#include "support/text/messages.hpp"
#include "support/text/words.hpp"
#include "tool/trial/trial_results.hpp"

namespace usher::tool::trial {
namespace {

/// The default candidates. Every trial of mutexes has the first two, the default lock and one whose waiters sleep at
/// once. The others follow in this order if they suit the program (plan.cpp): a lock that keeps few threads active, a
/// FIFO lock, and a lock without an order.
constexpr const char* in_this_order[] = {"steady", "loiter-park", "mcscr", "twa", "ttas"};
/// The default candidates among the read-write locks.
constexpr const char* read_write_in_this_order[] = {"phase-fair", "bravo"};

const char* mutex_name(const run_locks& l) {
  return l.mutex == nullptr ? c_library : l.mutex->name;
}
std::string name_of(const run_locks& l) {
  return trial::name_of(mutex_name(l), l.rwlock);
}

std::optional<run_locks> mutex_of(const std::string& name) {
  if (name == c_library) return run_locks{};
  const lock_table* const lock = find_lock(name);
  if (lock == nullptr) return std::nullopt;
  return lock == find_lock(c_library) ? run_locks{} : run_locks{lock};
}

/// The locks that LOCK, RWLOCK or LOCK+RWLOCK names. nullopt: none of the names is known, or one of two is not.
std::optional<run_locks> locks_of(const std::string& text) {
  const std::size_t plus = text.find('+');
  const std::string last = plus == std::string::npos ? text : text.substr(plus + 1);
  std::optional<run_locks> found = mutex_of(text.substr(0, plus));
  if (plus == std::string::npos && found) return found;
  if (plus == std::string::npos) found = run_locks{};
  if (!found || (last != c_library && !support::is_read_write_lock(last))) return std::nullopt;
  found->rwlock = last == c_library ? "" : last;
  return found;
}

void report_unknown(const std::string& text) {
  const std::size_t plus = text.find('+');
  const std::string lock = text.substr(0, plus);
  if (plus != std::string::npos && mutex_of(lock)) {
    const std::string rwlock = text.substr(plus + 1);
    support::report_error("unknown read-write lock '{}'{} (usher list shows all)", rwlock,
                          did_you_mean(support::nearest_read_write_lock(rwlock)));
    return;
  }
  const std::string_view near = nearest_lock(lock);
  const bool may_be_either = plus == std::string::npos && near.empty();
  support::report_error("unknown lock '{}'{} (usher list shows all)", lock,
                        did_you_mean(may_be_either ? support::nearest_read_write_lock(lock) : near));
}

bool is_named(const std::vector<choice>& chosen, const std::string& name) {
  return std::any_of(chosen.begin(), chosen.end(), [&](const choice& c) { return c.name == name; });
}

/// Adds LOCK or NAME=LOCK to `chosen`. Returns false after an error message.
bool add_choice(const std::string& text, std::vector<choice>& chosen) {
  const std::size_t sign = text.find('=');
  const bool named = sign != std::string::npos;
  const std::string name = text.substr(0, sign), wanted = named ? text.substr(sign + 1) : text;
  if (name.empty() || wanted.empty()) {
    support::report_error("--locks: '{}' has no {} the '='; NAME=LOCK shows LOCK as NAME", text,
                          name.empty() ? "name before" : "lock after");
    return false;
  }
  const std::optional<run_locks> locks = locks_of(wanted);
  if (!locks) {
    report_unknown(wanted);
    return false;
  }
  if (locks->mutex != nullptr && !locks->mutex->traits->excludes) {
    support::report_error("{} excludes nobody: it is for measurements only, and no program may run under it", wanted);
    return false;
  }
  if (const auto namesake = locks_of(name); namesake && name_of(*namesake) != name_of(*locks)) {
    support::report_error("--locks: '{}' would show one lock under the name of another", text);
    return false;
  }
  if (name == c_library) {
    if (named) {
      support::report_error(
          "--locks: the name '{}' is there twice: it is the reference (a lock may be there under another name)", name);
      return false;
    }
    if (is_named(chosen, name)) return true;
  } else if (is_named(chosen, name)) {
    support::report_error("--locks: the name '{}' is there twice (a lock may be, under two names: first={},second={})",
                          name, wanted, wanted);
    return false;
  }
  chosen.push_back({name, *locks});
  return true;
}

std::vector<choice> default_ones() {
  std::vector<choice> all;
  for (const char* name : in_this_order)
    if (const lock_table* lock = find_lock(name)) all.push_back({name, {lock}});
  if (all.empty()) {
    support::report_error("none of the usual locks was built: --locks or --all says which (usher list shows all)");
    return all;
  }
  for (const lock_table* mutex : {all.front().locks.mutex, static_cast<const lock_table*>(nullptr)})
    for (const char* rwlock : read_write_in_this_order) {
      const run_locks locks{mutex, rwlock};
      all.push_back({name_of(locks), locks});
    }
  return all;
}

/// The read-write locks of --rwlocks; the C library's is an empty name. Empty after an error message.
std::vector<std::string> read_write_locks(const options& o) {
  std::vector<std::string> all;
  for (const std::string_view part : support::parts_of(o.rwlocks, ",")) {
    const std::string name(part == c_library ? "" : part);
    if (!name.empty() && !support::is_read_write_lock(name)) {
      support::report_error("unknown read-write lock '{}'{} (usher list shows all)", name,
                            did_you_mean(support::nearest_read_write_lock(name)));
      return {};
    }
    if (std::find(all.begin(), all.end(), name) != all.end()) {
      support::report_error("--rwlocks: the name '{}' is there twice", part);
      return {};
    }
    all.push_back(name);
  }
  if (all.empty()) support::report_error("--rwlocks names no read-write lock (usher list shows all)");
  return all;
}

/// Each candidate of --locks with each read-write lock of --rwlocks. Empty after an error message.
std::vector<choice> crossed(const options& o, const std::vector<choice>& mutexes) {
  std::vector<choice> all;
  const std::vector<std::string> rwlocks = read_write_locks(o);
  for (const choice& c : mutexes) {
    if (!c.locks.rwlock.empty()) {
      support::report_error("--locks: '{}' names a read-write lock, as --rwlocks does: use one of them", c.name);
      return {};
    }
    for (const std::string& rwlock : rwlocks) {
      const std::string name = trial::name_of(c.name, rwlock);
      if (is_named(all, name)) {
        support::report_error("--rwlocks: the name '{}' is there twice", name);
        return {};
      }
      all.push_back({name, {c.locks.mutex, rwlock}});
    }
  }
  return all;
}

}  // namespace

std::vector<choice> choose(const options& o) {
  if (o.default_candidates()) return default_ones();
  std::vector<choice> chosen;
  if (o.all) {
    for (const lock_table* lock : catalog())
      if (lock->plain() && lock->traits->excludes && std::string_view(lock->name) != c_library)
        chosen.push_back({lock->name, {lock}});
  } else if (o.locks.empty()) {
    chosen.push_back({c_library, {}});
  } else {
    for (const std::string_view name : support::parts_of(o.locks, ","))
      if (!add_choice(std::string(name), chosen)) return {};
  }
  if (!o.rwlocks.empty()) {
    chosen = crossed(o, chosen);
    if (chosen.empty()) return {};
  }
  std::erase_if(chosen, [](const choice& c) { return c.name == c_library; });  // the reference
  if (chosen.empty())
    support::report_error("{} no lock to compare with the C library's (usher list shows all)",
                          o.rwlocks.empty() ? "--locks names"
                          : o.locks.empty() ? "--rwlocks names"
                                            : "--locks and --rwlocks name");
  return chosen;
}

}  // namespace usher::tool::trial
