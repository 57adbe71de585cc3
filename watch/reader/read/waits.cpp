#include "watch/reader/read/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "watch/reader/name/id_names.hpp"
#include "watch/reader/name/naming.hpp"

namespace usher::reader {
namespace {

using access::timeline;
using contract::read;

constexpr std::size_t most_named = 4096;  // objects; chosen: a program may forge one for each wait

class wait_reader {
 public:
  wait_reader(contract::view record, const time_scale& time, const std::function<std::uint64_t(std::uint64_t)>& ns,
              symbols& names, const access::seen_ids* ids, const thread_names* of_threads)
      : record_(record), time_(time), ns_(ns), namer_(record, names), ids_(ids), of_threads_(of_threads) {
    known_ids();
  }

  kept_waits read_all() {
    kept_waits k;
    const std::uint64_t from = complete_since(k.lost);
    k.seconds = time_.seconds(time_.end - from);
    prepare();
    for (std::uint32_t i = 0; i < record_.room().waits; i++) {
      const contract::wait_chunk& c = record_.waits(i);
      const std::uint64_t number = read(c.number);
      if (number == 0) continue;
      for (const contract::noted_wait& w : c.waits)
        if (read(w.chunk) == static_cast<std::uint32_t>(number) && read(w.end) >= from) add(w);
    }
    for (std::uint32_t i = std::min(read(record_.head().threads), record_.room().threads); i-- > 0;) add_unfinished(i);
    out_.recorded = {{ns_(from), ns_(time_.end)}};
    k.all = std::move(out_);
    return k;
  }

 private:
  /// The ticks since which all waits are in the table.
  std::uint64_t complete_since(std::uint64_t& lost) const {
    const std::uint64_t room = record_.room().waits, taken = read(record_.head().wait_chunks);
    if (room == 0 || taken <= room) return time_.begin;
    lost = taken - room;
    const std::uint64_t first = taken - room / 2;  // the thread that took it left the others' chunks to be complete
    const contract::wait_chunk& c = record_.waits(static_cast<std::uint32_t>(first % room));
    const std::uint64_t at = read(c.number) == first + 1 ? read(c.taken) : time_.end;
    return std::clamp(at, time_.begin, time_.end);
  }

  void known_ids() {
    const id_names shown(record_, ids_);
    for (std::uint32_t i = std::min(read(record_.head().threads), record_.room().threads); i-- > 0;)
      if (const std::uint32_t tid = read(record_.thread(i).tid); tid != 0) {
        const shown_id id = shown.thread(i);
        seen_[{read(record_.thread(i).process), tid}] = id.seen != 0 ? id.seen : id.own;
      }
  }

  /// The id of a thread as this process sees it, if it is known.
  std::int64_t seen_tid(std::uint32_t process, std::uint32_t own) const {
    const auto at = seen_.find({process, own});
    return at != seen_.end() ? at->second : std::int64_t{own};
  }

  bool has_process(std::uint32_t slot) const {
    return slot < std::min(read(record_.head().processes), record_.room().processes);
  }

  std::uint32_t process_of(std::uint32_t slot) {
    const auto [at, is_new] = processes_.try_emplace(slot, static_cast<std::uint32_t>(out_.processes.size()));
    if (is_new) {
      const contract::process_slot& p = record_.process(slot);
      const shown_id id = id_names(record_, ids_).process(slot);
      std::string name(p.command, strnlen(p.command, sizeof p.command));
      if (name.empty() && of_threads_ != nullptr) name = of_threads_->of(slot, read(p.pid));
      out_.processes.push_back({id.seen != 0 ? id.seen : id.own, std::move(name)});
    }
    return at->second;
  }

  std::uint32_t thread_of(std::uint32_t process, std::uint32_t tid) {
    const auto [at, is_new] = threads_.try_emplace({process, tid}, static_cast<std::uint32_t>(out_.threads.size()));
    if (is_new)
      out_.threads.push_back(
          {process_of(process), seen_tid(process, tid), of_threads_ != nullptr ? of_threads_->of(process, tid) : ""});
    return at->second;
  }

  std::uint32_t object_of(std::uint64_t key, kind what, std::uint32_t place, std::uint32_t flags) {
    const auto [at, is_new] = objects_.try_emplace({key, what, place}, static_cast<std::uint32_t>(out_.objects.size()));
    if (!is_new) return at->second;
    contract::object o{};
    o.key.store(key);
    o.place.store(place);
    o.flags.store(flags & contract::is_static);
    const std::string address = fmt::format("{:#x}", contract::address_of(key));
    out_.objects.push_back(
        {process_of(contract::process_of(key)), what, out_.objects.size() < most_named ? namer_.name(o) : address});
    return at->second;
  }

