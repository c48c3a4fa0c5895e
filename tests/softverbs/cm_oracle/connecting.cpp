#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

void connect_step_by_step(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.passive.look_at(talk.listener);
  talk.resolve();
  talk.active.query_qp(talk.client);
  auto asked = parameters("hello", 4);
  talk.active.connect(talk.client, &asked);
  talk.active.query_qp(talk.client);
  auto* const server = talk.passive.next_request("server");
  if (server == nullptr) return;
  talk.passive.look_at(server);
  talk.passive.write(
      {{"context", server->context == talk.listener->context ? "the listener's" : "another"},
       {"channel", server->channel == talk.passive.channel() ? "the listener's" : "another"}});
  talk.passive.create_qp(server);
  talk.passive.query_qp(server);
  auto answered = parameters("welcome", 2);
  talk.passive.accept(server, &answered);
  talk.passive.query_qp(server);
  talk.active.next();
  talk.active.query_qp(talk.client);
  talk.active.look_at(talk.client);
  talk.passive.next();
  talk.passive.query_qp(server);
  talk.passive.look_at(server);
  talk.active.expect_silence();
  talk.passive.expect_silence();
}

void connect_ipv6(scene& where) {
  conversation talk(where);
  talk.listener = talk.passive.create("listener");
  talk.passive.bind(talk.listener, where.own6());
  talk.passive.listen(talk.listener);
  talk.resolve_to(where.own6(ntohs(rdma_get_src_port(talk.listener))));
  if (!talk.request("hello")) return;
  talk.passive.look_at(talk.server);
  talk.accept();
  talk.active.query_qp(talk.client);
  talk.passive.query_qp(talk.server);
  talk.active.look_at(talk.client);
}

void connect_attributes_of_states(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.passive.init_qp_attr_of_all_states(talk.listener);
  auto* const early = talk.active.create("early");
  talk.active.init_qp_attr_of_all_states(early);
  talk.resolve();
  talk.active.init_qp_attr_of_all_states(talk.client);
  auto said = parameters("hello", 3);
  if (!talk.request(said)) return;
  talk.active.init_qp_attr_of_all_states(talk.client);
  talk.passive.init_qp_attr_of_all_states(talk.server);
  talk.accept();
  talk.active.init_qp_attr_of_all_states(talk.client);
  talk.passive.init_qp_attr_of_all_states(talk.server);
  talk.active.disconnect(talk.client);
  talk.passive.next();
  talk.passive.disconnect(talk.server);
  talk.active.next();
  talk.active.init_qp_attr_of_all_states(talk.client);
  talk.passive.init_qp_attr_of_all_states(talk.server);
}

void connect_before_route(scene& where) {
  // Before its address is resolved librdmacm does not survive a connect: it has no device to ask.
  conversation talk(where);
  talk.listen();
  talk.client = talk.active.create("client");
  talk.active.resolve_addr(talk.client, talk.at);
  talk.active.next();
  talk.active.create_qp(talk.client);
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.active.resolve_route(talk.client);
  talk.active.next();
  talk.active.connect(talk.client, &said);
  talk.passive.next_request();
}

void connect_twice(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.accept();
  talk.active.connect(talk.client, &said);
  talk.active.expect_silence();
}

void connect_without_qp(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.client = talk.active.create("client");
  talk.active.resolve_addr(talk.client, talk.at);
  talk.active.next();
  talk.active.resolve_route(talk.client);
  talk.active.next();
  talk.active.connect(talk.client, nullptr);
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.passive.next_request();
}

void connect_without_parameters(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  talk.active.connect(talk.client, nullptr);
  auto* const server = talk.passive.next_request("server");
  if (server == nullptr) return;
  talk.passive.create_qp(server);
  talk.passive.accept(server, nullptr);
  talk.active.next();
  talk.passive.next();
  talk.active.query_qp(talk.client);
  talk.passive.query_qp(server);
}

template <std::size_t bytes>
void connect_private_data(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  const std::string data(bytes, 'x');
  auto said = parameters(data);
  if (talk.active.connect(talk.client, &said) == 0) {
    talk.passive.next_request();
    return;
  }
  talk.active.query_qp(talk.client);
  // Is the identifier still good for something?
  said = parameters();
  talk.active.connect(talk.client, &said);
  talk.passive.next_request();
}

