// The recorders, as libusher.so sees them (preload/observer.hpp), and the place where another process attaches one.
#include "library/preload/observer.hpp"

#include <unistd.h>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/message.hpp"
#include "watch/contract/attach_point.hpp"
#include "watch/contract/format.hpp"
#include "watch/recorder/recorded_calls.hpp"
#include "watch/recorder/recorded_embedded.hpp"
#include "watch/recorder/recorded_others.hpp"
#include "watch/recorder/streams.hpp"

namespace usher::preload {
namespace {

void begin() {
  if (const std::string_view file = variable(record::variable); !file.empty() && c_library::is_glibc())
    record_in(file.data());  // the path ends where the variable does
  if (const std::string_view file = variable(record::stream_variable); !file.empty() && c_library::is_glibc())
    stream_into(file.data());
}

bool is_requested() {
  return has_request() && c_library::is_glibc();
}

constexpr std::uint64_t streamed = ~std::uint64_t{0};  // no recording has this number

/// `usher stat -p` takes the place of `usher record` while it records.
std::uint64_t state() {
  const std::uint64_t recording = current_recording.load(std::memory_order_relaxed);
  return recording == 0 && is_streamed() ? streamed : recording;
}

observed_calls connect_recorder(std::uint64_t state) {
  const bool is_recorded = state != 0 && state != streamed;
  connect_embedded(is_recorded);
  if (state == streamed)
    connect_streamed_others();
  else
    connect_others(is_recorded);
  if (state == 0) return {};
  const rwlock_calls* const rwlocks = state == streamed ? &streamed_rwlocks : &recorded_rwlocks;
  return {state == streamed ? &streamed_calls : &recorded_calls, &usher_companion_v3 != nullptr ? rwlocks : nullptr};
}

}  // namespace
}  // namespace usher::preload

constinit const usher::preload::observer usher_observer{.begin = usher::preload::begin,
                                                        .is_requested = usher::preload::is_requested,
                                                        .begin_requested = usher::preload::record_as_requested,
                                                        .state = usher::preload::state,
                                                        .connect = usher::preload::connect_recorder};

[[gnu::used]] constinit usher::preload::attach_point usher_attach{
    .magic = usher::preload::attach_point::expected,
    .version = {USHER_PRELOAD_VERSION},
    .format = usher::record::version,
    .calls = sizeof(usher::preload::calls) / sizeof(void*),
    .current_calls = &usher::preload::current_calls,
    .first_calls = &usher::preload::first_calls,
    .request = {},
    .heartbeat = 0,
    .answered = 0,
    .descriptor = -1,
    .error = 0,
    .failed_call = 0,
    .file = 0};
