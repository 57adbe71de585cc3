// Conversion of pthread results to those of C11's functions.
#pragma once

#include <threads.h>

#include <cerrno>

namespace usher::preload {

/// Converts the result of a pthread function to that of the C11 function, as the C library does.
constexpr int c11_result(int error) {
  return error == 0           ? thrd_success
         : error == ENOMEM    ? thrd_nomem
         : error == ETIMEDOUT ? thrd_timedout
         : error == EBUSY     ? thrd_busy
                              : thrd_error;
}

}  // namespace usher::preload
