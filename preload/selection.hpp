// What the environment selects, for this process and for good.
#pragma once

#include "preload/mutex_table.hpp"
#include "usher/waiter_list.hpp"

namespace usher::preload {

/// The table that USHER_LOCK selects. Decided once, on the first call.
const mutex_table& selected();

/// USHER_COND_APPEND and USHER_SEM_APPEND.
append_chance cond_append();
append_chance sem_append();

}  // namespace usher::preload
