#include "watch/access/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <numeric>
#include <protozero/pbf_builder.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "support/text/utf8.hpp"

namespace usher::access {
namespace {

using contract::kind;

// Numbers of the fields and values, from Perfetto's perfetto_trace.proto.
enum class trace_field : protozero::pbf_tag_type { packet = 1 };
enum class packet_field : protozero::pbf_tag_type {
  clock_snapshot = 6,
  timestamp = 8,
  trusted_packet_sequence_id = 10,
  track_event = 11,
  interned_data = 12,
  sequence_flags = 13,
  trace_packet_defaults = 59,
  track_descriptor = 60,
};
enum class defaults_field : protozero::pbf_tag_type { timestamp_clock_id = 58 };
enum class snapshot_field : protozero::pbf_tag_type { clocks = 1 };
enum class clock_field : protozero::pbf_tag_type { clock_id = 1, timestamp = 2 };
enum class track_field : protozero::pbf_tag_type {
  uuid = 1,
  name = 2,
  process = 3,
  thread = 4,
  parent_uuid = 5,
  counter = 8,
};
enum class process_field : protozero::pbf_tag_type { pid = 1, process_name = 6 };
enum class thread_field : protozero::pbf_tag_type { pid = 1, tid = 2, thread_name = 5 };
enum class counter_field : protozero::pbf_tag_type { unit = 3 };
enum class event_field : protozero::pbf_tag_type {
  category_iids = 3,
  debug_annotations = 4,
  type = 9,
  name_iid = 10,
  track_uuid = 11,
  counter_value = 30,
  flow_ids = 47,
  terminating_flow_ids = 48,
};
enum class interned_field : protozero::pbf_tag_type { event_categories = 1, event_names = 2 };
enum class name_field : protozero::pbf_tag_type { iid = 1, name = 2 };
enum class annotation_field : protozero::pbf_tag_type { bool_value = 2, string_value = 6, name = 10 };

constexpr std::uint32_t real_time = 1, monotonic = 3, boot_time = 6;             // clocks
constexpr std::uint32_t state_is_cleared = 1, state_is_needed = 2;               // flags of a sequence
constexpr std::uint32_t slice_begin = 1, slice_end = 2, instant = 3, count = 4;  // types of events
constexpr std::uint32_t unit_count = 2, the_sequence = 1, the_category = 1;

constexpr std::size_t longest_name = 160;  // bytes; chosen

/// A name of the program as a part of a slice's name.
std::string safe(const std::string& name) {
  std::string s = support::printable(name, longest_name);
  std::replace(s.begin(), s.end(), '\n', ' ');
  constexpr std::string_view reserved = "(owner tid: ";
  for (std::size_t at = 0; (at = s.find(reserved, at)) != std::string::npos;) s[at] = '[';
  return s.empty() ? "?" : s;
}

std::string slice_name(const timeline::object& o, std::int64_t owner) {
  const std::string name = safe(o.name);
  switch (o.kind) {
    case kind::condition:
      return "Wait for condition " + name;
    case kind::semaphore:
      return "Wait for semaphore " + name;
    case kind::barrier:
      return "Wait at barrier " + name;
    case kind::join:
    case kind::thread:
      return "Wait for the end of a thread, " + name;
    default:
      return fmt::format("Lock contention on {} (owner tid: {})", name, owner);
  }
}

/// One event of the trace, in the order in which they are written.
struct moment {
  std::uint64_t at;
  enum class what : std::uint8_t { ends, unlock, locked, begins } is;
  std::uint64_t inner;  ///< of several ends or begins at one time on one track, the order
  std::size_t wait;
  std::uint64_t end;  ///< of a beginning: the end, which may have been cut; 0: none
  auto key() const { return std::tuple(at, is, inner, wait); }
};

class writer {
 public:
  explicit writer(const timeline& t) : t_(t), trace_(out_) {}

  std::string write() {
    header();
    tracks();
    for (const moment& m : moments()) event(m);
    return std::move(out_);
  }

 private:
  using packet = protozero::pbf_builder<packet_field>;
  using event_builder = protozero::pbf_builder<event_field>;

  // The numbers of tracks. 0 is Perfetto's own track.
  std::uint64_t of_process(std::size_t i) const { return 1 + i; }
  std::uint64_t of_thread(std::size_t i) const { return 1 + t_.processes.size() + i; }
  std::uint64_t of_counter(std::size_t i) const { return 1 + t_.processes.size() + t_.threads.size() + i; }
  std::uint64_t of_recording() const { return 1 + t_.processes.size() + t_.threads.size() + t_.objects.size(); }

  bool is_valid(const timeline::wait& w) const {
    return w.thread < t_.threads.size() && w.object < t_.objects.size() &&
           t_.threads[w.thread].process < t_.processes.size() && t_.objects[w.object].process < t_.processes.size() &&
           (w.end == 0 || w.end >= w.begin);
  }

