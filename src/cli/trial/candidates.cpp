#include "cli/trial/candidates.hpp"

#include <algorithm>

#include "cli/trial/trial_results.hpp"
#include "support/locks.hpp"
#include "support/text/messages.hpp"
#include "support/text/words.hpp"

namespace usher::cli::trial {
namespace {

/// The default candidates. Every trial has the first two, the default lock and one whose waiters sleep at once. The
/// others follow in this order if they suit the program (plan.cpp): a lock that keeps few threads active, a FIFO lock,
/// and a lock without an order.
constexpr const char* in_this_order[] = {"steady", "loiter-park", "mcscr", "twa", "ttas"};

/// Adds LOCK or NAME=LOCK to `chosen`. Returns false after an error message.
bool add_choice(const std::string& text, std::vector<choice>& chosen) {
  const std::size_t sign = text.find('=');
  const bool named = sign != std::string::npos;
  const std::string name = text.substr(0, sign), wanted = named ? text.substr(sign + 1) : text;
  if (name.empty() || wanted.empty()) {
    report_error("--locks: '{}' has no {} the '='; NAME=LOCK shows LOCK as NAME", text,
                 name.empty() ? "name before" : "lock after");
    return false;
  }
  const lock_table* const lock = find_lock(wanted);
  if (lock == nullptr) {
    report_error("unknown lock '{}'{} (usher list shows all)", wanted, did_you_mean(nearest_lock(wanted)));
    return false;
  }
  if (!lock->traits->excludes) {
    report_error("{} excludes nobody: it is for measurements only, and no program may run under it", wanted);
    return false;
  }
  const lock_table* const namesake = find_lock(name);
  if (namesake != nullptr && namesake != lock) {
    report_error("--locks: '{}' would show one lock under the name of another", text);
    return false;
  }
  if (name == c_library) {
    if (!named) return true;  // chosen already
    report_error("--locks: the name '{}' is there twice: it is the reference (a lock may be there under another name)",
                 name);
    return false;
  }
  if (std::any_of(chosen.begin(), chosen.end(), [&](const choice& c) { return c.name == name; })) {
    report_error("--locks: the name '{}' is there twice (a lock may be, under two names: first={},second={})", name,
                 wanted, wanted);
    return false;
  }
  chosen.push_back({name, lock});
  return true;
}

}  // namespace

std::vector<choice> choose(const options& o) {
  std::vector<choice> chosen;
  if (o.default_candidates()) {
    for (const char* name : in_this_order)
      if (const lock_table* lock = find_lock(name)) chosen.push_back({name, lock});
    if (chosen.empty())
      report_error("none of the usual locks was built: --locks or --all says which (usher list shows all)");
    return chosen;
  }
  if (o.all) {
    for (const lock_table* lock : catalog())
      if (lock->plain() && lock->traits->excludes && std::string_view(lock->name) != c_library)
        chosen.push_back({lock->name, lock});
    return chosen;
  }
  for (const std::string_view name : parts_of(o.locks, ","))
    if (!add_choice(std::string(name), chosen)) return {};
  if (chosen.empty()) report_error("--locks names no lock to compare with the C library's (usher list shows all)");
  return chosen;
}

}  // namespace usher::cli::trial
