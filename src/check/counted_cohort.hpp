// A cohort of ticket locks that passes the lock within a NUMA node once at most, for mutants of cohort.hpp. Names
// that are not copied into a mutant's namespace are qualified in full.
#pragma once

#include "check/cohort_runs.hpp"
#include "usher/locks/cohort.hpp"

namespace usher::check {

template <platform P, class W>
using counted_cohort = usher::check::counts_runs<cohort<P, W, usher::check::begins_a_run, usher::ticket, 1>>;

}  // namespace usher::check