  void header() {
    {
      packet p(trace_, trace_field::packet);
      {
        protozero::pbf_builder<snapshot_field> s(p, packet_field::clock_snapshot);
        for (const auto& [id, time] :
             {std::pair(monotonic, t_.at.monotonic), {boot_time, t_.at.boot}, {real_time, t_.at.real}}) {
          protozero::pbf_builder<clock_field> c(s, snapshot_field::clocks);
          c.add_uint32(clock_field::clock_id, id);
          c.add_uint64(clock_field::timestamp, time);
        }
      }
      p.add_uint32(packet_field::trusted_packet_sequence_id, the_sequence);
    }
    packet p(trace_, trace_field::packet);
    {
      protozero::pbf_builder<defaults_field> d(p, packet_field::trace_packet_defaults);
      d.add_uint32(defaults_field::timestamp_clock_id, monotonic);
    }
    {
      protozero::pbf_builder<interned_field> i(p, packet_field::interned_data);
      protozero::pbf_builder<name_field> c(i, interned_field::event_categories);
      c.add_uint64(name_field::iid, the_category);
      c.add_string(name_field::name, "lock");
    }
    p.add_uint32(packet_field::trusted_packet_sequence_id, the_sequence);
    p.add_uint32(packet_field::sequence_flags, state_is_cleared);
  }

  template <class F>
  void track(std::uint64_t uuid, F describe) {
    packet p(trace_, trace_field::packet);
    {
      protozero::pbf_builder<track_field> d(p, packet_field::track_descriptor);
      d.add_uint64(track_field::uuid, uuid);
      describe(d);
    }
    p.add_uint32(packet_field::trusted_packet_sequence_id, the_sequence);
  }

  void tracks() {
    for (std::size_t i = 0; i < t_.processes.size(); i++)
      track(of_process(i), [&](auto& d) {
        protozero::pbf_builder<process_field> of(d, track_field::process);
        of.add_int32(process_field::pid, static_cast<std::int32_t>(t_.processes[i].pid));
        of.add_string(process_field::process_name, safe(t_.processes[i].name));
      });
    for (std::size_t i = 0; i < t_.threads.size(); i++) {
      const timeline::thread& one = t_.threads[i];
      if (one.process >= t_.processes.size()) continue;
      track(of_thread(i), [&](auto& d) {
        protozero::pbf_builder<thread_field> of(d, track_field::thread);
        of.add_int32(thread_field::pid, static_cast<std::int32_t>(t_.processes[one.process].pid));
        of.add_int64(thread_field::tid, one.tid);
        if (!one.name.empty()) of.add_string(thread_field::thread_name, safe(one.name));
      });
    }
    choose_counters();
    for (std::size_t i = 0; i < t_.objects.size(); i++) {
      if (!is_counted_[i]) continue;
      track(of_counter(i), [&](auto& d) {
        d.add_uint64(track_field::parent_uuid, of_process(t_.objects[i].process));
        d.add_string(track_field::name, "waiters: " + safe(t_.objects[i].name));
        protozero::pbf_builder<counter_field> of(d, track_field::counter);
        of.add_uint32(counter_field::unit, unit_count);
      });
    }
    if (t_.recorded.empty()) return;
    track(of_recording(), [](auto& d) { d.add_string(track_field::name, "recorded by usher"); });
    for (const timeline::interval& i : t_.recorded) {
      if (i.end < i.begin) continue;
      for (const auto& [at, type] : {std::pair(i.begin, slice_begin), {i.end, slice_end}})
        write_event(at, type, of_recording(), type == slice_begin ? "recorded" : "");
    }
  }

  /// Chooses the objects for which threads waited longest.
  void choose_counters() {
    is_counted_.assign(t_.objects.size(), false);
    waiters_.assign(t_.objects.size(), 0);
    std::vector<std::uint64_t> waited(t_.objects.size());
    for (const timeline::wait& w : t_.waits)
      if (is_valid(w) && w.end != 0) waited[w.object] += w.end - w.begin;
    std::vector<std::size_t> order(t_.objects.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return waited[a] > waited[b]; });
    for (std::size_t i = 0; i < order.size() && i < most_counters; i++)
      is_counted_[order[i]] = waited[order[i]] != 0 && t_.objects[order[i]].process < t_.processes.size();
  }

