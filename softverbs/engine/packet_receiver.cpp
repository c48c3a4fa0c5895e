#include <engine/packet_receiver.hpp>

#include <chrono>
#include <span>
#include <utility>

#include <base/undo.hpp>
#include <engine/packet_delivery.hpp>
#include <engine/queue_pair.hpp>

namespace softverbs::engine {
namespace {

using namespace std::chrono_literals;

// The busiest source is asked first; the others after this many polls.
constexpr unsigned polls_between_looks = 32;
// How long no rings are accepted when there are no descriptors for them.
constexpr auto time_without_descriptors = 100ms;
// From one ring, before the user gets its completions and other rings their turn.
constexpr std::size_t packets_per_turn = 32;
// From one process, before other sources get their turn.
constexpr int bursts_per_turn = 64;

}  // namespace

/// The socket of a leased address.
class packet_receiver::own_socket final : public packet_source {
 public:
  explicit own_socket(const net::udp_socket& socket) : socket_(socket) {}

  bool receive(receive_state& state, std::uint32_t /*events*/) override {
    const auto trains = state.buffers.receive(socket_);
    for (const auto& train : trains) {
      packet_delivery into({.flow = {.source = train.source,
                                     .destination = socket_.own_address(),
                                     .source_port = train.source_port,
                                     .destination_port = socket_.port()},
                            .came = inbound::path::same_host,
                            .icrc = state.neighbours.contain(train.source)
                                        ? wire::icrc_rule::zero_is_none
                                        : wire::icrc_rule::always,
                            .called_by_user = state.called_by_user});
      into.deliver_train(train.bytes, train.segment_bytes);
    }
    if (!trains.empty()) state.busiest = this;
    return !trains.empty();
  }

 private:
  const net::udp_socket& socket_;
};

/// What other processes hand over, because it reached them through UDP port 4791.
class packet_receiver::handed_over final : public packet_source {
 public:
  explicit handed_over(const handoff_socket& box) : box_(box) {}

  bool receive(receive_state& state, std::uint32_t /*events*/) override {
    state.handoff_memory.resize(handoff_socket::burst_bytes);
    handoff_socket::burst burst;
    bool any = false;
    for (int i = 0; i < bursts_per_turn && box_.take(state.handoff_memory, burst); ++i) {
      any = true;
      packet_delivery into({.flow = {.source = burst.source,
                                     .destination = box_.own_address(),
                                     .source_port = burst.source_port,
                                     .destination_port = wire::roce_udp_port},
                            .came = inbound::path::roce_port});
      into.deliver_train(burst.packets, burst.segment_bytes);
    }
    return any;
  }

 private:
  const handoff_socket& box_;
};

/// Where neighbours offer their packet rings.
class packet_receiver::ring_offers final : public packet_source {
 public:
  ring_offers(packet_receiver& owner, const ring_listener& listener)
      : owner_(owner), listener_(listener) {}

  bool receive(receive_state& /*state*/, std::uint32_t /*events*/) override {
    if (!owner_.incoming_.accept_from(listener_))
      owner_.sources_.pause(listener_.fd(), *this, time_without_descriptors, EPOLLIN);
    return false;
  }

 private:
  packet_receiver& owner_;
  const ring_listener& listener_;
};

packet_receiver::packet_receiver(timer_queue& timers)
    : sources_(timers),
      incoming_(incoming_rings::limits_of_process(), sources_),
      groups_(sources_) {}

void packet_receiver::own(std::unique_ptr<packet_source> source, int fd) {
  auto& kept = *source;
  {
    const std::lock_guard lock(owned_mutex_);
    owned_.push_back(std::move(source));
  }
  sources_.add(fd, kept, EPOLLIN);
}

void packet_receiver::watch(const leased_address& own_address) {
  own(std::make_unique<own_socket>(own_address.socket()), own_address.socket().fd());
  own(std::make_unique<handed_over>(own_address.handoff()), own_address.handoff().fd());
  own(std::make_unique<ring_offers>(*this, own_address.rings()), own_address.rings().fd());
}

int packet_receiver::attach(const std::shared_ptr<endpoint>& who, const net::address& group,
                            unsigned netdev_index, bool& added) {
  const std::lock_guard receiving(receiving_);
  return groups_.attach(who, group, netdev_index, added);
}

bool packet_receiver::detach(const endpoint& who, const net::address& group) {
  const std::lock_guard receiving(receiving_);
  return groups_.detach(who, group, state_);
}

void packet_receiver::poll() {
  const std::unique_lock receiving(receiving_, std::try_to_lock);
  if (!receiving.owns_lock()) return;
  state_.called_by_user = true;
  const undo no_longer([this] { state_.called_by_user = false; });
  if (!acknowledgements_.empty()) send_deferred_acknowledgements();
  if (++polls_since_look_ >= polls_between_looks) {
    polls_since_look_ = 0;
    receive_all();
  } else if (!receive_rings() && state_.busiest != nullptr) {
    state_.busiest->receive(state_, EPOLLIN);
  }
}

bool packet_receiver::receive() {
  const std::lock_guard receiving(receiving_);
  send_deferred_acknowledgements();
  return receive_all();
}

bool packet_receiver::receive_all() {
  bool any = receive_rings();
  any |= sources_.receive_ready(state_);
  any |= receive_rings();
  return any;
}

bool packet_receiver::receive_rings() {
  return incoming_.read([](incoming_rings::ring& each) {
    packet_delivery into({.flow = {.source = each.source,
                                   .destination = each.destination,
                                   .source_port = each.source_port,
                                   .destination_port = each.destination_port},
                          .came = inbound::path::same_host,
                          .icrc = wire::icrc_rule::zero_is_none});
    each.reader.read(packets_per_turn,
                     [&](std::span<const std::byte> datagram) { into.deliver(datagram); });
  });
}

void packet_receiver::send_deferred_acknowledgements() {
  for (const auto& who : std::exchange(acknowledgements_, {})) {
    const std::lock_guard lock(who->mutex);
    if (who->owner != nullptr) who->owner->send_acknowledgement();
  }
}

packet_receiver::readiness packet_receiver::prepare_for_sleep() {
  const std::unique_lock receiving(receiving_, std::try_to_lock);
  if (!receiving.owns_lock()) return readiness::another_receives;
  return incoming_.prepare_for_sleep() ? readiness::may_sleep : readiness::packets_wait;
}

}  // namespace softverbs::engine
