// Timing loops over locks of other libraries that are compiled as C. Each loop executes n uncontended pairs of lock and
// unlock. The calls are inlined if the library offers inline functions.
#ifndef USHER_WORKLOADS_EMBEDDED_PEERS_H
#define USHER_WORKLOADS_EMBEDDED_PEERS_H

#ifdef __cplusplus
extern "C" {
#endif

void ck_fas_pairs(long n);
void ck_ticket_pairs(long n);
void ck_mcs_pairs(long n);
void nsync_mu_pairs(long n);

#ifdef __cplusplus
}
#endif

#endif
