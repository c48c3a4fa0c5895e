#include "connected_pair.hpp"

#include "iwarp_connection.hpp"

namespace rdmaxx::device_tests {

owned_region pair_side::shared_memory(std::size_t bytes) const {
  access_flags granted = access::remote_read | access::remote_write;
  if (device_under_test::get().has(capability::atomics)) granted |= access::remote_atomic;
  return pd.allocate_shared(unsafe, {.bytes = bytes}, granted).value();
}

owned_region pair_side::local_memory(std::size_t bytes) const {
  return pd.allocate_local({.bytes = bytes}).value();
}

pair_side unconnected_side(const context& ctx, const pair_options& options) {
  pair_side side{.ctx = ctx, .pd = ctx.alloc_pd().value()};
  if (options.with_channel) side.channel = ctx.create_completion_channel().value();
  const completion_queue_config config{.capacity = options.cq_capacity, .channel = side.channel};
  side.send_cq = ctx.create_cq(config).value();
  side.recv_cq = options.one_cq ? side.send_cq : ctx.create_cq(config).value();
  side.qp = side.pd
                .create_qp({.type = options.type,
                            .send_cq = side.send_cq,
                            .recv_cq = side.recv_cq,
                            .capabilities = options.capabilities,
                            .signal_all = options.signal_all})
                .value();
  return side;
}

void connect_by_hand(const pair_side& a, const pair_side& b, const qp_connect_options& options) {
  const endpoint_options mine{
      .port = options.port, .gid_index = options.gid_index, .queue_key = options.queue_key};
  const auto endpoint_a = a.qp.endpoint(mine).value();
  const auto endpoint_b = b.qp.endpoint(mine).value();
  a.qp.connect(endpoint_b, options).value();
  b.qp.connect(endpoint_a, options).value();
}

connected_pair::connected_pair(const pair_options& options) {
  const auto& dut = device_under_test::get();
  if (dut.is_iwarp()) {
    iwarp_connection::connect(a, b, options);
    return;
  }
  const auto ctx = dut.open();
  a = unconnected_side(ctx, options);
  b = unconnected_side(ctx, options);
  connect_by_hand(a, b, options.connect);
}

}  // namespace rdmaxx::device_tests
