#include "iwarp_connection.hpp"

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "completion_waiter.hpp"

namespace rdmaxx::device_tests {

namespace {

constexpr std::uint8_t reads_in_flight = 16;
constexpr int resolve_timeout_ms = 10'000;

void must(int rc, const char* call) { check(rc, call).value(); }

sockaddr_in address_of_device() {
  const auto& netdev = device_under_test::get().netdev();
  if (!netdev || !netdev->ipv4)
    throw std::runtime_error("the device's network interface has no IPv4 address");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = *netdev->ipv4;
  return address;
}

}  // namespace

iwarp_connection::iwarp_connection() : channel_(rdma_create_event_channel()) {
  if (channel_ == nullptr)
    throw std::system_error(errno, std::generic_category(), "rdma_create_event_channel");
}

iwarp_connection::~iwarp_connection() {
  for (auto* const id : {passive_, active_, listener_}) {
    if (id != nullptr) rdma_destroy_id(id);
  }
  rdma_destroy_event_channel(channel_);
}

rdma_cm_id* iwarp_connection::expect(rdma_cm_event_type wanted) const {
  if (!wait_readable(channel_->fd, patience).value()) {
    throw std::runtime_error(fmt::format("rdma_cm raised no event {}", rdma_event_str(wanted)));
  }
  rdma_cm_event* event = nullptr;
  must(rdma_get_cm_event(channel_, &event), "rdma_get_cm_event");
  const auto type = event->event;
  const auto status = event->status;
  auto* const id = event->id;
  must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
  if (type != wanted) {
    throw std::runtime_error(fmt::format("rdma_cm raised {} with status {} instead of {}",
                                         rdma_event_str(type), status, rdma_event_str(wanted)));
  }
  return id;
}

void iwarp_connection::listen() {
  auto address = address_of_device();
  must(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), "rdma_create_id");
  must(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr");
  must(rdma_listen(listener_, 1), "rdma_listen");
}

void iwarp_connection::resolve() {
  auto address = address_of_device();
  address.sin_port = rdma_get_src_port(listener_);
  must(rdma_create_id(channel_, &active_, nullptr, RDMA_PS_TCP), "rdma_create_id");
  must(rdma_resolve_addr(active_, nullptr, reinterpret_cast<sockaddr*>(&address),
                         resolve_timeout_ms),
       "rdma_resolve_addr");
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  must(rdma_resolve_route(active_, resolve_timeout_ms), "rdma_resolve_route");
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

pair_side iwarp_connection::make_side(rdma_cm_id* id, const pair_options& options) {
  const auto self = shared_from_this();
  pair_side side{
      .ctx = context::adopt(id->verbs, {.kind = ownership::borrowed, .keep_alive = self}).value()};
  side.pd = side.ctx.alloc_pd().value();
  if (options.with_channel) side.channel = side.ctx.create_completion_channel().value();
  const completion_queue_config config{.capacity = options.cq_capacity, .channel = side.channel};
  side.send_cq = side.ctx.create_cq(config).value();
  side.recv_cq = options.one_cq ? side.send_cq : side.ctx.create_cq(config).value();
  ibv_qp_init_attr wishes{};
  wishes.send_cq = side.send_cq.native();
  wishes.recv_cq = side.recv_cq.native();
  wishes.cap = {.max_send_wr = options.capabilities.max_send_wr,
                .max_recv_wr = options.capabilities.max_recv_wr,
                .max_send_sge = options.capabilities.max_send_sge,
                .max_recv_sge = options.capabilities.max_recv_sge,
                .max_inline_data = options.capabilities.max_inline};
  wishes.qp_type = static_cast<ibv_qp_type>(options.type);
  wishes.sq_sig_all = options.signal_all ? 1 : 0;
  must(rdma_create_qp(id, side.pd.native(), &wishes), "rdma_create_qp");
  const auto destroy = [id] {
    rdma_destroy_qp(id);
    return 0;
  };
  side.qp =
      queue_pair::adopt(id->qp, {.pd = side.pd, .send_cq = side.send_cq, .recv_cq = side.recv_cq},
                        {.destroy = destroy, .keep_alive = self})
          .value();
  return side;
}

void iwarp_connection::connect(pair_side& a, pair_side& b, const pair_options& options) {
  const auto connection = std::make_shared<iwarp_connection>();
  connection->listen();
  connection->resolve();
  a = connection->make_side(connection->active_, options);
  rdma_conn_param wanted{};
  wanted.responder_resources = reads_in_flight;
  wanted.initiator_depth = reads_in_flight;
  must(rdma_connect(connection->active_, &wanted), "rdma_connect");
  connection->passive_ = connection->expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  b = connection->make_side(connection->passive_, options);
  must(rdma_accept(connection->passive_, &wanted), "rdma_accept");
  // Both sides are told, in no particular order.
  connection->expect(RDMA_CM_EVENT_ESTABLISHED);
  connection->expect(RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace rdmaxx::device_tests
