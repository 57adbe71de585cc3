#include "lab/recordings/raw_window.hpp"

#include <algorithm>
#include <cstring>

namespace usher::recording {
namespace {

constexpr std::uint64_t address_bits = 0xffffffffffffu;

template <class T>
T read(const std::atomic<T>& w) {
  return w.load(std::memory_order_relaxed);
}

/// Decodes a call. Nullopt if no call has this word.
std::optional<raw_call> call_of(std::uint64_t word, std::uint64_t other, std::uint64_t begin, std::uint64_t end) {
  const auto what = static_cast<unsigned>(word >> 48 & 0xff);
  if ((word & contract::call_mark) == 0 || what > contract::last_verb) return std::nullopt;
  raw_call c;
  c.what = static_cast<contract::verb>(what);
  c.slow = (word & contract::slow_call) != 0;
  c.recursive = (word & contract::recursive_call) != 0;
  c.object = word & address_bits;
  c.other = c.what == contract::verb::cpu_clock ? other : other & address_bits;
  c.begin = begin;
  c.end = end;
  return c;
}

std::string name_of(const contract::stream_slot& s) {
  char text[16];
  const std::uint64_t words[2] = {read(s.name[0]), read(s.name[1])};
  std::memcpy(text, words, sizeof text);
  return plain_name(std::string(text, strnlen(text, sizeof text)));
}

}  // namespace

std::string plain_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return name;
}

std::vector<raw_thread> threads_of(std::span<const contract::stream_slot> slots) {
  std::vector<raw_thread> found;
  for (std::size_t i = 0; i < slots.size(); i++) {
    const contract::stream_slot& s = slots[i];
    if (read(s.tid) == 0 || read(s.over) != 0) continue;
    raw_thread t;
    t.slot = static_cast<std::uint32_t>(i);
    t.process = read(s.process);
    t.pid = read(s.pid);
    t.tid = read(s.tid);
    t.mapped_at = read(s.mapped_at);
    t.self = read(s.self) & address_bits;
    t.name = name_of(s);
    if (const std::uint64_t word = read(s.call); word != 0) {
      t.sleeping = call_of(word, read(s.call_other), read(s.call_since), 0);
      if (t.sleeping && t.sleeping->what == contract::verb::cpu_clock) t.sleeping.reset();
    }
    found.push_back(std::move(t));
  }
  return found;
}

bool add_calls(raw_window& w, std::span<const contract::stream_chunk> chunks, std::uint64_t window) {
  std::vector<std::size_t> of_slot;  // + 1: the index in w.threads
  for (std::size_t i = 0; i < w.threads.size(); i++) {
    of_slot.resize(std::max<std::size_t>(of_slot.size(), w.threads[i].slot + std::size_t{1}));
    of_slot[w.threads[i].slot] = i + 1;
  }
  std::vector<bool> is_cut(w.threads.size());
  for (const contract::stream_chunk& c : chunks) {
    const std::uint32_t slot = read(c.thread) - 1;
    if (read(c.window) != window || slot >= of_slot.size() || of_slot[slot] == 0) continue;
    const std::size_t at = of_slot[slot] - 1;
    raw_thread& t = w.threads[at];
    for (const contract::stream_call& raw : c.calls) {
      const std::uint64_t end = read(raw.end);
      if (end == 0) break;
      std::optional<raw_call> call = call_of(read(raw.word), read(raw.other), read(raw.begin), end);
      // A call that ended before the window was written by a thread that was stopped in the middle of a write.
      if (!call || call->begin > end || end < w.opened) return false;
      if (is_cut[at]) continue;
      if (end > w.closed) {
        is_cut[at] = true;
        if (call->begin < w.closed && call->slow) t.sleeping = call;
        continue;
      }
      if (!t.calls.empty() && end < t.calls.back().end) return false;
      // A call by a signal handler interrupted the previous call: its times lie within that call.
      if (!t.calls.empty()) call->begin = std::max(call->begin, t.calls.back().end);
      t.calls.push_back(*call);
    }
  }
  for (raw_thread& t : w.threads) {
    if (!t.sleeping) continue;
    const bool is_within =
        t.sleeping->begin < w.closed && (t.calls.empty() || t.sleeping->begin >= t.calls.back().begin);
    const bool has_returned = !t.calls.empty() && t.calls.back().begin >= t.sleeping->begin;
    if (!is_within || has_returned)
      t.sleeping.reset();
    else
      t.sleeping->end = w.closed;
  }
  return true;
}

}  // namespace usher::recording
