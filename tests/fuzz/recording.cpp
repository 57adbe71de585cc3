// Reads the input as a recording of `usher record`. What was read must be the same after it is written and read again.
#include "lab/recordings/file.hpp"

#include <cstdlib>

#include "fuzz.hpp"

USHER_FUZZ_TARGET(recording) {
  const recording::recording r = recording::decoded(as_text(input));
  const std::string once = recording::encoded(r);
  if (recording::encoded(recording::decoded(once)) != once) std::abort();
  use(once);
}