  /// The events of all waits in the order of time. On a track they are properly nested: a wait in a signal handler, or for the
  /// mutex within a wait for a condition, lies within another one; what exceeds that is cut.
  std::vector<moment> moments() const {
    std::vector<std::vector<std::size_t>> by_thread(t_.threads.size());
    for (std::size_t i = 0; i < t_.waits.size(); i++)
      if (is_valid(t_.waits[i])) by_thread[t_.waits[i].thread].push_back(i);
    constexpr std::uint64_t never = ~std::uint64_t{0};
    std::vector<moment> all;
    for (std::vector<std::size_t>& own : by_thread) {
      const auto end_of = [&](std::size_t i) {
        const timeline::wait& w = t_.waits[i];
        return w.end == 0 ? never : std::max(w.end, w.begin + 1);
      };
      std::stable_sort(own.begin(), own.end(), [&](std::size_t a, std::size_t b) {
        return std::tuple(t_.waits[a].begin, never - end_of(a)) < std::tuple(t_.waits[b].begin, never - end_of(b));
      });
      std::vector<std::uint64_t> around;  // the ends of the waits around this one
      for (const std::size_t i : own) {
        const timeline::wait& w = t_.waits[i];
        while (!around.empty() && around.back() <= w.begin) around.pop_back();
        const std::uint64_t end = around.empty() ? end_of(i) : std::min(end_of(i), around.back());
        const std::uint64_t depth = around.size();
        around.push_back(end);
        all.push_back({w.begin, moment::what::begins, depth, i, end == never ? 0 : end});
        if (end == never) continue;
        all.push_back({end, moment::what::ends, never - depth, i, 0});
        if (w.releaser >= t_.threads.size() || w.released < w.begin || w.released > end) continue;
        all.push_back({w.released, moment::what::unlock, 0, i, 0});
        all.push_back({end, moment::what::locked, 0, i, 0});
      }
    }
    std::sort(all.begin(), all.end(), [](const moment& a, const moment& b) { return a.key() < b.key(); });
    return all;
  }

  void event(const moment& m) {
    const timeline::wait& w = t_.waits[m.wait];
    const timeline::object& o = t_.objects[w.object];
    const std::uint64_t flow = m.wait + 1;
    switch (m.is) {
      case moment::what::begins:
        write_event(m.at, slice_begin, of_thread(w.thread), slice_name(o, w.owner),
                    [&](event_builder& e) { annotate(e, "at", w.where); });
        return change(m.at, w.object, 1);
      case moment::what::ends:
        write_event(m.at, slice_end, of_thread(w.thread), "", [&](event_builder& e) {
          if (!w.gave_up) return;
          protozero::pbf_builder<annotation_field> a(e, event_field::debug_annotations);
          a.add_string(annotation_field::name, "timed out");
          a.add_bool(annotation_field::bool_value, true);
        });
        return change(m.at, w.object, -1);
      case moment::what::unlock:
        return write_event(m.at, instant, of_thread(w.releaser), "unlock", [&](event_builder& e) {
          e.add_fixed64(event_field::flow_ids, flow);
          annotate(e, "lock", o.name);
        });
      case moment::what::locked:
        return write_event(m.at, instant, of_thread(w.thread), "locked", [&](event_builder& e) {
          e.add_fixed64(event_field::terminating_flow_ids, flow);
          annotate(e, "lock", o.name);
        });
    }
  }

  void change(std::uint64_t at, std::uint32_t object, std::int64_t by) {
    if (!is_counted_[object]) return;
    waiters_[object] += by;
    write_event(at, count, of_counter(object), "",
                [&](event_builder& e) { e.add_int64(event_field::counter_value, waiters_[object]); });
  }

  static void annotate(event_builder& e, const char* name, const std::string& text) {
    if (text.empty()) return;
    protozero::pbf_builder<annotation_field> a(e, event_field::debug_annotations);
    a.add_string(annotation_field::name, name);
    a.add_string(annotation_field::string_value, safe(text));
  }

  void write_event(std::uint64_t at, std::uint32_t type, std::uint64_t on, const std::string& name) {
    write_event(at, type, on, name, [](event_builder&) {});
  }
  template <class F>
  void write_event(std::uint64_t at, std::uint32_t type, std::uint64_t on, const std::string& name, F more) {
    packet p(trace_, trace_field::packet);
    p.add_uint64(packet_field::timestamp, at);
    p.add_uint32(packet_field::trusted_packet_sequence_id, the_sequence);
    p.add_uint32(packet_field::sequence_flags, state_is_needed);
    std::uint64_t number = 0;
    if (!name.empty()) {
      const auto [known, is_new] = names_.try_emplace(name, names_.size() + 1);
      number = known->second;
      if (is_new) {
        protozero::pbf_builder<interned_field> i(p, packet_field::interned_data);
        protozero::pbf_builder<name_field> n(i, interned_field::event_names);
        n.add_uint64(name_field::iid, number);
        n.add_string(name_field::name, name);
      }
    }
    event_builder e(p, packet_field::track_event);
    e.add_uint32(event_field::type, type);
    e.add_uint64(event_field::track_uuid, on);
    if (number != 0) {
      e.add_uint64(event_field::category_iids, the_category);
      e.add_uint64(event_field::name_iid, number);
    }
    more(e);
  }

  const timeline& t_;
  std::string out_;
  protozero::pbf_builder<trace_field> trace_;
  std::map<std::string, std::uint64_t> names_;
  std::vector<bool> is_counted_;
  std::vector<std::int64_t> waiters_;
};

std::uint64_t read(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

timeline::clocks timeline::clocks::now() {
  return {read(CLOCK_MONOTONIC), read(CLOCK_BOOTTIME), read(CLOCK_REALTIME)};
}

std::string as_perfetto(const timeline& t) {
  return writer(t).write();
}

}  // namespace usher::access
