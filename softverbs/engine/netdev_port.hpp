// What this process has of one netdev, tied together: its UDP ports, what comes through them, the
// rings to its neighbours, the timers, and the thread that moves all this when no user's thread
// does.
//
// Owners: the contexts of the process that are open on the netdev share one; the last one to close
// ends it. Any thread may call any function.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include <engine/clock.hpp>
#include <engine/endpoint.hpp>
#include <engine/fork_registry.hpp>
#include <engine/netdev_changes.hpp>
#include <engine/netdev_observers.hpp>
#include <engine/object_count.hpp>
#include <engine/outages.hpp>
#include <engine/outgoing_rings.hpp>
#include <engine/packet_receiver.hpp>
#include <engine/packet_ring.hpp>
#include <engine/port_leases.hpp>
#include <engine/process_ports.hpp>
#include <engine/progress_thread.hpp>
#include <engine/timer_queue.hpp>
#include <engine/traffic_counters.hpp>
#include <engine/virtual_time.hpp>
#include <net/address.hpp>
#include <net/netdev.hpp>
#include <net/udp_socket.hpp>

namespace softverbs::engine {

class netdev_port final : private progress_work, private time_source {
 public:
  /// The process's one of the netdev.
  [[nodiscard]] static std::shared_ptr<netdev_port> of(const net::netdev& device);
  explicit netdev_port(net::netdev device);
  netdev_port(const netdev_port&) = delete;
  netdev_port& operator=(const netdev_port&) = delete;
  ~netdev_port();

  [[nodiscard]] const net::netdev& device() const noexcept { return device_; }

  // Its parts.
  [[nodiscard]] port_leases& ports() noexcept { return ports_; }
  [[nodiscard]] timer_queue& timers() noexcept { return timers_; }
  [[nodiscard]] netdev_observers& observers() noexcept { return observers_; }
  [[nodiscard]] engine::outages& outages() noexcept { return outages_; }
  [[nodiscard]] const engine::outages& outages() const noexcept { return outages_; }

  /// Attaches a queue pair to a multicast group: 0 or an errno; `added` tells whether it was not
  /// attached before.
  [[nodiscard]] int attach(const std::shared_ptr<endpoint>& who, const net::address& group,
                           bool& added) {
    return receiver_.attach(who, group, device_.index, added);
  }
  /// False if it was not attached.
  [[nodiscard]] bool detach(const endpoint& who, const net::address& group) {
    return receiver_.detach(who, group);
  }

  /// The ring through which the queue pair's packets reach the process that holds that address and
  /// port; null if they have to go through sockets.
  [[nodiscard]] std::shared_ptr<ring_writer> ring_to(std::uint32_t qpn, const net::address& own,
                                                     const net::address& to, std::uint16_t to_port);

  /// Called by users who find their completion queue empty.
  void poll();
  /// Receives what is there already, in this thread. No endpoint's lock may be held.
  void receive_pending();
  /// Called by users who are about to sleep on a completion channel.
  void user_sleeps() { thread_.user_sleeps(); }
  /// The queue pair has an acknowledgement to send, after the user has had its completion. False:
  /// nobody would, send it now. Called where packets are delivered.
  [[nodiscard]] bool acknowledge_later(endpoint& who);

  /// Of this process, since it began.
  traffic_counters& traffic;
  object_count queue_pairs;
  object_count completion_queues;

 private:
  // What the progress thread does.
  [[nodiscard]] bool is_frozen() const noexcept override { return outages_.is_frozen(); }
  [[nodiscard]] time_point run_timers() override;
  bool receive() override { return receiver_.receive(); }
  [[nodiscard]] packet_receiver::readiness prepare_for_sleep() override {
    return receiver_.prepare_for_sleep();
  }
  void has_become_idle() override { outgoing_.release_memory(); }
  void packets_are_lost(const std::exception& problem) const noexcept override;

  // What whoever moves the time by hand does.
  bool settle() override;
  [[nodiscard]] time_point next_due() override { return timers_.next_due(); }
  void run_due() override { static_cast<void>(run_timers()); }
  void clock_changed() override { thread_.wake(); }

  void thaw();

  net::netdev device_;
  timer_queue timers_;
  packet_receiver receiver_;
  outgoing_rings outgoing_;
  netdev_observers observers_;
  port_leases ports_;
  netdev_changes changes_;
  engine::outages outages_;
  progress_thread thread_;
};

/// Makes all devices of this process follow the fault plan, which has changed.
void follow_fault_plan();

}  // namespace softverbs::engine
