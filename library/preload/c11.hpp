// The result codes of C11's functions.
#pragma once

#include <threads.h>

#include <cerrno>

namespace usher::preload {

/// The C11 result for a pthread function's, as in the C library.
constexpr int c11_result(int error) {
  return error == 0           ? thrd_success
         : error == ENOMEM    ? thrd_nomem
         : error == ETIMEDOUT ? thrd_timedout
         : error == EBUSY     ? thrd_busy
                              : thrd_error;
}

}  // namespace usher::preload
