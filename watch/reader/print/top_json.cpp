#include "watch/reader/print/top_json.hpp"

#include "watch/reader/print/frame_json.hpp"

namespace usher::reader {

static json address_value(std::uint64_t address) {
  return address != 0 ? json(hexadecimal(address)) : json();
}

constexpr auto json_fields(const looked_stack*) {
  using l = looked_stack;
  return std::tuple(support::flat(&l::where), support::field("uncertain_from", &l::uncertain_from));
}

constexpr auto json_fields(const looked_waiter*) {
  using w = looked_waiter;
  return std::tuple(id_keys("tid", &w::tid), support::field("thread", &w::thread, support::or_null),
                    support::computed("side",
                                      [](const w& s) {
                                        return s.side == wanted_side::reading   ? json("reading")
                                               : s.side == wanted_side::writing ? json("writing")
                                                                                : json();
                                      }),
                    support::field("waited", &w::waited), support::field("time_limit", &w::has_time_limit),
                    support::field("confirmed", &w::is_confirmed), support::field("stack", &w::where));
}

constexpr auto json_fields(const looked_holder*) {
  using h = looked_holder;
  return std::tuple(id_keys("tid", &h::tid), id_keys("pid", &h::pid),
                    support::field("thread", &h::thread, support::or_null),
                    support::computed("state", [](const h& s) { return std::string(1, s.state); }),
                    support::field("running", &h::is_running), support::field("does", &h::does),
                    support::field("confirmed", &h::is_confirmed), support::field("waited", &h::waited),
                    support::field("stack", &h::where));
}

constexpr auto json_fields(const looked_wait*) {
  using w = looked_wait;
  return std::tuple(
      support::computed("what", [](const w& s) { return name_of(s.what); }),
      support::field("library", &w::library, support::or_null), support::field("kind", &w::kind, support::or_null),
      support::field("name", &w::name),
      support::computed("address", [](const w& s) { return address_value(s.address); }),
      support::field("module", &w::module, support::or_null),
      support::computed("offset", [](const w& s) { return s.module.empty() ? json() : json(hexadecimal(s.offset)); }),
      support::field("known_by", &w::known_by), support::field("call", &w::call, support::or_null),
      support::computed("descriptor", [](const w& s) { return s.descriptor >= 0 ? json(s.descriptor) : json(); }),
      support::field("words", &w::seen, support::or_null), support::field("free", &w::is_free),
      support::field("unchanged", &w::unchanged), support::field("holder", &w::holder),
      support::field("waiters", &w::waiters), support::field("samples", &w::samples),
      support::field("waited", &w::waited), support::field("most_waiting", &w::most_waiting),
      support::computed("place", [](const w& s) {
        return support::json_value(looked_stack{s.place, {}});
      }));
}

constexpr auto json_fields(const looked_thread*) {
  using t = looked_thread;
  return std::tuple(id_keys("tid", &t::tid), support::field("name", &t::name, support::or_null),
                    support::computed("state", [](const t& s) { return std::string(1, s.state); }),
                    support::field("does", &t::does), support::field("wait", &t::wait),
                    support::field("waited", &t::waited), support::field("cpu_seconds", &t::cpu_seconds));
}

constexpr auto json_fields(const chain_link*) {
  using l = chain_link;
  return std::tuple(id_keys("tid", &l::tid), support::field("thread", &l::thread, support::or_null),
                    support::field("does", &l::does), support::field("wait", &l::wait),
                    support::computed("address", [](const l& s) { return address_value(s.address); }));
}

constexpr auto json_fields(const looked_chain*) {
  using c = looked_chain;
  return std::tuple(support::field("circle", &c::is_circle), support::field("seconds", &c::seconds),
                    support::field("links", &c::links));
}

constexpr auto json_fields(const looked_finding*) {
  using f = looked_finding;
  return std::tuple(support::field("what", &f::what), support::field("text", &f::text),
                    support::field("seconds", &f::seconds),
                    support::computed("threads",
                                      [](const f& s) {
                                        json all = json::array();
                                        for (const shown_id& t : s.threads) all.push_back(t.seen);
                                        return all;
                                      }),
                    support::field("waits", &f::waits));
}

constexpr auto json_fields(const doing*) {
  return std::tuple(support::field("does", &doing::does), support::field("threads", &doing::threads));
}

constexpr auto json_fields(const look_report*) {
  using r = look_report;
  return std::tuple(
      support::computed("format", [](const r&) { return "usher_top"; }),
      support::computed("version", [](const r&) { return 1; }), support::field("usher", &r::usher),
      support::field("command", &r::command), support::field("process", &r::process, support::or_null),
      id_keys("pid", &r::pid), support::field("looked", &r::looked), support::field("lock", &r::lock, support::or_null),
      support::field("libc", &r::libc, support::or_null), support::field("date", &r::date),
      support::field("machine", &r::machine), support::field("seconds", &r::seconds),
      support::field("period", &r::period), support::field("passes", &r::passes),
      support::field("threads_seen", &r::threads_seen), support::field("of_a_part", &r::is_of_a_part),
      support::computed(
          "cost",
          [](const r& s) {
            return json{{"cpu_seconds", s.cost}, {"cpu_share", s.seconds > 0 ? json(s.cost / s.seconds) : json()}};
          }),
      support::field("stacks_left_out", &r::stacks_left_out), support::field("findings", &r::findings),
      support::field("chains", &r::chains), support::field("waits", &r::waits), support::field("threads", &r::threads),
      support::field("doing", &r::doings), support::field("remarks", &r::remarks));
}

json as_json(const look_report& r) {
  json all = support::json_value(r);
  make_valid(all);
  return all;
}

}  // namespace usher::reader
