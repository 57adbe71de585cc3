#include "check/engine/explore.hpp"

namespace usher::check {

std::vector<target> all_targets() {
  std::vector<target> all;
  for (auto&& some : {lock_targets(), queue_targets(), condition_targets(), semaphore_targets(), read_write_targets()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace usher::check
