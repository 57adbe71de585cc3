// Instances of locks between processes. same_release.py checks that their code uses no thread-local storage.
#include "usher/locks/clh.hpp"
#include "usher/locks/k42.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcsg.hpp"
#include "usher/locks/mcsg_plus.hpp"
#include "usher/shared_memory.hpp"

namespace usher {
template class shared_mutex_in<mcs>;
template class shared_mutex_in<mcsg>;
template class shared_mutex_in<mcsg_plus_plus>;
template class shared_mutex_in<clh>;
template class shared_mutex_in<k42>;
template class shared_mutex_in<mcsg_plus_plus, void, waiting_kind::spin>;
}  // namespace usher
