#include "cm_sides.hpp"

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include <netinet/in.h>

#include "waiting.hpp"

namespace softverbs::device_tests {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return name;
}

void need(int result, const char* what) {
  if (result != 0) throw std::system_error(errno, std::generic_category(), what);
}

rdma_event_channel* new_channel() {
  auto* const made = rdma_create_event_channel();
  need(made == nullptr ? -1 : 0, "rdma_create_event_channel");
  return made;
}

}  // namespace

rdma_cm_id* next_event(rdma_event_channel* events, rdma_cm_event_type wanted) {
  wait_until_readable(events->fd);
  rdma_cm_event* event = nullptr;
  need(rdma_get_cm_event(events, &event), "rdma_get_cm_event");
  auto* const id = event->id;
  const auto what = event->event;
  rdma_ack_cm_event(event);
  if (what == wanted) return id;
  throw std::runtime_error(std::string(rdma_event_str(what)) + " instead of " +
                           rdma_event_str(wanted));
}

cm_listener::cm_listener() : events_(new_channel()) {
  auto own = loopback(0);
  need(rdma_create_id(events_, &id_, nullptr, RDMA_PS_TCP), "rdma_create_id");
  need(rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&own)), "rdma_bind_addr");
  need(rdma_listen(id_, 4), "rdma_listen");
}

cm_listener::~cm_listener() {
  rdma_destroy_id(id_);
  rdma_destroy_event_channel(events_);
}

std::uint16_t cm_listener::port() const { return ntohs(rdma_get_src_port(id_)); }

void cm_listener::answer() {
  rdma_conn_param terms{};
  terms.qp_num = 0x123456;
  need(rdma_accept(next_event(events_, RDMA_CM_EVENT_CONNECT_REQUEST), &terms), "rdma_accept");
}

void cm_listener::accept() {
  answer();
  next_event(events_, RDMA_CM_EVENT_ESTABLISHED);
}

cm_client::cm_client(std::uint16_t port) : events_(new_channel()) {
  auto peer = loopback(port);
  rdma_conn_param terms{};
  terms.qp_num = 0x123457;
  need(rdma_create_id(events_, &id_, nullptr, RDMA_PS_TCP), "rdma_create_id");
  need(rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&peer), 1000),
       "rdma_resolve_addr");
  next_event(events_, RDMA_CM_EVENT_ADDR_RESOLVED);
  need(rdma_resolve_route(id_, 1000), "rdma_resolve_route");
  next_event(events_, RDMA_CM_EVENT_ROUTE_RESOLVED);
  need(rdma_connect(id_, &terms), "rdma_connect");
}

cm_client::~cm_client() {
  rdma_destroy_id(id_);
  rdma_destroy_event_channel(events_);
}

void cm_client::establish() { need(rdma_establish(id_), "rdma_establish"); }

}  // namespace softverbs::device_tests
