// A plug-in that embeds Usher's header library. It is compiled several times: by each compiler, with and without hidden
// visibility.
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

// TWA uses a process-wide waiting array, and MCS identifies queue nodes by numbers. All objects must share one array
// and one set of nodes.
extern "C" __attribute__((visibility("default"))) const embedded_functions* embedded_twa() {
  return &functions_of<usher::mutex<usher::twa>>;
}
extern "C" __attribute__((visibility("default"))) const embedded_functions* embedded_mcs() {
  return &functions_of<usher::mutex<usher::mcs>>;
}
