// What the host and its plugins agree on.
#pragma once

#include <usher/locks/mcs.hpp>
#include <usher/mutex.hpp>

using the_mutex = usher::mutex<usher::mcs>;
using state_function = const void*();
using lock_function = void(the_mutex&);
