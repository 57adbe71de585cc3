// Reads the input as the slots and then the chunks that threads of a recorded program wrote in two windows, and makes a
// recording of them.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "fuzz.hpp"
#include "lab/recordings/assemble.hpp"
#include "lab/recordings/file.hpp"

namespace usher::fuzz {
namespace {

/// Fills `words` from changes of 6 bytes each, an index and a value, so that a short input fills many words.
void fill(source& from, std::uint64_t* words, std::size_t n) {
  for (unsigned i = 0; i < 64 && !from.is_empty(); i++) {
    const auto at = from.take<std::uint16_t>();
    const auto value = from.take<std::uint32_t>();
    // Half of the values are made to look like recorded calls, by the bits that mark a call.
    words[at % n] = (at & 0x8000) != 0 ? value : contract::call_mark | std::uint64_t{value} << 32 | value;
  }
}

}  // namespace
}  // namespace usher::fuzz

USHER_FUZZ_TARGET(streams) {
  constexpr std::size_t threads = 3, chunks = 4;
  source from(input);
  const auto slots = std::make_unique<usher::contract::stream_slot[]>(threads);
  const auto written = std::make_unique<usher::contract::stream_chunk[]>(chunks);
  for (std::uint32_t i = 0; i < threads; i++) slots[i].tid = i + 1;
  for (std::uint32_t i = 0; i < chunks; i++) {
    written[i].window = 1;
    written[i].thread = i % threads + 1;
    for (std::uint32_t k = 0; k < 20; k++) {  // a plausible beginning
      usher::contract::stream_call& c = written[i].calls[k];
      c.word = usher::contract::word_of_call(k % 2 == 0 ? usher::contract::verb::lock : usher::contract::verb::unlock,
                                             0x1000);
      c.begin = 1000 * i + 50 * k;
      c.end = 1000 * i + 50 * k + 20;
    }
  }
  recording::assembling how;
  how.between_calls_ns = from.take<std::uint8_t>();
  how.within_call_ns = how.between_calls_ns / 2;
  recording::assembler to(how);
  for (int n = 0; n < 2; n++) {
    fill(from, reinterpret_cast<std::uint64_t*>(slots.get()), threads * sizeof(usher::contract::stream_slot) / 8);
    fill(from, reinterpret_cast<std::uint64_t*>(written.get()), chunks * sizeof(usher::contract::stream_chunk) / 8);
    recording::raw_window w;
    w.opened = 10;
    w.closed = 1'000'000;
    w.threads = recording::threads_of({slots.get(), threads});
    std::uint32_t number = 0;
    for (recording::raw_thread& t : w.threads) {
      t.thread = number++;
      if (from.take<std::uint8_t>() % 2 != 0)
        t.before = recording::thread_state{from.take<std::uint64_t>(), true, number % 2, number};
      if (from.take<std::uint8_t>() % 2 != 0)
        t.after =
            recording::thread_state{from.take<std::uint64_t>(), number % 2 != 0, number % 2, 1'000'000 + 700 * number};
    }
    if (recording::add_calls(w, {written.get(), chunks}, 1)) to.add(w);
  }
  const std::string content = recording::encoded(to.finish());
  try {
    recording::decoded(content);
  } catch (const std::exception& e) {
    std::fputs(e.what(), stderr);
    std::abort();  // a recording that was made is unreadable: the command would have written such a file
  }
}
