// The functions that write streams for `usher record`.
#include "watch/recorder/embedded_wrappers.hpp"
#include "watch/recorder/recorded_tables.hpp"
#include "watch/recorder/streams.hpp"
#include "watch/recorder/wrappers.hpp"

namespace usher::recorder {

constinit const recorded_tables streamed_tables = tables_of<streams>();

}  // namespace usher::recorder
