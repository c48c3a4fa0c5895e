#include <engine/netdev_port.hpp>

#include <utility>

#include <base/log.hpp>
#include <base/settings.hpp>
#include <engine/queue_pair.hpp>

namespace softverbs::engine {

std::shared_ptr<netdev_port> netdev_port::of(const net::netdev& device) {
  // What follows and its end, if there is no thread to be had, is without the lock of the process's
  // ports: a thread that advances the time holds its own lock, and may need that one.
  std::shared_ptr<netdev_port> made;
  const auto found = process_ports::of_process().find_or_make(device.index, [&] {
    made = std::make_shared<netdev_port>(device);
    made->thread_.start();
    return made;
  });
  if (made != nullptr) {
    add_time_source(*made);
    made->outages_.follow_plan();
  }
  return found;
}

netdev_port::netdev_port(net::netdev device)
    : traffic(traffic_counters::of(device.index)),
      device_(std::move(device)),
      timers_([this](time_point when) { thread_.wake_before(when); }),
      receiver_(timers_),
      outgoing_({.in_all = incoming_rings::limits_of_process().in_all}),
      ports_(*this, device_, receiver_),
      changes_(device_, ports_, observers_),
      outages_(timers_, observers_, [this] { thaw(); }),
      thread_(*this, receiver_.sources().fd()) {
  receiver_.sources().add(outgoing_.fd(), outgoing_, EPOLLIN);
  if (changes_.fd() >= 0) receiver_.sources().add(changes_.fd(), changes_, EPOLLIN);
}

netdev_port::~netdev_port() {
  remove_time_source(*this);
  thread_.stop();
}

std::shared_ptr<ring_writer> netdev_port::ring_to(std::uint32_t qpn, const net::address& own,
                                                  const net::address& to, std::uint16_t to_port) {
  if (!settings::get().shared_memory) return nullptr;
  return outgoing_.find_or_offer(
      {.own = own, .to = to, .port = static_cast<std::uint16_t>(qpn >> 8), .to_port = to_port});
}

void netdev_port::poll() {
  thread_.user_polls();
  if (is_frozen() || deferred_work::is_held()) return;
  try {
    receiver_.poll();
  } catch (const std::exception& problem) {
    packets_are_lost(problem);
  }
}

bool netdev_port::acknowledge_later(endpoint& who) {
  if (!thread_.stands_by()) return false;
  receiver_.acknowledge_later(who);
  return true;
}

time_point netdev_port::run_timers() {
  const auto on_timer = [this](endpoint& who) {
    if (who.owner != nullptr && !is_frozen()) who.owner->on_timer(clock::now());
  };
  while (timers_.run_next(clock::now(), on_timer)) deferred_work::run();
  return timers_.next_due();
}

bool netdev_port::settle() {
  const bool any = !is_frozen() && receiver_.receive();
  deferred_work::run();
  return any;
}

void netdev_port::receive_pending() {
  constexpr int most_rounds = 256;  // others may go on sending
  for (int i = 0; i < most_rounds && settle(); ++i) {
  }
}

void netdev_port::thaw() {
  for (const auto& each : ports_.endpoints()) {
    {
      const std::lock_guard lock(each->mutex);
      if (each->owner != nullptr) each->owner->on_timer(clock::now());
    }
    each->run();
  }
  deferred_work::run();
  thread_.wake();
}

void netdev_port::packets_are_lost(const std::exception& problem) const noexcept {
  log(log_level::error, "packets to {} are lost: {}", device_.name, problem.what());
}

void follow_fault_plan() {
  for (const auto& each : process_ports::of_process().netdevs()) each->outages().follow_plan();
}

}  // namespace softverbs::engine
