// The functions that record sums for `usher stat`.
#include "watch/recorder/embedded_wrappers.hpp"
#include "watch/recorder/recorded_tables.hpp"
#include "watch/recorder/sums.hpp"
#include "watch/recorder/wrappers.hpp"

namespace usher::recorder {

constinit const recorded_tables summed_tables = tables_of<sums>();

}  // namespace usher::recorder
