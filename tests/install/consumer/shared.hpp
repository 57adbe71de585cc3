// The types that the host and its plugins share.
#pragma once

#include <usher/locks/mcs.hpp>
#include <usher/mutex.hpp>

using the_mutex = usher::mutex<usher::mcs>;
using state_function = const void*();
using lock_function = void(the_mutex&);
