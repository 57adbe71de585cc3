// A valid record, and changes that a fuzzer makes to it. The fuzzer's input is a list of such changes, because
// arbitrary bytes in place of a record would almost always be refused at once.
#pragma once

#include <array>

#include "../stat/synthetic.hpp"
#include "fuzz.hpp"

namespace usher::fuzz {

/// A record that contains something of every kind: two processes, contended mutexes of three kinds, a condition
/// variable, a semaphore, stacks, a window, a deadlock.
class planted_record {
 public:
  planted_record() {
    using namespace reader;
    names.variable(0x1000, "log_mutex", 40);
    names.variable(0x2000, "pool", 400);
    for (std::uint64_t pc = 0x10; pc < 0x18; pc++)
      names.code[pc] = {frame_of("f" + std::to_string(pc), "/src/f.cpp", unsigned(pc))};
    contract::view& v = made.view;
    made.process(101);
    v.process(1).parent = 1;
    for (unsigned i = 0; i < 4; i++) made.thread(100 + i, i, i / 3);
    std::array<std::uint32_t, 4> chains{};
    for (std::uint64_t i = 0; i < chains.size(); i++) chains[i] = made.chain({0x10 + i, 0x14, 0x17});
    const std::uint32_t one = made.object(contract::kind::mutex, 0x1000),
                        two = made.object(contract::kind::mutex, 0x2028),
                        placed = made.placed(contract::kind::mutex, 0x5000, chains[0]),
                        condition = made.object(contract::kind::condition, 0x6000, 0, 1),
                        semaphore = made.placed(contract::kind::semaphore, 0x7000, chains[1], contract::from_init),
                        sum = made.placed(contract::kind::mutex, (1ull << 47) | 17, chains[0], contract::is_sum);
    for (const std::uint32_t i : {one, two, placed, condition, semaphore, sum}) {
      contract::object& o = made.at(i);
      o.acquisitions = 1000;
      o.contended = 20;
      o.waited = 5'000'000;
      o.longest = 1'000'000;
      o.held = 7'000'000;
      o.holds = 100;
      o.mutex.failed_tries = 3;
      contract::detail& d = made.detail(i);
      d.waits[200] = 20;
      d.holds[100] = 100;
      d.threads[0].index = 1;
      d.threads[0].waits = 20;
      d.threads[0].waited = 5'000'000;
    }
    made.window(one, {0, 1, 0, 1, 2, 3});
    v.head().wait_chunks = 3;
    for (std::uint32_t chunk = 1; chunk < 3; chunk++) {
      v.waits(chunk % 2).number = chunk + 1;
      v.waits(chunk % 2).taken = 1000 * chunk;
      contract::noted_wait& w = v.waits(chunk % 2).waits[0];
      w.begin = 2000 * chunk;
      w.end = 2000 * chunk + 500;
      w.released = contract::released_word(2000 * chunk + 400, 2);
      w.key = contract::key_of(0, 0x1000);
      w.object = one + 1;
      w.kind_result = std::uint32_t(contract::kind::mutex) | contract::is_static << 8;
      w.thread = 1;
      w.tid = w.owner = 100;
      w.stack = chains[1] + 1;
      w.chunk = chunk + 1;
    }
    made.at(one).owner = 1;
    made.at(two).owner = 2;
    made.at(one).hold_begin = made.at(two).hold_begin = 100;
    made.waits(0, two, 1000);
    made.waits(1, one, 2000);
    v.thread(0).chain = chains[2] + 1;
    v.thread(1).caller = 0x11;
    made.charge(contract::charged::waiter, contract::kind::mutex, one, chains[2], 15, 4'000'000);
    made.charge(contract::charged::holder, contract::kind::mutex, one, chains[3], 5, 4'000'000);
    made.charge(contract::charged::waiter, contract::kind::mutex, contract::of_place + chains[0], chains[1], 5,
                1'000'000);
  }

  /// Applies at most `most` changes to the record. Each change takes 8 bytes of the input: the place, the width and the
  /// value of a word. Most places are near the beginning of a table, where the record's entries are.
  void patch(source& from, unsigned most) {
    const contract::capacities room = made.view.room();
    const std::uint64_t size = contract::view::size_for(room);
    for (unsigned i = 0; i < most && !from.is_empty(); i++) {
      const auto where = from.take<std::uint16_t>();
      const auto width = from.take<std::uint8_t>();
      const auto shift = from.take<std::uint8_t>();
      const std::uint64_t value = std::uint64_t{from.take<std::uint32_t>()} << shift % 64;
      std::byte* const begin = table(where >> 12);
      const std::uint64_t at =
          static_cast<std::uint64_t>(begin - bytes_of_record()) + (where & 0xfffu) * (width & 0x80 ? 16 : 1);
      const std::size_t n = std::size_t{1} << width % 4;
      if (at + n <= size) std::memcpy(bytes_of_record() + at, &value, n);
    }
  }

  reader::synthetic made{few()};
  reader::made_up_names names{made.view};

 private:
  /// The tables are small, because otherwise most of the time would be spent on empty entries.
  static contract::capacities few() {
    contract::capacities c = reader::synthetic::small();
    c.objects = 64;
    c.details = c.chains = c.charges = 16;
    c.windows = c.waits = 2;
    return c;
  }
  std::byte* bytes_of_record() const { return reinterpret_cast<std::byte*>(&made.view.head()); }
  std::byte* table(unsigned number) const {
    const contract::view& v = made.view;
    void* const begins[] = {&v.head(),    &v.process(0), &v.thread(0), &v.object(0), &v.detail(0),
                            &v.chain(0),  &v.charge(0),  &v.window(0), &v.module(0), v.text(),
                            &v.object(1), &v.detail(1),  &v.waits(0),  &v.waits(1)};
    return static_cast<std::byte*>(begins[number % std::size(begins)]);
  }
};

}  // namespace usher::fuzz
