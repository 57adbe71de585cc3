// Runs the class `census`, which samples the processes and threads of a record, and searches the record for deadlocks.
// Before each sample the fuzzer changes words of the record, as a recorded program could.
#include "watch/access/census.hpp"

#include "record_patches.hpp"
#include "watch/reader/read/reading.hpp"

USHER_FUZZ_TARGET(census) {
  planted_record r;
  source from(input);
  usher::access::census census(r.made.view);
  for (std::uint64_t now = 10'000; now < 40'000; now += 10'000) {
    r.patch(from, 16);
    census.sample(now);
    usher::reader::circles(r.made.view);
  }
  r.patch(from, 16);
  census.finish(50'000);
  use(std::to_string(census.living_processes()));
}
