#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

void look_at_queue_pairs(const conversation& talk) {
  talk.active.query_qp(talk.client);
  talk.passive.query_qp(talk.server);
}

/// Who disconnects is told when the peer has disconnected, too, and both, some time later, that the
/// old connection is forgotten.
void disconnect_by_active(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.active.disconnect(talk.client);
  talk.active.query_qp(talk.client);
  talk.passive.next();
  talk.passive.query_qp(talk.server);
  talk.active.expect_silence();
  talk.passive.disconnect(talk.server);
  talk.passive.query_qp(talk.server);
  talk.active.next();
  talk.active.next();
  talk.passive.next();
  look_at_queue_pairs(talk);
  talk.active.disconnect(talk.client);
  talk.passive.disconnect(talk.server);
  talk.active.expect_silence();
  talk.passive.expect_silence();
}

void disconnect_by_passive(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.passive.disconnect(talk.server);
  talk.passive.query_qp(talk.server);
  talk.active.next();
  talk.active.query_qp(talk.client);
  talk.passive.expect_silence();
  talk.active.disconnect(talk.client);
  talk.active.query_qp(talk.client);
  talk.passive.next();
  talk.passive.next();
  talk.active.next();
}

/// Whether the old connection is forgotten later is a matter of time: if the requests to disconnect
/// cross, nobody answers them, and the kernel does not say TIMEWAIT_EXIT.
void disconnect_by_both(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.active.disconnect(talk.client);
  talk.passive.disconnect(talk.server);
  talk.active.next();
  talk.passive.next();
  look_at_queue_pairs(talk);
}

void disconnect_twice(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.active.disconnect(talk.client);
  talk.active.disconnect(talk.client);
  talk.passive.next();
  talk.passive.disconnect(talk.server);
  talk.passive.disconnect(talk.server);
  talk.active.next();
  talk.active.disconnect(talk.client);
}

/// A peer that is told and goes away without a word has answered.
void disconnect_answered_by_destroy(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.active.disconnect(talk.client);
  talk.passive.next();
  talk.passive.destroy(talk.server);
  talk.active.next();
  talk.active.next();
}

void disconnect_unconnected(scene& where) {
  conversation talk(where);
  auto* const fresh = talk.active.create("fresh");
  talk.active.disconnect(fresh);
  talk.listen();
  talk.passive.disconnect(talk.listener);
  talk.resolve();
  talk.active.disconnect(talk.client);
  talk.active.query_qp(talk.client);
  talk.active.expect_silence();
}

void disconnect_while_asking(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.active.disconnect(talk.client);
  talk.active.query_qp(talk.client);
  talk.active.expect_silence();
  talk.passive.expect_silence();
}

void disconnect_instead_of_accept(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.disconnect(talk.server);
  talk.active.expect_silence();
  talk.passive.expect_silence();
}

void disconnect_before_established(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.expect_silence();
  talk.passive.disconnect(talk.server);
  talk.active.next();
  talk.active.next(silence);
  talk.passive.next(silence);
}

void destroy_connected_client(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.active.destroy(talk.client);
  talk.passive.next();
  talk.passive.query_qp(talk.server);
  talk.passive.disconnect(talk.server);
  talk.passive.next();
  talk.active.expect_silence();
}

void destroy_connected_server(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.passive.destroy(talk.server);
  talk.active.next();
  talk.active.query_qp(talk.client);
  talk.active.disconnect(talk.client);
  talk.active.next();
  talk.passive.expect_silence();
}

void destroy_after_disconnect(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.active.disconnect(talk.client);
  talk.active.destroy(talk.client);
  talk.passive.next();
  talk.passive.destroy(talk.server);
  talk.active.expect_silence();
  talk.passive.expect_silence();
}

void destroy_listener_of_a_connection(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.passive.destroy(talk.listener);
  talk.active.expect_silence();
  look_at_queue_pairs(talk);
  talk.active.disconnect(talk.client);
  talk.passive.next();
  talk.passive.disconnect(talk.server);
  talk.active.next();
}

void destroy_channel_of_a_connection(scene& where) {
  // What a program that ends does, without ending: the descriptor is closed behind librdmacm's
  // back.
  conversation talk(where);
  talk.listen();
  auto* const channel = rdma_create_event_channel();
  auto* const client = talk.active.create("client");
  talk.client = client;
  talk.active.migrate(client, channel);
  talk.active.resolve_addr(client, talk.at);
  talk.active.next_of(channel);
  talk.active.resolve_route(client);
  talk.active.next_of(channel);
  talk.active.create_qp(client);
  if (!talk.request()) return;
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.active.next_of(channel);
  talk.passive.next();
  rdma_destroy_event_channel(channel);
  talk.passive.next();
  talk.passive.query_qp(talk.server);
  talk.active.forget(client);
}

constexpr scenario scenarios[] = {
    {"disconnect_by_active", disconnect_by_active},
    {"disconnect_by_passive", disconnect_by_passive},
    {"disconnect_by_both", disconnect_by_both},
    {"disconnect_twice", disconnect_twice},
    {"disconnect_answered_by_destroy", disconnect_answered_by_destroy},
    {"disconnect_unconnected", disconnect_unconnected},
    {"disconnect_while_asking", disconnect_while_asking},
    {"disconnect_instead_of_accept", disconnect_instead_of_accept},
    {"disconnect_before_established", disconnect_before_established},
    {"destroy_connected_client", destroy_connected_client},
    {"destroy_connected_server", destroy_connected_server},
    {"destroy_after_disconnect", destroy_after_disconnect},
    {"destroy_listener_of_a_connection", destroy_listener_of_a_connection},
    {"destroy_channel_of_a_connection", destroy_channel_of_a_connection},
};

}  // namespace

std::span<const scenario> disconnecting() { return scenarios; }

}  // namespace cm_oracle
