// Small objects of the verbs interface that hold nothing but what they were made from, and the
// functions that the inline verbs of <infiniband/verbs.h> reach through pointers.
#pragma once

#include <base/c_function.hpp>
#include <engine/device_context.hpp>
#include <infiniband/verbs.h>

namespace softverbs::verbs {

using engine::protection_domain;

[[nodiscard]] inline engine::device_context& context_of(ibv_context* context) {
  return engine::device_context::of(context);
}

/// For functions that return an errno: what an object of the parent gives to a child of a fork.
inline constexpr int belongs_to_parent = ENODEV;

/// Sets errno and returns null.
template <class T>
[[nodiscard]] T* failed(int error) {
  errno = error;
  return nullptr;
}

// Filled into a context when it is opened.
void set_completion_functions(verbs_context& verbs);
void set_memory_functions(verbs_context& verbs);
void set_queue_pair_functions(verbs_context& verbs);
void set_shared_receive_functions(verbs_context& verbs);
void set_device_functions(verbs_context& verbs);

/// Filled into an extended queue pair.
void set_work_request_functions(ibv_qp_ex& qp);

}  // namespace softverbs::verbs
