// Reads the input as a recording of `usher record`, writes it, and reads it again. The two readings must be equal.
#include "lab/recordings/file.hpp"

#include <cstdlib>

#include "fuzz.hpp"

USHER_FUZZ_TARGET(recording) {
  const recording::recording r = recording::decoded(as_text(input));
  const std::string once = recording::encoded(r);
  if (recording::encoded(recording::decoded(once)) != once) std::abort();
  use(once);
}
