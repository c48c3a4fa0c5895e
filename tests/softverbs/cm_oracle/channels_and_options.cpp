#include <fcntl.h>
#include <poll.h>

#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

bool is_readable(const rdma_event_channel* channel, std::chrono::milliseconds wait) {
  pollfd readable{.fd = channel->fd, .events = POLLIN, .revents = 0};
  return poll(&readable, 1, static_cast<int>(wait.count())) == 1;
}

void channel_without_events(scene& where) {
  auto& only = where.add("only");
  const int fd = only.channel()->fd;
  only.write({{"close on exec", (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0},
              {"non-blocking", (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0}});
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  rdma_cm_event* event = nullptr;
  only.call("rdma_get_cm_event", nullptr,
            [&] { return rdma_get_cm_event(only.channel(), &event); });
  only.call("rdma_get_cm_event", nullptr,
            [&] { return rdma_get_cm_event(only.channel(), nullptr); }, {{"into", "nullptr"}});
  only.call("rdma_ack_cm_event", nullptr, [&] { return rdma_ack_cm_event(nullptr); });
}

void channel_is_readable_until_the_event_is_taken(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  const auto look = [&](const char* when, std::chrono::milliseconds wait) {
    only.write({{"when", when}, {"readable", is_readable(only.channel(), wait)}});
  };
  look("before", std::chrono::milliseconds(0));
  only.resolve_addr(id, where.own(18515));
  look("resolved", patience);
  only.next();
  look("taken", std::chrono::milliseconds(0));
}

/// An event that was not taken moves with its identifier.
void migrate_with_an_event(scene& where) {
  auto& only = where.add("only");
  auto& other = where.add("other");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(18515));
  is_readable(only.channel(), patience);
  only.migrate(id, other.channel());
  only.write({{"id->channel", id->channel == other.channel() ? "other" : "another"}});
  only.expect_silence();
  only.next_of(other.channel());
  only.resolve_route(id);
  only.next_of(other.channel());
  only.migrate(id, only.channel());
  only.migrate(id, only.channel());
}

void migrate_to_none_and_back(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.migrate(id, nullptr);
  only.write({{"id->channel", id->channel == only.channel() ? "own" : "another"}});
  only.migrate(id, nullptr);
  // It blocks now.
  only.resolve_addr(id, where.own(18515));
  if (id->event != nullptr) only.write_event(*id->event);
  only.migrate(id, only.channel());
  only.write({{"id->event", id->event == nullptr ? "none" : "there"}});
  only.resolve_route(id);
  only.next();
}

/// The untaken answer to a call is found by the next call that waits for one.
void migrate_to_none_with_an_event(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.resolve_addr(id, where.own(18515));
  is_readable(only.channel(), patience);
  only.migrate(id, nullptr);
  only.expect_silence();
  only.next_of(id->channel);
}

void migrate_a_listener(scene& where) {
  conversation talk(where);
  talk.listen();
  auto& third = where.add("third");
  // The kernel moves the event but not the new identifier, librdmacm throws it away and waits on.
  fcntl(third.channel()->fd, F_SETFL, O_NONBLOCK);
  talk.resolve();
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  is_readable(talk.passive.channel(), patience);
  talk.passive.migrate(talk.listener, third.channel());
  talk.passive.expect_silence();
  const auto seen = talk.passive.next_of(third.channel());
  if (seen.id == nullptr) return;
  talk.passive.adopt(seen.id, "server");
  talk.passive.write(
      {{"request's channel", seen.id->channel == third.channel() ? "third" : "another"}});
}

void options_of_ids(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  const std::uint8_t service = 0x20;
  const int yes = 1;
  const std::uint8_t timeout = 14;
  const std::uint8_t too_long = 32;
  const auto set = [&](int option, const auto& value, std::size_t bytes) {
    only.set_option(id, RDMA_OPTION_ID, option, &value, bytes);
  };
  const std::uint64_t wide = 1;
  set(RDMA_OPTION_ID_TOS, service, 1);
  set(RDMA_OPTION_ID_TOS, wide, 4);
  set(RDMA_OPTION_ID_TOS, service, 0);
  set(RDMA_OPTION_ID_REUSEADDR, yes, 4);
  set(RDMA_OPTION_ID_REUSEADDR, yes, 1);
  set(RDMA_OPTION_ID_REUSEADDR, wide, 8);
  set(RDMA_OPTION_ID_AFONLY, yes, 4);
  set(RDMA_OPTION_ID_AFONLY, yes, 1);
  set(RDMA_OPTION_ID_ACK_TIMEOUT, timeout, 1);
  set(RDMA_OPTION_ID_ACK_TIMEOUT, wide, 4);
  set(RDMA_OPTION_ID_ACK_TIMEOUT, too_long, 1);
  set(17, yes, 4);
  only.set_option(id, 17, 0, &yes, sizeof yes);
  only.set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &yes, sizeof yes);
}