  static kind kind_of(std::uint32_t word) {
    const std::uint32_t k = word & 0xff;
    return k != 0 && k <= std::uint32_t{contract::kinds} ? static_cast<kind>(k) : kind::none;
  }

  void add(const contract::noted_wait& w) {
    timeline::wait one;
    const std::uint64_t begin = read(w.begin), end = read(w.end), key = read(w.key);
    const std::uint32_t process = contract::process_of(key), tid = read(w.tid), word = read(w.kind_result);
    if (!has_process(process) || tid == 0 || kind_of(word) == kind::none) return;
    if (begin < time_.begin || end < begin || end > time_.end) return;
    one.thread = thread_of(process, tid);
    one.object = object_of(key, kind_of(word), read(w.place), word >> 8 & 0xff);
    one.begin = ns_(begin);
    one.end = ns_(end);
    one.owner = read(w.owner) != 0 ? seen_tid(process, read(w.owner)) : 0;
    one.gave_up = word >> 16 == static_cast<std::uint32_t>(contract::wait_result::timed_out);
    if (const std::uint32_t stack = read(w.stack); stack != 0 && stack <= record_.room().chains)
      one.where = namer_.place(stack).name;
    add_release(one, read(w.released), begin, end, process);
    out_.waits.push_back(std::move(one));
  }

  /// Adds the unlock that ended the wait, if it was noted during the wait by a thread that still has its slot.
  void add_release(timeline::wait& one, std::uint64_t word, std::uint64_t begin, std::uint64_t end,
                   std::uint32_t process) {
    const std::uint32_t slot = contract::released_by(word) - 1;
    if (word == 0 || slot >= std::min(read(record_.head().threads), record_.room().threads)) return;
    const contract::thread_slot& t = record_.thread(slot);
    const std::uint64_t at = contract::released_ticks(word, end);
    if (at < begin || at > end || read(t.tid) == 0 || read(t.process) != process || read(t.first) > at) return;
    one.releaser = thread_of(process, read(t.tid));
    one.released = ns_(at);
  }

  /// Adds the wait in which a thread was at the end of the recording.
  void add_unfinished(std::uint32_t slot) {
    const contract::thread_slot& t = record_.thread(slot);
    const std::uint32_t object = read(t.waits_for) - 1;
    const std::uint64_t since = read(t.since);
    if (object >= record_.room().objects || read(t.over) != 0 || read(t.tid) == 0) return;
    const contract::object& o = record_.object(object);
    const std::uint64_t key = read(o.key);
    const std::uint32_t process = contract::process_of(key), owner = read(o.owner);
    const kind what = kind_of(read(o.depth_and_kind));
    if (!has_process(process) || read(t.process) != process || what == kind::none) return;
    if (since < time_.begin || since > time_.end) return;
    timeline::wait one;
    one.thread = thread_of(process, read(t.tid));
    one.object = object_of(key, what, read(o.place), read(o.flags) & 0xff);
    one.begin = ns_(since);
    if ((contract::has_holds(what) || what == kind::rwlock) && owner != 0 && owner <= record_.room().threads)
      one.owner = seen_tid(process, read(record_.thread(owner - 1).tid));
    out_.waits.push_back(std::move(one));
  }

  /// Has the objects of the record that were waited for looked up together.
  void prepare() {
    std::vector<std::uint32_t> objects;
    for (std::uint32_t i = 0; i < record_.room().objects && objects.size() < most_named; i++)
      if (read(record_.object(i).key) > contract::object::vacant && read(record_.object(i).contended) != 0)
        objects.push_back(i);
    namer_.prepare(objects);
  }

  contract::view record_;
  time_scale time_;
  const std::function<std::uint64_t(std::uint64_t)>& ns_;
  namer namer_;
  const access::seen_ids* ids_;
  const thread_names* of_threads_;
  timeline out_;
  std::map<std::uint32_t, std::uint32_t> processes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> seen_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> threads_;
  std::map<std::tuple<std::uint64_t, kind, std::uint32_t>, std::uint32_t> objects_;
};

}  // namespace

kept_waits read_waits(contract::view record, const time_scale& time,
                      const std::function<std::uint64_t(std::uint64_t)>& ns, symbols& names,
                      const access::seen_ids* ids, const thread_names* of_threads) {
  return wait_reader(record, time, ns, names, ids, of_threads).read_all();
}

}  // namespace usher::reader