template <std::size_t bytes>
void accept_private_data(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  const std::string data(bytes, 'y');
  auto said = parameters(data);
  talk.passive.accept(talk.server, &said);
  talk.passive.query_qp(talk.server);
  talk.active.next();
  talk.passive.next(silence);
}

/// Both sides name responder resources and depth.
void negotiate(scene& where, rdma_conn_param asked, rdma_conn_param answered) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (talk.active.connect(talk.client, &asked) != 0) return;
  talk.server = talk.passive.next_request("server");
  if (talk.server == nullptr) return;
  talk.passive.create_qp(talk.server);
  if (talk.passive.accept(talk.server, &answered) != 0) {
    talk.passive.query_qp(talk.server);
    talk.active.expect_silence();
    return;
  }
  talk.active.next();
  talk.passive.next();
  talk.active.query_qp(talk.client);
  talk.passive.query_qp(talk.server);
}

rdma_conn_param reads(std::uint8_t responder_resources, std::uint8_t initiator_depth) {
  auto said = parameters();
  said.responder_resources = responder_resources;
  said.initiator_depth = initiator_depth;
  return said;
}

void reads_of_0(scene& where) { negotiate(where, reads(0, 0), reads(0, 0)); }
void reads_asymmetric(scene& where) { negotiate(where, reads(5, 3), reads(4, 2)); }
void reads_answered_above(scene& where) { negotiate(where, reads(2, 3), reads(8, 9)); }
void reads_of_max(scene& where) {
  negotiate(where, reads(RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH),
            reads(RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH));
}
void reads_of_max_answered(scene& where) {
  negotiate(where, reads(5, 3), reads(RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH));
}
void reads_asked_above_the_device(scene& where) { negotiate(where, reads(254, 1), reads(1, 1)); }
void depth_asked_above_the_device(scene& where) { negotiate(where, reads(1, 254), reads(1, 1)); }
void reads_answered_above_the_device(scene& where) { negotiate(where, reads(1, 1), reads(254, 1)); }

void retries_above_7(scene& where) {
  auto asked = parameters();
  asked.retry_count = 200;
  asked.rnr_retry_count = 9;
  asked.flow_control = 1;
  auto answered = parameters();
  answered.rnr_retry_count = 15;
  answered.flow_control = 1;
  negotiate(where, asked, answered);
}

void retries_of_0(scene& where) {
  auto asked = parameters();
  asked.retry_count = 0;
  asked.rnr_retry_count = 0;
  auto answered = parameters();
  answered.rnr_retry_count = 0;
  negotiate(where, asked, answered);
}

void flow_control_and_srq_flags(scene& where) {
  auto asked = parameters();
  asked.flow_control = 1;
  asked.srq = 1;  // ignored: the queue pair tells
  asked.qp_num = 77;
  auto answered = parameters();
  answered.flow_control = 1;
  answered.srq = 1;
  negotiate(where, asked, answered);
}

void accept_twice(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.accept();
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.query_qp(talk.server);
  talk.active.expect_silence();
  talk.passive.expect_silence();
}

void accept_on_the_wrong_id(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  auto said = parameters();
  talk.active.accept(talk.client, &said);
  talk.active.query_qp(talk.client);
  talk.active.reject(talk.client);
}

void accept_without_qp(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  auto asked = parameters();
  talk.active.connect(talk.client, &asked);
  auto* const server = talk.passive.next_request("server");
  if (server == nullptr) return;
  auto said = parameters();
  said.qp_num = where.invent_qp("given by passive");
  talk.passive.accept(server, &said);
  // The number is believed.
  talk.active.next();
  talk.passive.next();
  talk.active.query_qp(talk.client);
}

void accept_after_the_listener_is_gone(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.destroy(talk.listener);
  talk.accept();
}

/// Neither side has a queue pair that librdmacm knows: the answer has to be confirmed by hand.
void external_queue_pairs(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.client = talk.active.create("client");
  talk.active.resolve_addr(talk.client, talk.at);
  talk.active.next();
  talk.active.resolve_route(talk.client);
  talk.active.next();
  auto asked = parameters("hello");
  asked.qp_num = where.invent_qp("given by active");
  asked.srq = 1;
  talk.active.connect(talk.client, &asked);
  auto* const server = talk.passive.next_request("server");
  if (server == nullptr) return;
  auto answered = parameters("welcome");
  answered.qp_num = where.invent_qp("given by passive");
  answered.srq = 1;
  talk.passive.accept(server, &answered);
  talk.passive.expect_silence();
  talk.active.next();
  talk.active.init_qp_attr_of_all_states(talk.client);
  talk.active.establish(talk.client);
  talk.active.expect_silence();
  talk.passive.next();
  talk.passive.init_qp_attr_of_all_states(server);
  talk.active.establish(talk.client);
  talk.active.disconnect(talk.client);
  talk.passive.next();
  talk.passive.disconnect(server);
  talk.active.next();
}