void options_after_bind(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id");
  only.bind(id, where.own());
  const std::uint8_t value = 14;
  only.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value, 1);
  only.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1);
  only.set_flag(id, RDMA_OPTION_ID_REUSEADDR);
  only.set_flag(id, RDMA_OPTION_ID_REUSEADDR, 0);
  only.set_flag(id, RDMA_OPTION_ID_AFONLY);
  only.listen(id);
  only.set_flag(id, RDMA_OPTION_ID_REUSEADDR);
  only.set_flag(id, RDMA_OPTION_ID_AFONLY);
}

void options_of_datagrams(scene& where) {
  auto& only = where.add("only");
  auto* const id = only.create("id", RDMA_PS_UDP);
  const std::uint8_t value = 14;
  only.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value, 1);
  only.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1);
}

/// What becomes of them in the attributes of a connection.
void options_in_a_connection(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.client = talk.active.create("client");
  const std::uint8_t service = 0x68;
  const std::uint8_t timeout = 15;
  talk.active.set_option(talk.client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service, 1);
  talk.active.set_option(talk.client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1);
  talk.active.resolve_addr(talk.client, talk.at);
  talk.active.next();
  talk.active.resolve_route(talk.client);
  talk.active.next();
  talk.active.look_at(talk.client);
  talk.active.create_qp(talk.client);
  if (!talk.request()) return;
  talk.passive.look_at(talk.server);
  talk.accept();
  talk.active.query_qp(talk.client);
  talk.passive.query_qp(talk.server);
}

void options_of_a_listener_are_inherited(scene& where) {
  conversation talk(where);
  talk.listener = talk.passive.create("listener");
  const std::uint8_t service = 0x68;
  const std::uint8_t timeout = 15;
  talk.passive.set_option(talk.listener, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service, 1);
  talk.passive.set_option(talk.listener, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1);
  talk.passive.bind(talk.listener, where.own());
  talk.passive.listen(talk.listener);
  talk.resolve_to(where.own(ntohs(rdma_get_src_port(talk.listener))));
  if (!talk.request()) return;
  talk.accept();
  talk.active.query_qp(talk.client);
  talk.passive.query_qp(talk.server);
}

void enhanced_connection(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.client = talk.active.create("client");
  const auto set = [](side& on, rdma_cm_id* id, std::uint32_t vendor, std::uint32_t options) {
    ibv_ece ece{.vendor_id = vendor, .options = options, .comp_mask = 0};
    on.call("rdma_set_local_ece", id, [&] { return rdma_set_local_ece(id, &ece); });
  };
  const auto get = [](side& on, rdma_cm_id* id) {
    ibv_ece ece{};
    const int result =
        on.call("rdma_get_remote_ece", id, [&] { return rdma_get_remote_ece(id, &ece); });
    if (result == 0) on.write({{"vendor_id", ece.vendor_id}, {"options", ece.options}});
  };
  set(talk.active, talk.client, 0x15b3, 7);
  talk.active.call("rdma_set_local_ece", talk.client,
                   [&] { return rdma_set_local_ece(talk.client, nullptr); });
  set(talk.active, talk.client, 0, 7);
  talk.active.resolve_addr(talk.client, talk.at);
  talk.active.next();
  talk.active.resolve_route(talk.client);
  talk.active.next();
  auto asked = parameters();
  asked.qp_num = where.invent_qp("given by active");
  set(talk.active, talk.client, 0x15b3, 7);
  talk.active.connect(talk.client, &asked);
  auto* const server = talk.passive.next_request("server");
  if (server == nullptr) return;
  get(talk.passive, server);
  set(talk.passive, server, 0x15b3, 3);
  auto answered = parameters();
  answered.qp_num = where.invent_qp("given by passive");
  talk.passive.accept(server, &answered);
  talk.active.next();
  get(talk.active, talk.client);
  talk.active.establish(talk.client);
  talk.passive.next();
}

void enhanced_connection_rejected(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.passive.call("rdma_reject_ece", talk.server,
                    [&] { return rdma_reject_ece(talk.server, "hello", 5); });
  talk.active.next();
}

constexpr scenario scenarios[] = {
    {"channel_without_events", channel_without_events},
    {"channel_is_readable_until_the_event_is_taken", channel_is_readable_until_the_event_is_taken},
    {"migrate_with_an_event", migrate_with_an_event},
    {"migrate_to_none_and_back", migrate_to_none_and_back},
    {"migrate_to_none_with_an_event", migrate_to_none_with_an_event},
    {"migrate_a_listener", migrate_a_listener},
    {"options_of_ids", options_of_ids},
    {"options_after_bind", options_after_bind},
    {"options_of_datagrams", options_of_datagrams},
    {"options_in_a_connection", options_in_a_connection},
    {"options_of_a_listener_are_inherited", options_of_a_listener_are_inherited},
    {"enhanced_connection", enhanced_connection},
    {"enhanced_connection_rejected", enhanced_connection_rejected},
};

}  // namespace

std::span<const scenario> channels_and_options() { return scenarios; }

}  // namespace cm_oracle
