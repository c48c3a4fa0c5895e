/* softverbs: RDMA devices in software, behind the functions of libibverbs.
 *
 * A program needs nothing of this: soft devices are in the list of ibv_get_device_list() once the
 * library is linked or preloaded. Here is what libibverbs has no function for.
 *
 * Every function may be called from any thread. */
#pragma once

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

#ifdef __cplusplus
}
#endif