/// The number of a queue pair that is connected already, or was a moment ago.
void connect_with_a_used_number(scene& where) {
  conversation talk(where);
  talk.listen();
  auto asked = parameters();
  asked.qp_num = where.invent_qp("given by active");
  for (const auto* const label : {"first", "second"}) {
    auto* const client = talk.active.create(label);
    talk.active.resolve_addr(client, talk.at);
    talk.active.next();
    talk.active.resolve_route(client);
    talk.active.next();
    talk.active.connect(client, &asked);
    talk.passive.next(silence);
  }
  talk.active.next();
  talk.active.next(silence);
}

void establish_with_queue_pair(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.active.establish(talk.client);
  talk.passive.establish(talk.server);
}

void notify_established(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  talk.active.notify(talk.client, IBV_EVENT_COMM_EST);
  if (!talk.request()) return;
  talk.passive.notify(talk.server, IBV_EVENT_COMM_EST);
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  // Active has not confirmed yet, because nobody has taken its event.
  talk.passive.notify(talk.server, IBV_EVENT_COMM_EST);
  talk.passive.next();
  talk.active.next();
  talk.passive.notify(talk.server, IBV_EVENT_COMM_EST);
  talk.active.notify(talk.client, IBV_EVENT_COMM_EST);
  talk.passive.notify(talk.server, IBV_EVENT_PATH_MIG);
  talk.passive.notify(talk.server, IBV_EVENT_QP_FATAL);
  talk.passive.expect_silence();
  talk.active.expect_silence();
}

/// An answer that nobody takes: the queue pair of the active side stays as it is.
void established_only_when_the_event_is_taken(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.expect_silence();
  talk.active.query_qp(talk.client);
  talk.active.next();
  talk.active.query_qp(talk.client);
  talk.passive.next();
}

constexpr scenario scenarios[] = {
    {"connect_step_by_step", connect_step_by_step},
    {"connect_ipv6", connect_ipv6},
    {"connect_attributes_of_states", connect_attributes_of_states},
    {"connect_before_route", connect_before_route},
    {"connect_twice", connect_twice},
    {"connect_without_qp", connect_without_qp},
    {"connect_without_parameters", connect_without_parameters},
    {"connect_private_data_of_56", connect_private_data<56>},
    {"connect_private_data_of_57", connect_private_data<57>},
    {"connect_private_data_of_255", connect_private_data<255>},
    {"accept_private_data_of_196", accept_private_data<196>},
    {"accept_private_data_of_197", accept_private_data<197>},
    {"reads_of_0", reads_of_0},
    {"reads_asymmetric", reads_asymmetric},
    {"reads_answered_above", reads_answered_above},
    {"reads_of_max", reads_of_max},
    {"reads_of_max_answered", reads_of_max_answered},
    {"reads_asked_above_the_device", reads_asked_above_the_device},
    {"reads_depth_asked_above_the_device", depth_asked_above_the_device},
    {"reads_answered_above_the_device", reads_answered_above_the_device},
    {"retries_above_7", retries_above_7},
    {"retries_of_0", retries_of_0},
    {"flow_control_and_srq_flags", flow_control_and_srq_flags},
    {"accept_twice", accept_twice},
    {"accept_on_the_wrong_id", accept_on_the_wrong_id},
    {"accept_without_qp", accept_without_qp},
    {"accept_after_the_listener_is_gone", accept_after_the_listener_is_gone},
    {"external_queue_pairs", external_queue_pairs},
    {"connect_with_a_used_number", connect_with_a_used_number},
    {"establish_with_queue_pair", establish_with_queue_pair},
    {"notify_established", notify_established},
    {"established_only_when_the_event_is_taken", established_only_when_the_event_is_taken},
};

}  // namespace

std::span<const scenario> connecting() { return scenarios; }

}  // namespace cm_oracle
