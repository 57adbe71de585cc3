// A plug-in with Usher's header library in it, compiled several times: by either compiler, with and without
// hidden visibility.
#include "embedded.hpp"

#include <new>

#include "usher/locks/mcs.hpp"
#include "usher/locks/twa.hpp"
#include "usher/mutex.hpp"

namespace {

template <class Mutex>
constexpr embedded_functions functions_of{
    sizeof(Mutex),
    [](void* memory) { new (memory) Mutex; },
    [](void* memory) { static_cast<Mutex*>(memory)->lock(); },
    [](void* memory) { return static_cast<Mutex*>(memory)->try_lock(); },
    [](void* memory) { static_cast<Mutex*>(memory)->unlock(); },
};

}  // namespace

// TWA uses a process-wide waiting array, MCS queue nodes that are named by numbers: each must exist once for all
// objects.
extern "C" __attribute__((visibility("default"))) const embedded_functions* embedded_twa() {
  return &functions_of<usher::mutex<usher::twa>>;
}
extern "C" __attribute__((visibility("default"))) const embedded_functions* embedded_mcs() {
  return &functions_of<usher::mutex<usher::mcs>>;
}
