#pragma once

// Everything of rdmaxx that needs no optional dependency.

#include <rdmaxx/core/language.hpp>

// One message is enough: what follows would not compile before C++23.
#if __cplusplus >= RDMAXX_NEEDS_CPLUSPLUS

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/deadline.hpp>
#include <rdmaxx/core/error.hpp>
#include <rdmaxx/core/flags.hpp>
#include <rdmaxx/core/fork.hpp>
#include <rdmaxx/core/format.hpp>
#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/log.hpp>
#include <rdmaxx/core/precondition.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/core/strong_integer.hpp>
#include <rdmaxx/core/text.hpp>
#include <rdmaxx/core/unsafe.hpp>
#include <rdmaxx/core/version.hpp>
#include <rdmaxx/verbs/access.hpp>
#include <rdmaxx/verbs/ack_timeout.hpp>
#include <rdmaxx/verbs/address_handle.hpp>
#include <rdmaxx/verbs/async_event.hpp>
#include <rdmaxx/verbs/completion_channel.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/completion_source.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/cq_consumer.hpp>
#include <rdmaxx/verbs/device.hpp>
#include <rdmaxx/verbs/device_attributes.hpp>
#include <rdmaxx/verbs/element_list.hpp>
#include <rdmaxx/verbs/gid.hpp>
#include <rdmaxx/verbs/memory_region.hpp>
#include <rdmaxx/verbs/pick_device.hpp>
#include <rdmaxx/verbs/port_attributes.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>
#include <rdmaxx/verbs/qp_attributes.hpp>
#include <rdmaxx/verbs/qp_endpoint.hpp>
#include <rdmaxx/verbs/queue_drain.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>
#include <rdmaxx/verbs/remote_address.hpp>
#include <rdmaxx/verbs/rnr_timer.hpp>
#include <rdmaxx/verbs/scatter_gather.hpp>
#include <rdmaxx/verbs/shared_receive_queue.hpp>
#include <rdmaxx/verbs/spin_policy.hpp>
#include <rdmaxx/verbs/wait_completions.hpp>
#include <rdmaxx/verbs/work_completion.hpp>
#include <rdmaxx/verbs/work_list.hpp>
#include <rdmaxx/verbs/work_queue.hpp>
#include <rdmaxx/verbs/work_request.hpp>

// The connection manager and streams, where librdmacm is installed; a program that uses them links
// rdmaxx::cm or rdmaxx::stream.
#if __has_include(<rdma/rdma_cma.h>)
#include <rdmaxx/cm/cm_event.hpp>
#include <rdmaxx/cm/cm_id.hpp>
#include <rdmaxx/cm/connect.hpp>
#include <rdmaxx/cm/connection.hpp>
#include <rdmaxx/cm/connection_parameters.hpp>
#include <rdmaxx/cm/connection_steps.hpp>
#include <rdmaxx/cm/datagram.hpp>
#include <rdmaxx/cm/datagram_peer.hpp>
#include <rdmaxx/cm/event_channel.hpp>
#include <rdmaxx/cm/listener.hpp>
#include <rdmaxx/cm/multicast.hpp>
#include <rdmaxx/cm/port_space.hpp>
#include <rdmaxx/cm/reject_reason.hpp>
#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/stream/engine_core.hpp>
#include <rdmaxx/stream/frame.hpp>
#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/iostream.hpp>
#include <rdmaxx/stream/protocol_engine.hpp>
#include <rdmaxx/stream/receive_half.hpp>
#include <rdmaxx/stream/receive_pool.hpp>
#include <rdmaxx/stream/send_half.hpp>
#include <rdmaxx/stream/send_pool.hpp>
#include <rdmaxx/stream/sendable_elements.hpp>
#include <rdmaxx/stream/stream.hpp>
#include <rdmaxx/stream/stream_group.hpp>
#include <rdmaxx/stream/stream_listener.hpp>
#include <rdmaxx/stream/stream_options.hpp>
#endif

#endif  // C++23
