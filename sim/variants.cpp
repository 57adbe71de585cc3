// Locks that are simulated only: what the TWA paper says of its parameters is seen by changing them.
#include <array>

#include "sim/compile.hpp"
#include "usher/locks/twa.hpp"

namespace usher::sim {

// Named, not unnamed: see catalog/lock.cpp.in.
namespace variants {

// How far from the head a waiter may watch grant (§2; the paper's: one away).
template <class P, class W>
using near_2 = basic_twa<P, W, shared_array<P>, 2>;
template <class P, class W>
using near_4 = basic_twa<P, W, shared_array<P>, 4>;
template <class P, class W>
using near_8 = basic_twa<P, W, shared_array<P>, 8>;

// Neighbouring tickets in neighbouring slots (§2; the paper's: 127 slots apart).
template <class P, class W>
using adjacent = basic_twa<P, W, shared_array<P, twa_array::size, 1>>;

/// The array without the lock in the hash: locks in step meet in the same slots (§2).
template <class P>
class unsalted_array : public shared_array<P> {
 public:
  auto& slot(std::uint32_t number, const void*) const {
    return P::template table<twa_array>()[waiting_array::hash(number, 0) & (twa_array::size - 1)];
  }
};
template <class P, class W>
using unsalted = basic_twa<P, W, unsalted_array<P>>;

// The gang that an unlock brings near (§6, quantized; in the catalogue 4).
template <class P, class W>
using gang_16 = basic_twa<P, W, shared_array<P>, 1, 16>;

constexpr family<simulated_lock> all[] = {
    make_simulated_family<near_2>({"twa-near-2", "twa-near-2-spin", "twa-near-2-yield", "twa-near-2-park",
                                   "twa-near-2-sleep", "twa-near-2-mwait"}),
    make_simulated_family<near_4>({"twa-near-4", "twa-near-4-spin", "twa-near-4-yield", "twa-near-4-park",
                                   "twa-near-4-sleep", "twa-near-4-mwait"}),
    make_simulated_family<near_8>({"twa-near-8", "twa-near-8-spin", "twa-near-8-yield", "twa-near-8-park",
                                   "twa-near-8-sleep", "twa-near-8-mwait"}),
    make_simulated_family<adjacent>({"twa-adjacent", "twa-adjacent-spin", "twa-adjacent-yield", "twa-adjacent-park",
                                     "twa-adjacent-sleep", "twa-adjacent-mwait"}),
    make_simulated_family<unsalted>({"twa-unsalted", "twa-unsalted-spin", "twa-unsalted-yield", "twa-unsalted-park",
                                     "twa-unsalted-sleep", "twa-unsalted-mwait"}),
    make_simulated_family<gang_16>({"twa-gang-16", "twa-gang-16-spin", "twa-gang-16-yield", "twa-gang-16-park",
                                    "twa-gang-16-sleep", "twa-gang-16-mwait"}),
};

}  // namespace variants

std::span<const family<simulated_lock>> simulated_variants() {
  return variants::all;
}

}  // namespace usher::sim
