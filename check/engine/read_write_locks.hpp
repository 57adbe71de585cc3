// Read-write locks whose writers queue on another lock than a ticket lock.
#pragma once

#include "usher/locks/loiter.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/phase_fair.hpp"
#include "usher/locks/steady.hpp"

namespace usher::check {

template <class P, class W>
using phase_fair_mcs = phase_fair<P, W, mcs>;
template <class P, class W>
using phase_fair_loiter = phase_fair<P, W, loiter>;
template <class P, class W>
using phase_fair_steady = phase_fair<P, W, steady>;
template <class P, class W>
using bravo_steady = bravo<P, W, steady>;

}  // namespace usher::check
