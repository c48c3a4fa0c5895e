// Work requests of verbs as the transport has them, whichever of the two interfaces posts them:
// ibv_post_send, which brings a request as a whole, or ibv_wr_*, which builds it piece by piece.
//
// Functions return 0 or an errno and are called with the queue pair's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <engine/memory_objects.hpp>
#include <infiniband/verbs.h>
#include <transport/receive_queue.hpp>
#include <transport/send_queue.hpp>
#include <transport/send_work.hpp>
#include <transport/service.hpp>

namespace softverbs::engine {

[[nodiscard]] transport::service service_of(ibv_qp_type type);

/// A new request in the slot; EINVAL if the transport has no such operation.
[[nodiscard]] int begin(transport::send_work& work, std::uint64_t wr_id, ibv_wr_opcode opcode,
                        unsigned flags);
void set_remote(transport::send_work& work, std::uint64_t address, std::uint32_t rkey);
void set_destination(transport::send_work& work, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey);
void set_binding(transport::send_work& work, memory_window& window, std::uint32_t rkey,
                 const ibv_mw_bind_info& wanted);
/// The same for a window that a user names, who can bind only those of type 2 by a request.
[[nodiscard]] int set_binding(transport::send_work& work, ibv_mw* mw, std::uint32_t rkey,
                              const ibv_mw_bind_info& wanted);
[[nodiscard]] int set_elements(transport::send_queue& queue, std::uint64_t index,
                               std::span<const ibv_sge> elements);
/// Copies the bytes.
[[nodiscard]] int set_inline_data(transport::send_queue& queue, std::uint64_t index,
                                  std::span<const ibv_data_buf> pieces);
/// Everything has been set: whether a queue pair of that service can carry it out.
[[nodiscard]] int finish(transport::service kind, transport::send_work& work);

/// All of it at once.
[[nodiscard]] int fill(transport::service kind, transport::send_queue& queue, std::uint64_t index,
                       const ibv_send_wr& request);

[[nodiscard]] int push(transport::receive_queue& queue, const ibv_recv_wr& request);

/// How a completion names the operation.
[[nodiscard]] ibv_wc_opcode completion_opcode(transport::opcode op);

}  // namespace softverbs::engine
