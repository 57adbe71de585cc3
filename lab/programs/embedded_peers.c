#include "embedded_peers.h"

#include <ck_spinlock.h>
#include <nsync.h>
#include <stdalign.h>

/* Keeps the compiler from optimising across pairs. */
#define barrier() __asm__ volatile("" ::: "memory")

void ck_fas_pairs(long n) {
  static alignas(128) ck_spinlock_fas_t lock = CK_SPINLOCK_FAS_INITIALIZER;
  for (; n > 0; --n) {
    ck_spinlock_fas_lock(&lock);
    barrier();
    ck_spinlock_fas_unlock(&lock);
  }
}

void ck_ticket_pairs(long n) {
  static alignas(128) ck_spinlock_ticket_t lock = CK_SPINLOCK_TICKET_INITIALIZER;
  for (; n > 0; --n) {
    ck_spinlock_ticket_lock(&lock);
    barrier();
    ck_spinlock_ticket_unlock(&lock);
  }
}

void ck_mcs_pairs(long n) {
  static alignas(128) ck_spinlock_mcs_t lock = CK_SPINLOCK_MCS_INITIALIZER;
  alignas(128) ck_spinlock_mcs_context_t node;
  for (; n > 0; --n) {
    ck_spinlock_mcs_lock(&lock, &node);
    barrier();
    ck_spinlock_mcs_unlock(&lock, &node);
  }
}

void nsync_mu_pairs(long n) {
  static alignas(128) nsync_mu lock = NSYNC_MU_INIT;
  for (; n > 0; --n) {
    nsync_mu_lock(&lock);
    barrier();
    nsync_mu_unlock(&lock);
  }
}
