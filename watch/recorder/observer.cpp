// The recorders, as used by libusher.so (preload/observer.hpp), and the attach point for another process.
#include "library/preload/observer.hpp"

#include <unistd.h>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/message.hpp"
#include "watch/contract/attach_point.hpp"
#include "watch/contract/format.hpp"
#include "watch/recorder/recorded_tables.hpp"
#include "watch/recorder/recorder.hpp"
#include "watch/recorder/streams.hpp"

namespace usher::recorder {
namespace {

void begin() {
  if (const std::string_view file = preload::variable(contract::variable);
      !file.empty() && preload::c_library::is_glibc())
    record_in(file.data());  // the string ends where the variable ends
  if (const std::string_view file = preload::variable(contract::stream_variable);
      !file.empty() && preload::c_library::is_glibc())
    stream_into(file.data());
}

bool is_requested() {
  return has_request() && preload::c_library::is_glibc();
}

constexpr std::uint64_t streamed = ~std::uint64_t{0};  // no recording has this number

/// While `usher stat -p` records, `usher record` does not.
std::uint64_t state() {
  const std::uint64_t recording = current_recording.load(std::memory_order_relaxed);
  return recording == 0 && is_streamed() ? streamed : recording;
}

preload::observed_calls connect_recorder(std::uint64_t state) {
  constexpr recorded_tables none{};
  const recorded_tables& to = state == 0 ? none : state == streamed ? streamed_tables : summed_tables;
  const bool has_companion = &usher_companion_v3 != nullptr;
  usher_record_v1.store(to.embedded, std::memory_order_relaxed);
  usher_recorded_others_v2.store(has_companion ? to.others : nullptr, std::memory_order_relaxed);
  return {to.mutexes, has_companion ? to.rwlocks : nullptr};
}

}  // namespace
}  // namespace usher::recorder

constinit std::atomic<const usher::native_detail::record_calls*> usher_record_v1{nullptr};
constinit std::atomic<const usher::recorder::other_calls*> usher_recorded_others_v2{nullptr};

constinit const usher::preload::observer usher_observer{.begin = usher::recorder::begin,
                                                        .is_requested = usher::recorder::is_requested,
                                                        .begin_requested = usher::recorder::record_as_requested,
                                                        .state = usher::recorder::state,
                                                        .connect = usher::recorder::connect_recorder};

[[gnu::used]] constinit usher::contract::attach_point usher_attach{
    .magic = usher::contract::attach_point::expected,
    .version = {USHER_PRELOAD_VERSION},
    .format = usher::contract::version,
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
