#include "watch/reader/print/stat_json.hpp"

#include <initializer_list>
#include <string_view>

#include "support/text/json_fields.hpp"
#include "support/text/utf8.hpp"
#include "watch/contract/format.hpp"
#include "watch/reader/judge/stat_quantities.hpp"
#include "watch/reader/print/frame_json.hpp"

namespace usher::reader {

constexpr auto json_fields(const charged_stack*) {
  using c = charged_stack;
  return std::tuple(support::field("count", &c::count), support::field("waited", &c::waited), support::flat(&c::where));
}

static json to_json(const duration_part& p) {
  return json::array({p.from, p.to, p.count});
}

constexpr auto json_fields(const durations*) {
  using d = durations;
  return std::tuple(support::field("count", &d::count), support::field("total", &d::total),
                    support::field("median", &d::median), support::field("p99", &d::p99),
                    support::field("longest", &d::longest),
                    support::field("histogram", &d::histogram, support::or_absent));
}

constexpr auto json_fields(const admission*) {
  using a = admission;
  return std::tuple(support::field("acquisitions", &a::acquisitions), support::field("windows", &a::windows),
                    support::field("owner_changes", &a::owner_changes), support::field("lwss", &a::lwss),
                    support::field("mttr", &a::mttr), support::field("gini", &a::gini),
                    support::field("rstddev", &a::rstddev));
}

constexpr auto json_fields(const thread_share*) {
  using t = thread_share;
  return std::tuple(id_keys("tid", &t::tid), support::field("waits", &t::waits), support::field("waited", &t::waited));
}

constexpr auto json_fields(const retried*) {
  using t = retried;
  return std::tuple(support::field("count", &t::count), support::field("total", &t::total),
                    support::field("longest", &t::longest));
}

constexpr auto json_fields(const lock_side*) {
  using s = lock_side;
  return std::tuple(
      support::field("acquisitions", &s::acquisitions), support::field("contended", &s::contended),
      support::field("waited", &s::waited),
      support::computed("longest",
                        [](const s& of) { return of.longest > 0 || of.contended == 0 ? json(of.longest) : json(); }),
      support::field("behind_writer", &s::behind_writer), support::field("behind_readers", &s::behind_readers));
}

constexpr auto json_fields(const lock_sides*) {
  using s = lock_sides;
  return std::tuple(support::field("reading", &s::reading), support::field("writing", &s::writing),
                    support::field("most_readers", &s::most_readers));
}

constexpr auto json_fields(const ways_of_waiting*) {
  using w = ways_of_waiting;
  return std::tuple(support::field("polls", &w::polls), support::field("sleeps", &w::sleeps),
                    support::field("hand_overs", &w::grants));
}

static json waiting_of(const counts& c) {
  json j = support::json_value(c.waiting);
  j["hidden"] = c.waiting_is_hidden;
  return j;
}

/// The thread that most often came last at a barrier.
static json last_of(const counts& c) {
  if (!c.last) return {};
  json j;
  id_keys("tid", &thread_share::tid).write(j, *c.last);
  j["times"] = c.last->waits;
  return j;
}

static json holding_of(const counts& c) {
  if (c.holding.count == 0) return {};
  json j = support::json_value(c.holding);
  if (c.holding.longest == 0) j["longest"] = nullptr;  // the longest hold is recorded only after a wait
  j["exact"] = c.holding_is_exact;
  j["timed"] = c.holds_timed;
  j["yielding"] = c.yielding_share ? json(*c.yielding_share) : json();
  return j;
}

struct plain_keys {
  void write(json& to, const counts& s) const {
    for (const plain_count& c : all_plain_counts) to[c.key] = s.*c.count;
  }
};

/// The JSON keys common to all kinds of objects.
constexpr auto json_fields(const counts*) {
  using c = counts;
  return std::tuple(support::field("acquisitions", &c::acquisitions), support::field("contended", &c::contended),
                    support::computed("waiting", waiting_of), plain_keys{}, support::field("tries", &c::tries),
                    support::field("sides", &c::sides), support::computed("holding", holding_of),
                    support::field("held_share", &c::held_share), support::field("ways", &c::ways),
                    support::computed("last", last_of), support::field("threads", &c::threads),
                    support::field("more_threads", &c::has_more_threads));
}

static void erase_keys_of_other_kinds(json& j, kind what) {
  const bool is_mutex = what == kind::mutex, is_rwlock = what == kind::rwlock, is_semaphore = what == kind::semaphore,
             is_held_by_one = contract::has_holds(what);
  const auto erase_unless = [&j](bool has_them, std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (!has_them) j.erase(key);
  };
  if (!is_mutex && !is_semaphore) j["waiting"].erase("hidden");
  erase_unless(is_held_by_one || is_rwlock || is_semaphore || what == kind::join, {"contended"});
  erase_unless(is_held_by_one || is_semaphore, {"tries"});
  erase_unless(is_held_by_one || is_rwlock, {"holding", "held_share"});
  erase_unless(is_mutex, {"ways"});
  erase_unless(is_rwlock, {"sides"});
  for (const plain_count& c : all_plain_counts)
    if (!c.has(what)) j.erase(c.key);
  erase_unless(what == kind::barrier, {"last"});
}

constexpr auto json_fields(const object_row*) {
  using o = object_row;
  return std::tuple(support::field("name", &o::name),
                    support::computed("address", [](const o& s) { return hexadecimal(s.address); }),
                    id_keys("pid", &o::pid), support::flat(&o::seen), support::field("order", &o::order));
}

constexpr const char* name_of(kind k) {
  return contract::kind_names[int(k)];
}

constexpr auto json_fields(const row*) {
  using r = row;
  return std::tuple(
      support::computed("kind", [](const r& s) { return name_of(s.what); }), support::field("name", &r::name),
      support::field("rule", &r::rule, support::or_null), support::field("verdict", &r::verdict, support::or_null),
      support::field("command", &r::command, support::or_null), support::field("module", &r::module, support::or_null),
      support::field("place", &r::place), support::field("by_init", &r::by_init),
      support::field("embedded", &r::embedded), support::field("first_locked", &r::first_locked, support::or_null),
      support::field("objects", &r::objects), support::field("gone", &r::gone), support::flat(&r::seen),
      support::field("order", &r::order), support::field("holders", &r::holders),
      support::field("waiters", &r::waiters), support::field("windows", &r::windows, support::or_absent),
      support::field("each", &r::each));
}

constexpr auto json_fields(const attach_cost*) {
  using a = attach_cost;
  return std::tuple(support::field("stopped_seconds", &a::seconds), support::field("stopped_threads", &a::threads));
}

constexpr auto json_fields(const off_cpu::place*) {
  using p = off_cpu::place;
  return std::tuple(support::field("call", &p::call, support::or_null),
                    support::field("module", &p::module, support::or_null), support::field("certain", &p::is_certain),
                    support::field("samples", &p::samples), support::field("stack", &p::where),
                    support::field("below", &p::below));
}

constexpr auto json_fields(const off_cpu*) {
  using o = off_cpu;
  return std::tuple(support::field("samples", &o::samples), support::field("observations", &o::observations),
                    support::computed("recorded",
                                      [](const o& s) {
                                        json j = json::object();
                                        for (int k = 0; k < contract::kinds; k++)
                                          j[contract::kind_names[k + 1]] = s.recorded[k];
                                        return j;
                                      }),
                    support::field("unreadable", &o::unreadable), support::field("of_a_part", &o::of_a_part),
                    support::field("places", &o::places));
}

constexpr auto json_fields(const cpu_use*) {
  using c = cpu_use;
  return std::tuple(support::field("cpus", &c::cpus), support::field("busy", &c::busy),
                    support::field("waiting", &c::waiting));
}

constexpr auto json_fields(const deadlock::thread*) {
  using t = deadlock::thread;
  return std::tuple(id_keys("tid", &t::tid), support::field("waits_for", &t::waits_for),
                    support::computed("address", [](const t& s) { return hexadecimal(s.address); }),
                    support::field("stack", &t::where));
}

constexpr auto json_fields(const deadlock*) {
  return std::tuple(support::field("seconds", &deadlock::seconds), support::field("threads", &deadlock::threads));
}

constexpr auto json_fields(const recorded_windows*) {
  using w = recorded_windows;
  return std::tuple(support::field("ends", &w::ends), support::field("thread_seconds", &w::thread_seconds));
}

constexpr auto json_fields(const report*) {
  using r = report;
  return std::tuple(
      support::computed("version", [](const r&) { return json_version; }), support::field("usher", &r::usher),
      support::field("command", &r::command),
      support::computed("pid", [](const r& s) { return s.pid.seen != 0 ? json(s.pid.seen) : json(); }),
      support::field("lock", &r::lock), support::field("seconds", &r::seconds),
      support::field("processes", &r::processes), support::field("threads", &r::threads),
      support::field("thread_seconds", &r::thread_seconds),
      support::computed("waited",
                        [](const r& s) {
                          json j;
                          for (int k = 0; k < contract::kinds; k++) j[contract::kind_names[k + 1]] = s.waited[k];
                          return j;
                        }),
      support::field("rule", &r::rule, support::or_null), support::field("verdict", &r::verdict, support::or_null),
      support::field("next", &r::next, support::or_null), support::field("deadlocks", &r::deadlocks),
      support::field("attached", &r::attached), support::field("others_cpu_share", &r::others_cpu_share),
      support::field("asleep", &r::asleep), support::field("cpu", &r::cpu),
      support::computed("not_seen",
                        [](const r& s) {
                          return json{{"calls", s.not_seen.calls}, {"threads", s.not_seen.threads}};
                        }),
      // how exactly each object's `failed_tries` (mutexes, semaphores) and `unheard` signals are counted
      support::computed("counting",
                        [](const r&) {
                          return json{{"exact_up_to", contract::counted_exactly}, {"then_one_in", contract::roughly}};
                        }),
      support::field("windows", &r::windows), support::field("remarks", &r::remarks), support::field("rows", &r::rows));
}

json as_json(const report& r) {
  json all = support::json_value(r);
  for (std::size_t i = 0; i < r.rows.size(); i++) {
    json& one = all["rows"][i];
    erase_keys_of_other_kinds(one, r.rows[i].what);
    for (json& object : one["each"]) erase_keys_of_other_kinds(object, r.rows[i].what);
  }
  if (r.pid.own != 0) all["own_pid"] = r.pid.own;
  make_valid(all);
  return all;
}

}  // namespace usher::reader
