#include "watch/reader/print/stat_json.hpp"

#include <initializer_list>
#include <string_view>

#include "support/text/json_fields.hpp"
#include "support/text/utf8.hpp"
#include "watch/contract/format.hpp"
#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::cli::stat {

using json = nlohmann::ordered_json;

/// Writes an id: "tid", which is null if it is not known, and "own_tid" if the id in its own PID namespace differs.
template <class S>
struct id_keys {
  constexpr id_keys(const char* its_key, shown_id S::*its_member) : key(its_key), member(its_member) {}
  void write(json& to, const S& s) const {
    const shown_id& id = s.*member;
    to[key] = id.seen != 0 ? json(id.seen) : json();
    if (id.own != 0) to[std::string("own_") + key] = id.own;
  }

  const char* key;
  shown_id S::*member;
};

constexpr auto json_fields(const frame*) {
  using f = frame;
  return std::tuple(
      field("function", &f::function, or_null), field("file", &f::file, or_null), field("line", &f::line, or_null),
      field("module", &f::module, or_null),
      computed("offset", [](const f& s) { return s.module.empty() ? json() : json(hexadecimal(s.offset)); }),
      computed("address", [](const f& s) { return hexadecimal(s.address); }), field("inlined", &f::is_inlined));
}

constexpr auto json_fields(const stack*) {
  return std::tuple(field("frames", &stack::frames), field("cut", &stack::is_cut));
}

constexpr auto json_fields(const charged_stack*) {
  using c = charged_stack;
  return std::tuple(field("count", &c::count), field("waited", &c::waited), flat(&c::where));
}

constexpr auto json_fields(const durations*) {
  using d = durations;
  return std::tuple(field("count", &d::count), field("total", &d::total), field("median", &d::median),
                    field("p99", &d::p99), field("longest", &d::longest));
}

constexpr auto json_fields(const admission*) {
  using a = admission;
  return std::tuple(field("acquisitions", &a::acquisitions), field("windows", &a::windows),
                    field("owner_changes", &a::owner_changes), field("lwss", &a::lwss), field("mttr", &a::mttr),
                    field("gini", &a::gini), field("rstddev", &a::rstddev));
}

constexpr auto json_fields(const thread_share*) {
  using t = thread_share;
  return std::tuple(id_keys("tid", &t::tid), field("waits", &t::waits), field("waited", &t::waited));
}

constexpr auto json_fields(const retried*) {
  using t = retried;
  return std::tuple(field("count", &t::count), field("total", &t::total), field("longest", &t::longest));
}

constexpr auto json_fields(const lock_side*) {
  using s = lock_side;
  return std::tuple(
      field("acquisitions", &s::acquisitions), field("contended", &s::contended), field("waited", &s::waited),
      computed("longest", [](const s& of) { return of.longest > 0 || of.contended == 0 ? json(of.longest) : json(); }),
      field("behind_writer", &s::behind_writer), field("behind_readers", &s::behind_readers));
}

constexpr auto json_fields(const lock_sides*) {
  using s = lock_sides;
  return std::tuple(field("reading", &s::reading), field("writing", &s::writing),
                    field("most_readers", &s::most_readers));
}

constexpr auto json_fields(const ways_of_waiting*) {
  using w = ways_of_waiting;
  return std::tuple(field("polls", &w::polls), field("sleeps", &w::sleeps), field("hand_overs", &w::grants));
}

static json waiting_of(const counts& c) {
  json j = json_value(c.waiting);
  j["hidden"] = c.waiting_is_hidden;
  return j;
}

/// The thread that came last at a barrier most often.
static json last_of(const counts& c) {
  if (!c.last) return {};
  json j;
  id_keys("tid", &thread_share::tid).write(j, *c.last);
  j["times"] = c.last->waits;
  return j;
}

