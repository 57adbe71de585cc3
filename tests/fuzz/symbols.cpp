// Reads the segments, symbols and debug information of a file, as a report does to find names. elfutils, which reads
// most of them, is not compiled with sanitizers; but AddressSanitizer checks the heap memory that elfutils frees.
#include "watch/reader/name/symbols.hpp"

#include "../stat/synthetic.hpp"
#include "fuzz.hpp"

USHER_FUZZ_TARGET(symbols) {
  using namespace reader;
  const file_of file(input);
  const std::string path = file.path();
  synthetic made;
  constexpr std::uint64_t begin = 0x400000, size = 0x10000;
  for (std::uint64_t part = 0; part < 4; part++) {
    usher::contract::module_slot& m = made.view.module(made.view.head().modules++);
    m.begin = begin + part * size;
    m.end = m.begin + size;
    m.bias = begin - part * 0x1000;
    m.path_length = static_cast<std::uint32_t>(path.size());
    std::memcpy(made.view.text(), path.data(), path.size());
    m.ready = 1;
  }
  symbols names(made.view);
  for (std::uint64_t part = 0; part < 4; part++)
    for (const std::uint64_t at : {0, 0x40, 0x101, 0x201, 0x3001}) {
      const stack s = names.resolve(0, begin + part * size + at);
      for (const frame& f : s.frames) use(f.function + f.file);
      if (const auto o = names.object_at(0, begin + part * size + at)) use(o->symbol);
    }
}
