// For mutants of cohort.hpp: a cohort of ticket locks that hands the lock over within a NUMA node at most once in a
// row. Names that are not copied into a mutant's namespace are fully qualified.
#pragma once

#include "check/engine/cohort_runs.hpp"
#include "usher/locks/cohort.hpp"

namespace usher::check {

template <platform P, class W>
using counted_cohort = usher::check::counts_runs<cohort<P, W, usher::check::begins_a_run, usher::ticket, 1>>;

}  // namespace usher::check
