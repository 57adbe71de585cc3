// The releases of MCS and MCSg as separate functions, so that same_release.py can compare their machine code.
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcsg.hpp"
#include "usher/platform/native.hpp"

using namespace usher;
using polling = waiting<native, waiting_kind::spin>;
using sleeping = waiting<native, waiting_kind::spin_then_park>;

extern "C" {
void mcs_polling(mcs_with_node<native, polling>& lock, node_handle mine);
void mcsg_polling(mcsg_with_node<native, polling>& lock, node_handle mine);
void mcs_sleeping(mcs_with_node<native, sleeping>& lock, node_handle mine);
void mcsg_sleeping(mcsg_with_node<native, sleeping>& lock, node_handle mine);
}

void mcs_polling(mcs_with_node<native, polling>& lock, node_handle mine) {
  lock.unlock(mine);
}
void mcsg_polling(mcsg_with_node<native, polling>& lock, node_handle mine) {
  lock.unlock(mine);
}
void mcs_sleeping(mcs_with_node<native, sleeping>& lock, node_handle mine) {
  lock.unlock(mine);
}
void mcsg_sleeping(mcsg_with_node<native, sleeping>& lock, node_handle mine) {
  lock.unlock(mine);
}
