// The unlocks of the ticket family, each as a separate function, compiled with the usual options. test_unlock_paths.py
// examines their instructions.
#include "usher/locks/awn.hpp"
#include "usher/locks/partitioned.hpp"
#include "usher/locks/qspinlock.hpp"
#include "usher/locks/three_stage.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/locks/ticket32.hpp"
#include "usher/locks/ticket_backoff.hpp"
#include "usher/locks/ticket_xadd.hpp"
#include "usher/locks/tkt_dual.hpp"
#include "usher/locks/twa.hpp"
#include "usher/locks/twa32.hpp"
#include "usher/locks/twa_chain.hpp"
#include "usher/locks/twa_id.hpp"
#include "usher/locks/twa_staged.hpp"
#include "usher/locks/twa_variants.hpp"
#include "usher/platform/native.hpp"

using usher::native;
using spin = usher::waiting<native, usher::waiting_kind::spin>;
using parking = usher::waiting<native, usher::waiting_kind::spin_then_park>;

#define USHER_UNLOCKS(name)                                         \
  extern "C" void name##_spin(usher::name<native, spin>& lock);     \
  extern "C" void name##_park(usher::name<native, parking>& lock);  \
  extern "C" void name##_spin(usher::name<native, spin>& lock) {    \
    lock.unlock();                                                  \
  }                                                                 \
  extern "C" void name##_park(usher::name<native, parking>& lock) { \
    lock.unlock();                                                  \
  }

USHER_UNLOCKS(ticket)
USHER_UNLOCKS(ticket_xadd)
USHER_UNLOCKS(ticket_backoff)
USHER_UNLOCKS(ticket32)
USHER_UNLOCKS(twa)
USHER_UNLOCKS(twa32)
USHER_UNLOCKS(twa_sized)
USHER_UNLOCKS(twa_private)
USHER_UNLOCKS(twa_quantized)
USHER_UNLOCKS(twa_staged)
USHER_UNLOCKS(twa_id)
USHER_UNLOCKS(twa_chain)
USHER_UNLOCKS(tkt_dual)
USHER_UNLOCKS(three_stage)
USHER_UNLOCKS(three_stage_try)
USHER_UNLOCKS(partitioned_ticket)
USHER_UNLOCKS(anderson)
USHER_UNLOCKS(awn)
USHER_UNLOCKS(qspinlock)