static json holding_of(const counts& c) {
  if (c.holding.count == 0) return {};
  json j = json_value(c.holding);
  if (c.holding.longest == 0) j["longest"] = nullptr;  // not recorded without a waiter
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

/// The JSON keys that all kinds of objects have.
constexpr auto json_fields(const counts*) {
  using c = counts;
  return std::tuple(field("acquisitions", &c::acquisitions), field("contended", &c::contended),
                    computed("waiting", waiting_of), plain_keys{}, field("tries", &c::tries), field("sides", &c::sides),
                    computed("holding", holding_of), field("held_share", &c::held_share), field("ways", &c::ways),
                    computed("last", last_of), field("threads", &c::threads),
                    field("more_threads", &c::has_more_threads));
}

static void erase_keys_of_other_kinds(json& j, kind what) {
  const bool is_mutex = what == kind::mutex, is_rwlock = what == kind::rwlock, is_semaphore = what == kind::semaphore,
             is_held_by_one = record::has_holds(what);
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
  return std::tuple(field("name", &o::name), computed("address", [](const o& s) { return hexadecimal(s.address); }),
                    id_keys("pid", &o::pid), flat(&o::seen), field("order", &o::order));
}

constexpr const char* name_of(kind k) {
  return record::kind_names[int(k)];
}

constexpr auto json_fields(const row*) {
  using r = row;
  return std::tuple(computed("kind", [](const r& s) { return name_of(s.what); }), field("name", &r::name),
                    field("rule", &r::rule, or_null), field("verdict", &r::verdict, or_null),
                    field("command", &r::command, or_null), field("module", &r::module, or_null),
                    field("place", &r::place), field("by_init", &r::by_init), field("embedded", &r::embedded),
                    field("first_locked", &r::first_locked, or_null), field("objects", &r::objects),
                    field("gone", &r::gone), flat(&r::seen), field("order", &r::order), field("holders", &r::holders),
                    field("waiters", &r::waiters), field("each", &r::each));
}

constexpr auto json_fields(const attach_cost*) {
  using a = attach_cost;
  return std::tuple(field("stopped_seconds", &a::seconds), field("stopped_threads", &a::threads));
}

constexpr auto json_fields(const off_cpu::place*) {
  using p = off_cpu::place;
  return std::tuple(field("call", &p::call, or_null), field("module", &p::module, or_null),
                    field("certain", &p::is_certain), field("samples", &p::samples), field("stack", &p::where),
                    field("below", &p::below));
}

constexpr auto json_fields(const off_cpu*) {
  using o = off_cpu;
  return std::tuple(field("samples", &o::samples), field("observations", &o::observations),
                    computed("recorded",
                             [](const o& s) {
                               json j = json::object();
                               for (int k = 0; k < record::kinds; k++) j[record::kind_names[k + 1]] = s.recorded[k];
                               return j;
                             }),
                    field("unreadable", &o::unreadable), field("of_a_part", &o::of_a_part),
                    field("places", &o::places));
}

constexpr auto json_fields(const cpu_use*) {
  using c = cpu_use;
  return std::tuple(field("cpus", &c::cpus), field("busy", &c::busy), field("waiting", &c::waiting));
}

constexpr auto json_fields(const deadlock::thread*) {
  using t = deadlock::thread;
  return std::tuple(id_keys("tid", &t::tid), field("waits_for", &t::waits_for),
                    computed("address", [](const t& s) { return hexadecimal(s.address); }), field("stack", &t::where));
}

constexpr auto json_fields(const deadlock*) {
  return std::tuple(field("seconds", &deadlock::seconds), field("threads", &deadlock::threads));
}

constexpr auto json_fields(const report*) {
  using r = report;
  return std::tuple(
      computed("version", [](const r&) { return json_version; }), field("usher", &r::usher),
      field("command", &r::command),
      computed("pid", [](const r& s) { return s.pid.seen != 0 ? json(s.pid.seen) : json(); }), field("lock", &r::lock),
      field("seconds", &r::seconds), field("processes", &r::processes), field("threads", &r::threads),
      field("thread_seconds", &r::thread_seconds),
      computed("waited",
               [](const r& s) {
                 json j;
                 for (int k = 0; k < record::kinds; k++) j[record::kind_names[k + 1]] = s.waited[k];
                 return j;
               }),
      field("rule", &r::rule, or_null), field("verdict", &r::verdict, or_null), field("next", &r::next, or_null),
      field("deadlocks", &r::deadlocks), field("attached", &r::attached),
      field("others_cpu_share", &r::others_cpu_share), field("asleep", &r::asleep), field("cpu", &r::cpu),
      computed("not_seen",
               [](const r& s) {
                 return json{{"calls", s.not_seen.calls}, {"threads", s.not_seen.threads}};
               }),
      // states how exactly each object's `failed_tries` (mutexes, semaphores) and `unheard` signals are counted
      computed("counting",
               [](const r&) {
                 return json{{"exact_up_to", record::counted_exactly}, {"then_one_in", record::roughly}};
               }),
      field("remarks", &r::remarks), field("rows", &r::rows));
}

/// The JSON writer refuses text that is not UTF-8, so such bytes become question marks. It escapes control characters
/// itself.
static void make_valid(json& j) {
  if (j.is_structured()) {
    for (json& part : j) make_valid(part);
  } else if (j.is_string()) {
    std::string valid;
    for (std::string_view text = j.get_ref<const std::string&>(); !text.empty();) {
      const std::size_t length = utf8_length(text);
      valid += length == 0 ? "?" : text.substr(0, length);
      text.remove_prefix(length == 0 ? 1 : length);
    }
    j = std::move(valid);
  }
}

json as_json(const report& r) {
  json all = json_value(r);
  for (std::size_t i = 0; i < r.rows.size(); i++) {
    json& one = all["rows"][i];
    erase_keys_of_other_kinds(one, r.rows[i].what);
    for (json& object : one["each"]) erase_keys_of_other_kinds(object, r.rows[i].what);
  }
  if (r.pid.own != 0) all["own_pid"] = r.pid.own;
  make_valid(all);
  return all;
}

}  // namespace usher::cli::stat
