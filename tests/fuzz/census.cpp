// Runs the classes `census` and `window_sampler`, which sample a record, and searches the record for deadlocks.
// Before each sample the fuzzer changes words of the record, as a recorded program could.
#include "watch/access/census.hpp"
#include "watch/access/shared_record.hpp"

#include "record_patches.hpp"
#include "watch/reader/read/reading.hpp"
#include "watch/reader/read/window_sampler.hpp"

USHER_FUZZ_TARGET(census) {
  planted_record r;
  source from(input);
  usher::access::census census(r.made.view);
  usher::reader::window_sampler windows(r.made.view, 0);
  for (std::uint64_t now = 10'000; now < 40'000; now += 10'000) {
    r.patch(from, 16);
    census.sample(now);
    windows.sample(now);
    usher::reader::circles(r.made.view);
  }
  r.patch(from, 16);
  census.finish(50'000);
  windows.sample(50'000);
  const usher::reader::waiting_windows found = windows.windows();
  usher::access::make_safe(r.made.view);
  usher::reader::read_report(r.made.view, {0, 50'000, 1e-9}, r.names, 3, nullptr, &found);
  use(std::to_string(census.living_processes()));
}
