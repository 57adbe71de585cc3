// The search for circles among threads each of which waits for at most one other thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace usher::reader {

/// Finds circles of threads, given by indices below `threads`. `next(i)` returns the thread for which thread i waits,
/// or an index ≥ `threads` if there is none. Returns the circles for which `is_accepted(circle)` is true, at most
/// `most`, each in the order of waiting.
///
/// A walk goes from each thread to the thread that it waits for, until it ends or enters a circle. No waiting thread is
/// visited twice, even if threads begin other waits during the search.
template <class Next, class IsAccepted>
std::vector<std::vector<std::uint32_t>> find_circles(std::uint32_t threads, std::size_t most, Next next,
                                                     IsAccepted is_accepted) {
  std::vector<std::vector<std::uint32_t>> found;
  std::vector<std::uint32_t> walk_of(threads, 0);  // 0: not visited
  for (std::uint32_t start = 0; start < threads && found.size() < most; start++) {
    const std::uint32_t walk = start + 1;
    std::vector<std::uint32_t> path;
    std::uint32_t at = start;
    while (at < threads && walk_of[at] == 0) {
      const std::uint32_t then = next(at);
      if (then < threads) {
        walk_of[at] = walk;
        path.push_back(at);
      }
      at = then;
    }
    if (at >= threads || walk_of[at] != walk) continue;
    std::vector<std::uint32_t> circle(std::find(path.begin(), path.end(), at), path.end());
    if (is_accepted(circle)) found.push_back(std::move(circle));
  }
  return found;
}

}  // namespace usher::reader
