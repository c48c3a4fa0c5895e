#pragma once

// device_context: the library's handle to a device that librdmacm has opened.
//
// librdmacm opens each device once for the whole process and keeps it open. All identifiers on it
// must share one block, or one handle would not recognise asynchronous events of objects created
// from another.

#include <infiniband/verbs.h>

#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/context.hpp>

namespace RDMAXX_NAMESPACE::detail {

[[nodiscard]] result<context> device_context(ibv_context* native);

/// The device was removed: librdmacm will close it, and its address may be reused for another one.
void forget_device_context(const ibv_context* native);

}  // namespace RDMAXX_NAMESPACE::detail
