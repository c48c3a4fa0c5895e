#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

void datagram_connect(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  talk.active.query_qp(talk.client);
  talk.active.look_at(talk.client);
  auto asked = parameters("hello");
  talk.active.connect(talk.client, &asked);
  talk.active.query_qp(talk.client);
  talk.server = talk.passive.next_request("server");
  if (talk.server == nullptr) return;
  talk.passive.look_at(talk.server);
  talk.passive.create_qp(talk.server);
  talk.passive.query_qp(talk.server);
  auto answered = parameters("welcome");
  talk.passive.accept(talk.server, &answered);
  talk.active.next();
  talk.active.query_qp(talk.client);
  talk.active.look_at(talk.client);
  talk.active.expect_silence();
  talk.passive.expect_silence();
  talk.passive.query_qp(talk.server);
  talk.active.init_qp_attr_of_all_states(talk.client);
  talk.active.disconnect(talk.client);
  talk.passive.disconnect(talk.server);
  talk.active.query_qp(talk.client);
  talk.active.expect_silence();
  talk.passive.expect_silence();
}

void datagram_connect_ipv6(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listener = talk.passive.create("listener", RDMA_PS_UDP);
  talk.passive.bind(talk.listener, where.own6());
  talk.passive.listen(talk.listener);
  talk.resolve_to(where.own6(ntohs(rdma_get_src_port(talk.listener))));
  if (talk.request("hello")) talk.accept();
}

void datagram_connect_without_parameters(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  talk.active.connect(talk.client, nullptr);
  auto* const server = talk.passive.next_request("server");
  if (server == nullptr) return;
  talk.passive.create_qp(server);
  talk.passive.accept(server, nullptr);
  talk.active.next();
}

void datagram_to_a_closed_port(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  auto* const bound = talk.passive.create("bound", RDMA_PS_UDP);
  talk.passive.bind(bound, where.own());
  talk.resolve_to(where.own(ntohs(rdma_get_src_port(bound))));
  auto said = parameters("hello");
  talk.active.connect(talk.client, &said);
  talk.active.next();
  talk.active.query_qp(talk.client);
}

void datagram_reject(scene& where, const std::string& private_data) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.reject(talk.server, private_data);
  talk.active.next(silence);
  talk.active.query_qp(talk.client);
  talk.passive.expect_silence();
}

void datagram_reject_with_private_data(scene& where) { datagram_reject(where, "hello"); }
void datagram_reject_without_private_data(scene& where) { datagram_reject(where, ""); }
void datagram_reject_private_data_of_136(scene& where) {
  datagram_reject(where, std::string(136, 'x'));
}
void datagram_reject_private_data_of_137(scene& where) {
  datagram_reject(where, std::string(137, 'x'));
}

template <std::size_t bytes>
void datagram_connect_private_data(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  const std::string data(bytes, 'x');
  auto said = parameters(data);
  if (talk.active.connect(talk.client, &said) == 0) talk.passive.next_request();
}

template <std::size_t bytes>
void datagram_accept_private_data(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  const std::string data(bytes, 'y');
  auto said = parameters(data);
  talk.passive.accept(talk.server, &said);
  talk.active.next();
}

void datagram_accept_twice(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.accept();
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.reject(talk.server);
  talk.active.expect_silence();
  talk.passive.expect_silence();
}

void datagram_accept_with_foreign_qp(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  auto asked = parameters();
  talk.active.connect(talk.client, &asked);
  auto* const server = talk.passive.next_request("server");
  if (server == nullptr) return;
  auto said = parameters();
  said.qp_num = where.invent_qp("given by passive");
  talk.passive.accept(server, &said);
  talk.active.next();
}

void datagram_connect_without_qp(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.client = talk.active.create("client", RDMA_PS_UDP);
  talk.active.resolve_addr(talk.client, talk.at);
  talk.active.next();
  talk.active.resolve_route(talk.client);
  talk.active.next();
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  if (talk.passive.next_request("server") == nullptr) talk.active.next();
}

void datagram_connect_twice(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.accept();
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.active.expect_silence();
}

void datagram_destroy_a_request(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.destroy(talk.server);
  talk.active.next();
}

void datagram_destroy_client_before_accept(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.active.destroy(talk.client);
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.expect_silence();
}

void ipoib_connect(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id", RDMA_PS_IPOIB);
  if (id == nullptr) return;
  only.resolve_addr(id, where.own(18515));
  if (only.next().type != RDMA_CM_EVENT_ADDR_RESOLVED) return;
  only.resolve_route(id);
  only.next();
  only.create_qp(id);
  only.query_qp(id);
  auto said = parameters();
  only.connect(id, &said);
  only.expect_silence();
}

constexpr scenario scenarios[] = {
    {"datagram_connect", datagram_connect},
    {"datagram_connect_ipv6", datagram_connect_ipv6},
    {"datagram_connect_without_parameters", datagram_connect_without_parameters},
    {"datagram_to_a_closed_port", datagram_to_a_closed_port},
    {"datagram_reject_with_private_data", datagram_reject_with_private_data},
    {"datagram_reject_without_private_data", datagram_reject_without_private_data},
    {"datagram_reject_private_data_of_136", datagram_reject_private_data_of_136},
    {"datagram_reject_private_data_of_137", datagram_reject_private_data_of_137},
    {"datagram_connect_private_data_of_180", datagram_connect_private_data<180>},
    {"datagram_connect_private_data_of_181", datagram_connect_private_data<181>},
    {"datagram_accept_private_data_of_136", datagram_accept_private_data<136>},
    {"datagram_accept_private_data_of_137", datagram_accept_private_data<137>},
    {"datagram_accept_twice", datagram_accept_twice},
    {"datagram_accept_with_foreign_qp", datagram_accept_with_foreign_qp},
    {"datagram_connect_without_qp", datagram_connect_without_qp},
    {"datagram_connect_twice", datagram_connect_twice},
    {"datagram_destroy_a_request", datagram_destroy_a_request},
    {"datagram_destroy_client_before_accept", datagram_destroy_client_before_accept},
    {"ipoib_connect", ipoib_connect},
};

}  // namespace

std::span<const scenario> datagrams() { return scenarios; }

}  // namespace cm_oracle
