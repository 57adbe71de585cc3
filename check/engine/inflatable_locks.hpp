// Inflatable forms of small locks for the checker, so that executions explore the inflation more than the lock.
#pragma once

#include "usher/core/inflatable.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/ticket.hpp"

namespace usher::check {

template <platform P, class W>
using inflatable_ticket = inflatable<P, W, ticket<P, W>>;
template <platform P, class W>
using inflatable_mcs = inflatable<P, W, mcs<P, W>>;
template <platform P, class W>
using inflatable_loiter = inflatable<P, W, loiter<P, W>>;

}  // namespace usher::check
