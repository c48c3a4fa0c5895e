/* softverbs: RDMA devices in software, behind the functions of libibverbs.
 *
 * A program needs nothing of this: soft devices are in the list of ibv_get_device_list() once the
 * library is linked or preloaded. Here is what libibverbs has no function for.
 *
 * Every function may be called from any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is loaded, as "0.1.0". */
const char* softverbs_version(void);

/* Changes one setting, as the environment variable SOFTVERBS_<name> would, and instead of it:
 *
 *   softverbs_set("MTU", "1024");
 *   softverbs_set("MAX_QP", "4K");
 *
 * The name may also be written with its prefix, SOFTVERBS_MTU. Settings are read at the first use
 * of the library, so this has to come before any other call of it or of libibverbs.
 *
 * Returns 0, EBUSY if the settings have been read already, or EINVAL if there is no such setting or
 * it cannot have that value. */
int softverbs_set(const char* name, const char* value);

/* Replaces the faults that are injected, at any time; NULL or "" ends them. The rules, separated by
 * semicolons or line ends, are those of SOFTVERBS_FAULTS:
 *
 *   softverbs_faults("lose op=ACK nth=3; fail=ENOMEM call=ibv_reg_mr nth=2");
 *
 * Returns 0, or EINVAL if a rule is not understood: then nothing has changed, and
 * softverbs_faults_problem() says why. docs/testing-your-application.md explains the rules. */
int softverbs_faults(const char* rules);

/* What was wrong with the rules at this thread's last call of softverbs_faults(); valid until its
 * next call. */
const char* softverbs_faults_problem(void);

/* How often the rule at this position, from 0, has struck. */
uint64_t softverbs_faults_hits(size_t rule);

/* The number of the present rules: each call of softverbs_faults() that succeeds makes another one,
 * and none is 0. */
uint64_t softverbs_faults_number(void);
/* How often a rule had struck when its rules were replaced, or until now. 0 for rules that have
 * been replaced more than 64 times since. */
uint64_t softverbs_faults_hits_of(uint64_t number, size_t rule);

/* Time that a test moves by hand. While it stands still, no timer of this process's devices runs:
 * no retry, no delayed packet, no repeated message of the connection manager. Advancing it runs
 * those that become due, in their order, in the calling thread. Peers in other processes have a
 * time of their own. */
void softverbs_time_stop(void);
/* 0, or EINVAL if the time has not been stopped, or it is more than ten years. */
int softverbs_time_advance(uint64_t nanoseconds);
void softverbs_time_resume(void);

#ifdef __cplusplus
}
#endif
