#include "stat/stat_json.hpp"

#include <string_view>

#include "record/format.hpp"
#include "stat/stat_quantities.hpp"
#include "support/text/utf8.hpp"

namespace usher::cli::stat {
namespace {

using json = nlohmann::ordered_json;

/// The JSON writer refuses text that is not UTF-8, so such bytes become question marks. It escapes control characters itself.
std::string valid(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      all += '?';
      text.remove_prefix(1);
    } else {
      all += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return all;
}

json text_or_null(const std::string& text) {
  return text.empty() ? json() : json(valid(text));
}

json or_null(const std::optional<double>& v) {
  return v ? json(*v) : json();
}

/// "tid", null if it is not known, and "own_tid" if that is another.
void add_id(json& j, const char* key, const shown_id& id) {
  j[key] = id.seen != 0 ? json(id.seen) : json();
  if (id.own != 0) j[std::string("own_") + key] = id.own;
}

json json_of(const frame& f) {
  return {{"function", text_or_null(f.function)},
          {"file", text_or_null(f.file)},
          {"line", f.line != 0 ? json(f.line) : json()},
          {"module", text_or_null(f.module)},
          {"offset", f.module.empty() ? json() : json(hexadecimal(f.offset))},
          {"address", hexadecimal(f.address)},
          {"inlined", f.is_inlined}};
}

void add(json& j, const stack& s) {
  json frames = json::array();
  for (const frame& f : s.frames) frames.push_back(json_of(f));
  j["frames"] = std::move(frames);
  j["cut"] = s.is_cut;
}

json json_of(const stack& s) {
  json j;
  add(j, s);
  return j;
}

json json_of(const std::vector<charged_stack>& stacks) {
  json all = json::array();
  for (const charged_stack& s : stacks) {
    json j = {{"count", s.count}, {"waited", s.waited}};
    add(j, s.where);
    all.push_back(std::move(j));
  }
  return all;
}

json json_of(const durations& d) {
  return {{"count", d.count},
          {"total", d.total},
          {"median", or_null(d.median)},
          {"p99", or_null(d.p99)},
          {"longest", d.longest}};
}

json json_of(const std::optional<admission>& a) {
  if (!a) return {};
  return {{"acquisitions", a->acquisitions},
          {"windows", a->windows},
          {"owner_changes", a->owner_changes},
          {"lwss", a->lwss},
          {"mttr", a->mttr},
          {"gini", a->gini},
          {"rstddev", a->rstddev}};
}

/// Keys that a kind of object does not have are absent.
void add(json& j, kind what, const counts& c) {
  j["acquisitions"] = c.acquisitions;
  if (what != kind::condition) j["contended"] = c.contended;
  j["waiting"] = json_of(c.waiting);
  if (what != kind::condition) j["waiting"]["hidden"] = c.waiting_is_hidden;
  j["most_waiting"] = c.most_waiting;
  j["still_waiting"] = c.still_waiting;
  j["timeouts"] = c.timeouts;
  if (what != kind::condition) j["failed_tries"] = c.failed_tries;
  if (what == kind::mutex) {
    j["holding"] = nullptr;
    if (c.holding.count != 0) {
      j["holding"] = json_of(c.holding);
      if (c.holding.longest == 0) j["holding"]["longest"] = nullptr;  // not recorded without a waiter
      j["holding"]["exact"] = c.holding_is_exact;
      j["holding"]["timed"] = c.holds_timed;
    }
    j["held_share"] = or_null(c.held_share);
    j["ways"] = nullptr;
    if (c.ways) j["ways"] = {{"polls", c.ways->polls}, {"sleeps", c.ways->sleeps}, {"hand_overs", c.ways->grants}};
  } else {
    j["signals"] = c.signals;
  }
  if (what == kind::condition) {
    j["unheard"] = c.unheard;
    j["woken"] = c.woken;
    j["herd"] = c.herd;
  }
  json threads = json::array();
  for (const thread_share& t : c.threads) {
    json one;
    add_id(one, "tid", t.tid);
    one["waits"] = t.waits;
    one["waited"] = t.waited;
    threads.push_back(std::move(one));
  }
  j["threads"] = std::move(threads);
  j["more_threads"] = c.has_more_threads;
}

const char* name_of(kind k) {
  return k == kind::mutex ? "mutex" : k == kind::condition ? "condition" : "semaphore";
}

json json_of(const object_row& o, kind what) {
  json j = {{"name", valid(o.name)}, {"address", hexadecimal(o.address)}};
  add_id(j, "pid", o.pid);
  add(j, what, o.seen);
  j["order"] = json_of(o.order);
  return j;
}

json json_of(const row& r) {
  json j = {{"kind", name_of(r.what)},
            {"name", valid(r.name)},
            {"rule", text_or_null(r.rule)},
            {"verdict", text_or_null(r.verdict)},
            {"command", text_or_null(r.command)},
            {"module", text_or_null(r.module)},
            {"place", json_of(r.place)},
            {"by_init", r.by_init},
            {"embedded", r.embedded},
            {"first_locked", text_or_null(r.first_locked)},
            {"objects", r.objects},
            {"gone", r.gone}};
  add(j, r.what, r.seen);
  j["order"] = json_of(r.order);
  j["holders"] = json_of(r.holders);
  j["waiters"] = json_of(r.waiters);
  j["each"] = json::array();
  for (const object_row& o : r.each) j["each"].push_back(json_of(o, r.what));
  return j;
}

json json_of(const std::optional<attach_cost>& a) {
  return a ? json{{"stopped_seconds", a->seconds}, {"stopped_threads", a->threads}} : json();
}

json json_of(const deadlock& d) {
  json threads = json::array();
  for (const deadlock::thread& t : d.threads) {
    json one;
    add_id(one, "tid", t.tid);
    one["waits_for"] = valid(t.waits_for);
    one["address"] = hexadecimal(t.address);
    one["stack"] = json_of(t.where);
    threads.push_back(std::move(one));
  }
  return {{"seconds", d.seconds}, {"threads", std::move(threads)}};
}

}  // namespace

nlohmann::ordered_json as_json(const report& r) {
  json command = json::array(), rows = json::array(), deadlocks = json::array(), remarks = json::array();
  for (const std::string& word : r.command) command.push_back(valid(word));
  for (const row& i : r.rows) rows.push_back(json_of(i));
  for (const deadlock& d : r.deadlocks) deadlocks.push_back(json_of(d));
  for (const std::string& remark : r.remarks) remarks.push_back(valid(remark));
  json all = {{"version", json_version},
              {"usher", valid(r.usher)},
              {"command", std::move(command)},
              {"pid", r.pid.seen != 0 ? json(r.pid.seen) : json()},
              {"lock", valid(r.lock)},
              {"seconds", r.seconds},
              {"processes", r.processes},
              {"threads", r.threads},
              {"thread_seconds", r.thread_seconds},
              {"waited", {{"mutex", r.waited[0]}, {"condition", r.waited[1]}, {"semaphore", r.waited[2]}}},
              {"rule", text_or_null(r.rule)},
              {"verdict", text_or_null(r.verdict)},
              {"next", text_or_null(r.next)},
              {"deadlocks", std::move(deadlocks)},
              {"attached", json_of(r.attached)},
              {"others_cpu_share", or_null(r.others_cpu_share)},
              // for `failed_tries` of mutexes and semaphores, and for `unheard` signals, by object
              {"counting", {{"exact_up_to", record::counted_exactly}, {"then_one_in", record::roughly}}},
              {"remarks", std::move(remarks)},
              {"rows", std::move(rows)}};
  if (r.pid.own != 0) all["own_pid"] = r.pid.own;
  return all;
}

}  // namespace usher::cli::stat
