// What is asked again and again for more than a minute. These come first, because the others can go
// on meanwhile.

#include "conversation.hpp"
#include "scenario.hpp"

namespace cm_oracle {

namespace {

constexpr std::chrono::seconds until_given_up{150};

void unanswered_connect(scene& where) {
  conversation talk(where);
  talk.resolve_to(where.nobodys(18515));
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.active.next(until_given_up);
  talk.active.query_qp(talk.client);
}

void unanswered_datagram_connect(scene& where) {
  conversation talk(where, RDMA_PS_UDP);
  talk.resolve_to(where.nobodys(18515));
  auto said = parameters();
  talk.active.connect(talk.client, &said);
  talk.active.next(until_given_up);
}

void unanswered_disconnect(scene& where) {
  conversation talk(where);
  if (!talk.establish()) return;
  talk.active.disconnect(talk.client);
  talk.passive.next();
  talk.active.next(until_given_up);
  talk.active.next();
  talk.passive.next(silence);
}

/// The event is never taken, and there is no place for a second one.
void unanswered_for_want_of_backlog(scene& where) {
  conversation talk(where);
  talk.listen(1);
  for (const auto* const label : {"first", "second"}) {
    auto* const client = talk.active.create(label);
    talk.active.resolve_addr(client, talk.at);
    talk.active.next();
    talk.active.resolve_route(client);
    talk.active.next();
    talk.active.create_qp(client);
    auto said = parameters();
    talk.active.connect(client, &said);
    talk.active.expect_silence();
  }
  talk.active.next(until_given_up);
  talk.active.next(silence);
}

/// Accepted, and the answer is not taken: it is not confirmed.
void unanswered_accept(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  auto said = parameters();
  talk.passive.accept(talk.server, &said);
  talk.passive.next(until_given_up);
  talk.passive.query_qp(talk.server);
  talk.active.next();
  talk.active.query_qp(talk.client);
  talk.active.next(silence);
}

/// Neither accepted nor rejected.
void unanswered_request(scene& where) {
  conversation talk(where);
  talk.listen();
  talk.resolve();
  if (!talk.request()) return;
  talk.active.next(until_given_up);
  talk.active.query_qp(talk.client);
  talk.passive.next(silence);
}

constexpr scenario scenarios[] = {
    {"unanswered_connect", unanswered_connect},
    {"unanswered_datagram_connect", unanswered_datagram_connect},
    {"unanswered_disconnect", unanswered_disconnect},
    {"unanswered_for_want_of_backlog", unanswered_for_want_of_backlog},
    {"unanswered_accept", unanswered_accept},
    {"unanswered_request", unanswered_request},
};

}  // namespace

std::span<const scenario> unanswered() { return scenarios; }

}  // namespace cm_oracle
