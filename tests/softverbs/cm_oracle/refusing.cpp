#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

void connect_to_a_closed_port(scene& where) {
  conversation talk(where);
  auto* const bound = talk.passive.create("bound");
  talk.passive.bind(bound, where.own());
  talk.resolve_to(where.own(ntohs(rdma_get_src_port(bound))));
  auto said = parameters("hello");
  talk.active.connect(talk.client, &said);
  talk.active.next();
  talk.active.query_qp(talk.client);
  talk.active.look_at(talk.client);
  // An identifier is good for one attempt.
  talk.active.connect(talk.client, &said);
  talk.active.disconnect(talk.client);
  talk.active.expect_silence();
}

void connect_to_the_other_port_space(scene& where) {
  conversation talk(where);
  auto* const listener = talk.passive.create("listener", RDMA_PS_UDP);
  talk.passive.bind(listener, where.own());
  talk.passive.listen(listener);
  talk.resolve_to(where.own(ntohs(rdma_get_src_port(listener))));
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.active.next();
  talk.passive.expect_silence();
}

void refuse(scene& where, const std::string& private_data) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.reject(talk.server, private_data);
  talk.passive.query_qp(talk.server);
  talk.active.next(silence);
  talk.active.query_qp(talk.client);
  talk.passive.expect_silence();
}

void reject_with_private_data(scene& where) { refuse(where, "hello"); }
void reject_without_private_data(scene& where) { refuse(where, ""); }
void reject_private_data_of_148(scene& where) { refuse(where, std::string(148, 'x')); }
void reject_private_data_of_149(scene& where) { refuse(where, std::string(149, 'x')); }
void reject_private_data_of_255(scene& where) { refuse(where, std::string(255, 'x')); }

void reject_then_accept(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.reject(talk.server);
  talk.active.next();
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.query_qp(talk.server);
  talk.passive.reject(talk.server);
}

void reject_after_accept(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.accept();
  talk.passive.reject(talk.server);
  talk.active.reject(talk.client);
  talk.active.expect_silence();
  talk.passive.expect_silence();
  talk.passive.query_qp(talk.server);
}

/// The active side changes its mind when the answer is there: its event has not been taken.
void reject_by_active(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.client = talk.active.create("client");
  talk.active.resolve_addr(talk.client, talk.at);
  talk.active.next();
  talk.active.resolve_route(talk.client);
  talk.active.next();
  auto asked = parameters();
  asked.qp_num = where.invent_qp("given by active");
  talk.active.connect(talk.client, &asked);
  talk.server = talk.passive.next_request("server");
  if (talk.server == nullptr) return;
  talk.passive.create_qp(talk.server);
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.active.next();
  talk.active.reject(talk.client, "changed my mind");
  talk.passive.next();
  talk.passive.query_qp(talk.server);
}

void reject_unconnected(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.reject(id);
  only.bind(id, where.own());
  only.reject(id);
}

void destroy_a_request(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.destroy(talk.server);
  talk.active.next();
  talk.active.query_qp(talk.client);
}

void destroy_listener_with_untaken_requests(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.active.expect_silence();
  talk.passive.destroy(talk.listener);
  talk.active.next();
  talk.passive.expect_silence();
}

void destroy_listener_with_taken_requests(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.destroy(talk.listener);
  talk.active.expect_silence();
  talk.passive.reject(talk.server);
  talk.active.next();
}

void destroy_client_before_accept(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.active.destroy(talk.client);
  talk.passive.next(silence);
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.query_qp(talk.server);
  talk.passive.next(silence);
}

void destroy_client_before_the_request_is_taken(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.active.expect_silence();
  talk.active.destroy(talk.client);
  auto* const server = talk.passive.next_request("server");
  talk.passive.expect_silence();
  if (server != nullptr) talk.passive.reject(server);
}

/// Accepted, and the client goes away instead of taking the event.
void destroy_client_before_established(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.expect_silence();
  talk.active.destroy(talk.client);
  talk.passive.next();
  talk.passive.query_qp(talk.server);
  talk.passive.expect_silence();
}

constexpr scenario scenarios[] = {
    {"connect_to_a_closed_port", connect_to_a_closed_port},
    {"connect_to_the_other_port_space", connect_to_the_other_port_space},
    {"reject_with_private_data", reject_with_private_data},
    {"reject_without_private_data", reject_without_private_data},
    {"reject_private_data_of_148", reject_private_data_of_148},
    {"reject_private_data_of_149", reject_private_data_of_149},
    {"reject_private_data_of_255", reject_private_data_of_255},
    {"reject_then_accept", reject_then_accept},
    {"reject_after_accept", reject_after_accept},
    {"reject_by_active", reject_by_active},
    {"reject_unconnected", reject_unconnected},
    {"destroy_a_request", destroy_a_request},
    {"destroy_listener_with_untaken_requests", destroy_listener_with_untaken_requests},
    {"destroy_listener_with_taken_requests", destroy_listener_with_taken_requests},
    {"destroy_client_before_accept", destroy_client_before_accept},
    {"destroy_client_before_the_request_is_taken", destroy_client_before_the_request_is_taken},
    {"destroy_client_before_established", destroy_client_before_established},
};

}  // namespace

std::span<const scenario> refusing() { return scenarios; }

}  // namespace cm_oracle
