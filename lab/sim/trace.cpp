#include "lab/sim/trace.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "lab/sim/arena.hpp"
#include "lab/sim/coherence.hpp"

namespace usher::sim {
namespace {

std::uint64_t value_of(const void* word, unsigned size) {
  std::uint64_t v = 0;
  std::memcpy(&v, word, std::min<std::size_t>(size, sizeof v));  // the host is little-endian
  return v;
}

std::string counted(std::uint64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

std::string list_of(const std::vector<unsigned>& threads) {
  std::string text;
  for (const unsigned t : threads) text += (text.empty() ? "T" : ", T") + std::to_string(t);
  return text;
}

std::string place_at(unsigned distance, const machine& m) {
  if (m.complexes > 1 && distance-- == 0) return "own complex";
  static constexpr std::array<const char*, 4> names{"own socket", "other socket", "socket two hops away",
                                                    "socket three hops away"};
  return names[std::min<std::size_t>(distance, names.size() - 1)];
}

bool writes_to_line(trace::what w) {
  return w == trace::what::writes || w == trace::what::fetches || w == trace::what::modifies;
}

std::string line_from(const trace::supply& s, bool writes, const machine& m) {
  using from = trace::supply::from;
  switch (s.where) {
    case from::none:
      return "from its store buffer";
    case from::attempt:
      return "still here";
    case from::own_copy:
      if (!writes || s.alone) return "hit";
      break;
    case from::home:
      return "its home, " + place_at(s.distance, m);
    case from::memory:
      return "memory";
    case from::cache:
      if (s.writer >= 0) return place_at(s.distance, m) + ", core " + std::to_string(s.writer) + " wrote it";
      if (!writes) return place_at(s.distance, m) + ", " + counted(s.here + s.others, "copy", "copies");
      break;
  }
  std::string text = "invalidates " + counted(s.here + s.others, "copy", "copies");
  if (s.others == 0) return text;
  const std::string elsewhere = m.complexes > 1 ? "in other complexes" : "in other sockets";
  if (s.here == 0) return text + " " + elsewhere;
  return text + ", " + std::to_string(s.others) + " of them " + elsewhere;
}

}  // namespace

void trace::follow(const arena& a, const machine& m, cycles begin) {
  arena_ = &a;
  machine_ = &m;
  begin_ = begin;
  end_ = begin + m.from_ns(ns_);
}

/// Sorts the steps by time. They were recorded out of order, because a thread that accesses no shared memory runs ahead
/// of the others.
void trace::over() {
  complete();
  std::stable_sort(entries_.begin(), entries_.end(), [](const entry& a, const entry& b) { return a.time < b.time; });
}

void trace::at_line(const line& l, unsigned core, cycles time) {
  time_ = time;
  line_ = &l;
  if (wanted(time)) from_ = supply_of(l, core, *machine_);
}

void trace::at_line_again(const line& l, cycles time) {
  time_ = time;
  line_ = &l;
  from_ = {.where = supply::from::attempt};
}

trace::supply trace::supply_of(const line& l, unsigned core, const machine& m) {
  const unsigned here = m.complex_of(core);
  supply s;
  if (l.owner == std::int32_t(core)) return {.where = supply::from::own_copy, .alone = true};
  if (l.owner != line::nobody) {
    s.where = supply::from::cache;
    s.writer = l.owner;
    s.distance = m.distance(here, m.complex_of(unsigned(l.owner)));
    return s;
  }
  s.distance = distances - 1;
  for (unsigned c = 0; c < m.all_cores(); c++) {
    if (c == core || !l.shared_by(c)) continue;
    const unsigned complex = m.complex_of(c);
    (complex == here ? s.here : s.others)++;
    s.distance = std::min(s.distance, m.distance(here, complex));
  }
  if (l.shared_by(core))
    s.where = supply::from::own_copy;
  else if (s.here + s.others != 0)
    s.where = supply::from::cache;
  else if (l.complexes == 0)
    s.where = supply::from::memory;
  else {
    s.where = supply::from::home;
    s.distance = m.distance(here, l.home);
  }
  return s;
}

void trace::complete() {
  if (modified_ != nothing) entries_[modified_].after = value_of(modified_word_, modified_size_);
  modified_ = last_ = nothing;
}

/// Adds a step. Returns null if the step is outside the traced time.
trace::entry* trace::add(what w, unsigned thread, cycles time, const void* word) {
  complete();
  if (!wanted(time)) return nullptr;
  last_ = entries_.size();
  entry& e = entries_.emplace_back();
  e.time = time;
  e.thread = thread;
  e.does = w;
  if (word != nullptr) {
    e.place = arena_->name_of(word);
    e.line = arena_->offset_of(word) / coherence::line_bytes;
  }
  return &e;
}

trace::entry* trace::add(what w, const access& a, cycles time) {
  entry* const e = add(w, a.thread, time, a.word);
  if (e == nullptr) return nullptr;
  e->took = a.took;
  e->before = e->after = value_of(a.word, a.size);
  return e;
}

void trace::reads(const access& a) {
  if (entry* const e = add(what::reads, a, time_)) e->from = from_;
}

void trace::reads_forwarded(const access& a, cycles time, std::uint64_t value, supply::from where) {
  entry* const e = add(what::reads, a, time);
  if (e == nullptr) return;
  e->after = value;
  e->from.where = where;
}

void trace::modifies(const access& a) {
  entry* const e = add(what::modifies, a, time_);
  if (e == nullptr) return;
  e->from = from_;
  e->to_others.assign(line_->watchers.begin(), line_->watchers.end());
  modified_ = last_;
  modified_word_ = a.word;
  modified_size_ = a.size;
}

void trace::writes(const access& a, std::uint64_t value) {
  entry* const e = add(what::writes, a, time_);
  if (e == nullptr) return;
  e->from = from_;
  e->after = value;
  e->to_others.assign(line_->watchers.begin(), line_->watchers.end());
}

void trace::buffers(const access& a, cycles time, std::uint64_t value) {
  if (entry* const e = add(what::buffers, a, time)) e->after = value;
}

void trace::fetches_ahead(const access& a) {
  entry* const e = add(what::fetches, a, time_);
  if (e == nullptr) return;
  e->from = from_;
  e->to_others.assign(line_->watchers.begin(), line_->watchers.end());
}

void trace::polls(const access& a, bool goes_on) {
  entry* const e = add(what::polls, a, time_);
  if (e == nullptr) return;
  e->from = from_;
  e->goes_on = goes_on;
}

void trace::wakes(unsigned other) {
  if (last_ != nothing) entries_[last_].to_others.push_back(other);
}

void trace::notes(what w, unsigned thread, cycles time, const void* word, cycles took) {
  if (entry* const e = add(w, thread, time, word)) e->took = took;
}

void trace::notes_cpu(what w, unsigned thread, cycles time, unsigned cpu, cycles took) {
  entry* const e = add(w, thread, time, nullptr);
  if (e == nullptr) return;
  e->cpu = cpu;
  e->took = took;
}

std::string trace::entry::text(const machine& m) const {
  const auto changes = [&] { return ": " + std::to_string(before) + " → " + std::to_string(after); };
  const auto value = [&] { return ": " + std::to_string(after); };
  const auto lock = [&] { return place.ends_with("+0") ? place.substr(0, place.size() - 2) : place; };
  std::string s;
  switch (does) {
    case what::arrives:
      return "arrives at " + lock();
    case what::enters:
      return "enters " + lock() + ", " + std::to_string(took) + " cycles after it arrived";
    case what::leaves:
      return "leaves " + lock() + " after " + std::to_string(took) + " cycles";
    case what::reads:
      s = "reads " + place + value();
      break;
    case what::writes:
      s = "writes " + place + changes();
      break;
    case what::buffers:
      return "stores to " + place + ": " + std::to_string(after) + ", into its store buffer";
    case what::fetches:
      s = "fetches " + place + " ahead of its store";
      break;
    case what::modifies:
      s = "modifies " + place + (before == after ? value() + ", unchanged" : changes());
      break;
    case what::spins:
      return "spins on " + place;
    case what::polls:
      s = "looks at " + place + value() + (goes_on ? ", and goes on" : ", and spins on");
      break;
    case what::gives_up:
      return "has spun on " + place + " for long enough";
    case what::sleeps:
      return "sleeps on " + place;
    case what::naps:
      return "sleeps for " + std::to_string(m.to_ns(took)) + " ns";
    case what::wakes:
      return "wakes " + (to_others.empty() ? "nobody" : list_of(to_others)) + " on " + place;
    case what::ready:
      return "is awake and wants a CPU";
    case what::gets_cpu:
      return "gets CPU " + std::to_string(cpu) + ", after a switch of " + std::to_string(took) + " cycles";
    case what::loses_cpu:
      return "loses CPU " + std::to_string(cpu);
    case what::moves:
      return "moves to CPU " + std::to_string(cpu);
    case what::ends:
      return "ends";
  }
  s += "; line " + std::to_string(line) + ", " + counted(took, "cycle", "cycles") + ", " +
       line_from(from, writes_to_line(does), m);
  if (!to_others.empty()) s += "; tells " + list_of(to_others);
  return s;
}

}  // namespace usher::sim
