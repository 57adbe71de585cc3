// Synthetic records, like those that a recorded program writes, and names for the addresses in them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "watch/contract/format.hpp"
#include "watch/reader/name/symbols.hpp"
#include "watch/reader/read/reading.hpp"

namespace usher::reader {

/// A small record that tests fill in. Ticks are nanoseconds, which is the default of time_scale.
class synthetic {
 public:
  explicit synthetic(const contract::capacities& room = small())
      : memory_(std::aligned_alloc(4096, contract::view::size_for(room)), &std::free) {
    std::memset(memory_.get(), 0, contract::view::size_for(room));
    view = contract::view(memory_.get(), room);
    view.head().magic = contract::magic;
    view.head().version = contract::version;
    view.head().room = room;
    process(100);
  }

  static contract::capacities small() {
    contract::capacities c;
    c.objects = 4096;
    c.details = 64;
    c.threads = 64;
    c.processes = 8;
    c.modules = 8;
    c.text = 4096;
    c.chains = 64;
    c.charges = 64;
    c.windows = 8;
    return c;
  }

  std::uint32_t process(std::uint32_t pid, std::uint64_t ended = 0) {
    const std::uint32_t i = view.head().processes++;
    view.process(i).pid = pid;
    view.process(i).ended = ended;
    std::strcpy(view.process(i).lock, "pthread");
    return i;
  }

  std::uint32_t thread(std::uint32_t tid, std::uint64_t first = 0, std::uint32_t of = 0) {
    const std::uint32_t i = view.head().threads++;
    view.thread(i).tid = tid;
    view.thread(i).first = first;
    view.thread(i).process = of;
    return i;
  }

  /// Adds an object that has no place. placed(), below, adds an object whose place is a call chain.
  std::uint32_t object(kind what, std::uint64_t address, std::uint32_t flags = contract::is_static,
                       std::uint32_t of = 0) {
    const std::uint32_t i = next_object_++;
    contract::object& o = view.object(i);
    o.key = contract::key_of(of, address);
    o.depth_and_kind = std::uint32_t(what);
    o.flags = flags;
    return i;
  }
  std::uint32_t placed(kind what, std::uint64_t address, std::uint32_t chain, std::uint32_t flags = 0,
                       std::uint32_t of = 0) {
    const std::uint32_t i = object(what, address, flags, of);
    view.object(i).place = chain + 1;
    return i;
  }
  contract::object& at(std::uint32_t object) { return view.object(object); }

  contract::detail& detail(std::uint32_t object) {
    const std::uint32_t i = view.head().details++;
    view.object(object).detail = i + 1;
    view.detail(i).object = object + 1;
    return view.detail(i);
  }

  std::uint32_t chain(std::initializer_list<std::uint64_t> pcs, std::uint32_t of = 0) {
    const std::uint32_t i = next_chain_++;
    contract::chain& c = view.chain(i);
    c.hash = i + 1;
    c.process = of;
    for (const std::uint64_t pc : pcs) c.pc[c.length++] = pc;
    c.ready = 1;
    return i;
  }

  void charge(contract::charged what, kind k, std::uint32_t whom, std::uint32_t chain, std::uint64_t count,
              std::uint64_t ticks) {
    contract::charge& c = view.charge(next_charge_++);
    c.key = contract::charge_key(what, k, whom, chain);
    c.count = count;
    c.ticks = ticks;
  }

  void window(std::uint32_t object, const std::vector<std::uint16_t>& owners) {
    contract::window& w = view.window(view.head().windows++);
    w.object = object + 1;
    for (std::size_t i = 0; i < owners.size(); i++) w.owners[i] = owners[i];
    w.count = std::uint32_t(owners.size());
  }

  /// Records the beginning of a thread's wait, as libusher.so does.
  void waits(std::uint32_t thread, std::uint32_t object, std::uint64_t since) {
    view.thread(thread).since = since;
    view.thread(thread).waits_for = object + 1;
    view.object(object).waiting += contract::arrival(since);
  }

  contract::view view;

 private:
  std::unique_ptr<void, decltype(&std::free)> memory_;
  std::uint32_t next_object_ = 0, next_chain_ = 0, next_charge_ = 0;
};

inline frame frame_of(std::string function, std::string file, unsigned line, std::string module = "/bin/server") {
  frame f;
  f.function = std::move(function);
  f.file = std::move(file);
  f.line = line;
  f.module = std::move(module);
  return f;
}

/// Names that the test gives to addresses. A static object has the same name in all processes.
class made_up_names : public symbols {
 public:
  explicit made_up_names(contract::view record) : symbols(record) {}

  stack resolve(const contract::chain& c) override {
    stack all;
    for (std::uint32_t i = 0; i < c.length; i++) {
      stack s = resolve(c.process, c.pc[i]);
      all.frames.insert(all.frames.end(), s.frames.begin(), s.frames.end());
    }
    all.is_cut = c.cut != 0;
    return all;
  }
  stack resolve(std::uint32_t, std::uint64_t pc) override {
    resolved++;
    const auto at = code.find(pc);
    frame unknown;
    unknown.address = pc;
    stack s;
    s.frames = at != code.end() ? at->second : std::vector{unknown};
    for (frame& f : s.frames) f.address = pc;
    return s;
  }
  std::optional<static_object> object_at(std::uint32_t, std::uint64_t address) override {
    for (const auto& [begin, symbol] : data) {
      if (address < begin || address >= begin + symbol.size) continue;
      static_object s = symbol;
      s.offset = address - begin;
      s.module_offset = address & 0xffff;
      return s;
    }
    return std::nullopt;
  }

  void variable(std::uint64_t address, std::string name, std::uint64_t size, std::string module = "/bin/server") {
    static_object s;
    s.symbol = std::move(name);
    s.size = size;
    s.module = std::move(module);
    data[address] = std::move(s);
  }

  std::map<std::uint64_t, std::vector<frame>> code;
  std::map<std::uint64_t, static_object> data;
  unsigned resolved = 0;
};

}  // namespace usher::reader
