#include <cm/event_reporter.hpp>

#include <algorithm>
#include <utility>

#include <cm/cm_id.hpp>

namespace softverbs::cm {

event_reporter::event_reporter(cm_id& id, event_channel& channel) : id_(id), channel_(&channel) {}

cm_event& event_reporter::make(rdma_cm_event_type type, int status) const {
  auto* const made = new cm_event{};
  made->id = &id_;
  made->event = type;
  made->status = status;
  made->owner = &id_;
  return *made;
}

void event_reporter::raise(cm_event& event) {
  auto& account = event.owner->events.account_;
  account.raised();
  try {
    channel_->events.push(&event);
  } catch (...) {
    account.acknowledged(1);
    delete &event;
    throw;
  }
}

std::vector<cm_event*> event_reporter::take_back() {
  std::vector<cm_event*> taken;
  static_cast<void>(channel_->events.remove_if([&](cm_event* each) {
    if (each->owner != &id_) return false;
    taken.push_back(each);
    return true;
  }));
  return taken;
}

void event_reporter::migrate_to(event_channel& other) {
  const auto moved = take_back();
  channel_ = &other;
  id_.channel = &other;
  for (auto* const each : moved) other.events.push(each);
}

std::unique_ptr<event_channel> event_reporter::make_synchronous(
    std::unique_ptr<event_channel> own) {
  if (own != nullptr) migrate_to(*own);
  return std::exchange(own_, std::move(own));
}

void put_private_data(cm_event& event, const wire::cm_message& message, std::size_t skip) {
  const auto bytes = wire::private_bytes(message.kind) - skip;
  std::copy_n(message.private_data.begin() + static_cast<std::ptrdiff_t>(skip), bytes,
              event.data.begin());
  if (event.id->qp_type == IBV_QPT_UD) {
    event.param.ud.private_data = event.data.data();
    event.param.ud.private_data_len = static_cast<std::uint8_t>(bytes);
  } else {
    event.param.conn.private_data = event.data.data();
    event.param.conn.private_data_len = static_cast<std::uint8_t>(bytes);
  }
}

void put_terms(cm_event& event, const wire::cm_message& message) {
  auto& terms = event.param.conn;
  // The peer's depth is what this side has to hold resources for, and the other way round.
  terms.responder_resources = message.initiator_depth;
  terms.initiator_depth = message.responder_resources;
  terms.flow_control = message.flow_control ? 1 : 0;
  terms.rnr_retry_count = message.rnr_retry_count;
  terms.srq = message.srq ? 1 : 0;
  terms.qp_num = message.qpn;
}

}  // namespace softverbs::cm
