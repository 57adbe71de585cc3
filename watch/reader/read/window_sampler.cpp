#include "watch/reader/read/window_sampler.hpp"

#include <algorithm>
#include <utility>

namespace usher::reader {

using contract::kind;
using contract::read;

/// The ticks that threads have waited for the object, with the waits that have not ended.
std::uint64_t window_sampler::waited_by(const contract::object& o, kind what, std::uint64_t key,
                                        std::uint64_t now) const {
  const std::uint64_t ended_waits = read(o.waited);
  const std::uint64_t word = read(o.waiting), n = word & contract::waiting_count;
  // A waiter of a condition variable counts from the signal on, which is known when it runs again.
  if (n == 0 || what == kind::condition) return ended_waits;
  std::uint64_t until = now;
  if (const contract::process_slot* const p = record_.process(contract::process_of(key)))
    if (const std::uint64_t ended = read(p->ended); ended != 0) until = std::clamp(ended, begin_, now);
  const std::uint64_t so_far = contract::waited_so_far(word, until);
  return so_far <= n * (until - begin_) ? ended_waits + so_far : ended_waits;
}

void window_sampler::add_object(std::uint32_t index, std::uint64_t now) {
  const contract::object* const o = record_.object(index);
  if (o == nullptr) return;
  const std::uint64_t key = read(o->key);
  const std::uint32_t kind_word = read(o->depth_and_kind) & 0xff, place = read(o->place);
  if (key <= contract::object::vacant || kind_word == 0 || kind_word > contract::kinds) return;
  const bool is_itself = (read(o->flags) & contract::is_static) != 0 || place == 0 || place > record_.room().chains;
  const std::uint32_t whom = is_itself ? index : contract::of_place + place - 1;
  const std::uint64_t id = std::uint64_t{kind_word} << 32 | whom;
  auto at = places_.find(id);
  if (at == places_.end()) {
    if (all_.size() == most_series) return;
    at = places_.emplace(id, all_.size()).first;
    all_.emplace_back().kept = {kind(kind_word), whom, std::vector<std::uint64_t>(ends_.size())};
  }
  all_[at->second].total += waited_by(*o, kind(kind_word), key, now);
}

/// Adds the objects that have a detail, and those whose first wait has not ended, which have none. Returns the number of
/// living threads.
std::uint64_t window_sampler::add_objects(std::uint64_t now) {
  for (std::uint32_t i = std::min(record_.details(), most_details); i-- > 0;) {
    const contract::detail* const d = record_.detail(i);
    const std::uint32_t object = d != nullptr ? read(d->object) : 0;
    const contract::object* const o = object != 0 ? record_.object(object - 1) : nullptr;
    if (o != nullptr && read(o->detail) == i + 1) add_object(object - 1, now);
  }
  std::uint64_t living = 0;
  std::vector<std::uint32_t> waited_for;
  for (std::uint32_t i = record_.threads(); i-- > 0;) {
    const contract::thread_slot& t = *record_.thread(i);
    if (read(t.tid) == 0 || read(t.over) != 0) continue;
    living++;
    const std::uint32_t object = read(t.waits_for);
    const contract::object* const o = object != 0 ? record_.object(object - 1) : nullptr;
    if (o != nullptr && read(o->detail) == 0) waited_for.push_back(object - 1);
  }
  std::sort(waited_for.begin(), waited_for.end());
  waited_for.erase(std::unique(waited_for.begin(), waited_for.end()), waited_for.end());
  for (const std::uint32_t object : waited_for) add_object(object, now);
  return living;
}

void window_sampler::sample(std::uint64_t now) {
  const std::uint64_t elapsed = now - std::min(now, last_);
  if (elapsed == 0) return;
  last_ = now;
  for (followed& f : all_) f.total = 0;
  const std::uint64_t living = add_objects(now);
  // Waits in progress count up to this moment, so no object's waiting grows faster than all threads wait; the words of a
  // record are from different moments, therefore twice that.
  const std::uint64_t most = 2 * elapsed * std::max<std::uint64_t>(living, 1);
  for (followed& f : all_) {
    if (f.total > f.reached) f.open += std::min(f.total - f.reached, most);
    f.reached = std::max(f.reached, f.total);
  }
  open_threads_ += living * elapsed;
  if (++samples_ >= samples_a_window_) close_window();
}

void window_sampler::close_window() {
  ends_.push_back(last_ - begin_);
  threads_.push_back(std::exchange(open_threads_, 0));
  for (followed& f : all_) f.kept.waited.push_back(std::exchange(f.open, 0));
  samples_ = 0;
  if (ends_.size() == most_windows) halve();
}

/// Makes one window of each two.
void window_sampler::halve() {
  const auto add_neighbours = [](std::vector<std::uint64_t>& v) {
    for (std::size_t i = 0; i < v.size() / 2; i++) v[i] = v[2 * i] + v[2 * i + 1];
    v.resize(v.size() / 2);
  };
  for (std::size_t i = 0; i < ends_.size() / 2; i++) ends_[i] = ends_[2 * i + 1];
  ends_.resize(ends_.size() / 2);
  add_neighbours(threads_);
  for (followed& f : all_) add_neighbours(f.kept.waited);
  samples_a_window_ *= 2;
}

waiting_windows window_sampler::windows() const {
  window_sampler copy = *this;
  if (copy.samples_ != 0) copy.close_window();
  waiting_windows w{std::move(copy.ends_), std::move(copy.threads_), {}};
  for (followed& f : copy.all_) w.all.push_back(std::move(f.kept));
  return w;
}

}  // namespace usher::reader
