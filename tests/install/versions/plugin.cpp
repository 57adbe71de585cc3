// A plugin that embeds locks. It includes only headers of Usher, and can be built with the headers of any release.
#include <usher/locks/mcs.hpp>
#include <usher/locks/twa.hpp>
#include <usher/mutex.hpp>

namespace {
usher::mutex<usher::mcs> queued;
usher::mutex<usher::twa> ticket;
}  // namespace

extern "C" const void* plugin_state() {
  queued.lock();
  ticket.lock();
  ticket.unlock();
  queued.unlock();
  return &usher::usher_process_state;
}

/// Returns the address of an inline function of the headers, whose code differs between releases. The next function
/// returns the size of the process-wide state, which also differs.
extern "C" const void* plugin_function() {
  return reinterpret_cast<const void*>(&usher::native::prepare_heavy_fences);
}
extern "C" unsigned long plugin_state_size() {
  return sizeof(usher::usher_process_state);
}
/// Returns the number of thread records as this plugin reads it. The number is nonsense if code with another layout has
/// written it.
extern "C" unsigned long plugin_records() {
  return usher::usher_process_state.made.load();
}
