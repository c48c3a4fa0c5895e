#include "conversation.hpp"

namespace cm_oracle {

rdma_conn_param parameters(std::string_view private_data, std::uint8_t reads) {
  rdma_conn_param said{};
  if (!private_data.empty()) {
    said.private_data = private_data.data();
    said.private_data_len = static_cast<std::uint8_t>(private_data.size());
  }
  said.responder_resources = reads;
  said.initiator_depth = reads;
  said.retry_count = 5;
  said.rnr_retry_count = 6;
  return said;
}

conversation::conversation(scene& at_scene, rdma_port_space in_space)
    : where(at_scene),
      space(in_space),
      active(where.add("active")),
      passive(where.add("passive")) {}

void conversation::listen(int backlog) {
  listener = passive.create("listener", space);
  passive.bind(listener, where.own());
  passive.listen(listener, backlog);
  at = where.own(ntohs(rdma_get_src_port(listener)));
}

void conversation::resolve() { resolve_to(at); }

void conversation::resolve_to(const socket_address& to) {
  client = active.create("client", space);
  active.resolve_addr(client, to);
  active.next();
  active.resolve_route(client);
  active.next();
  active.create_qp(client);
}

bool conversation::request(std::string_view private_data) {
  return request(parameters(private_data));
}

bool conversation::request(rdma_conn_param said) {
  active.connect(client, &said);
  server = passive.next_request("server");
  if (server == nullptr) return false;
  passive.create_qp(server);
  return true;
}

void conversation::accept() {
  auto said = parameters();
  passive.accept(server, &said);
  active.next();
  if (space == RDMA_PS_TCP) passive.next();
}

bool conversation::establish() {
  listen();
  resolve();
  if (!request()) return false;
  accept();
  return true;
}

}  // namespace cm_oracle
