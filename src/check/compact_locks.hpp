// Compact forms for the checker, over locks that are small so that there is something else to explore.
#pragma once

#include "usher/core/inflatable.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/ticket.hpp"

namespace usher::check {

template <platform P, class W>
using compact_ticket = compact<P, W, ticket<P, W>>;
template <platform P, class W>
using compact_mcs = compact<P, W, mcs<P, W>>;
template <platform P, class W>
using compact_loiter = compact<P, W, loiter<P, W>>;

}  // namespace usher::check
