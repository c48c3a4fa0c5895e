// The connection manager of this process: one thread that receives messages, runs timers and
// notices when a process of this host ends.
//
// One lock guards everything here and in the ids: connections are made rarely. Nobody holds it
// while waiting for a peer or an event; only taking UDP port 4791 may make others wait a moment.
// After fork a child has an agent of its own; its parent's stays untouched in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cm/directory.hpp>
#include <cm/liveness_monitor.hpp>
#include <cm/orphan_disconnect.hpp>
#include <engine/clock.hpp>
#include <engine/handoff_socket.hpp>
#include <engine/management.hpp>
#include <engine/private_descriptor.hpp>
#include <engine/virtual_time.hpp>
#include <net/address.hpp>

namespace softverbs::cm {

class cm_id;
class port_reservation;

class agent final : private engine::time_source {
 private:
  engine::private_descriptor epoll_;  // before `liveness`, which uses it
  engine::private_descriptor wake_fd_;

 public:
  [[nodiscard]] static agent& of_process();
  /// Null if nobody has needed it yet.
  [[nodiscard]] static agent* of_process_if_made();

  /// Everything else is used with it held.
  std::mutex mutex;
  directory ids;
  liveness_monitor liveness;

  void listen(const port_reservation& port, cm_id& who);
  void stop_listening(const port_reservation& port);

  /// One timer for each id; `never` stops it.
  void set_timer(cm_id& who, engine::time_point when);

  /// Makes this process notice the end of the one whose messages come from that port.
  void watch_peer(cm_id& who, const net::address& address, std::uint16_t port);
  void unwatch_peer(cm_id& who);

  /// Random for each process: a restarted program is not taken for its predecessor.
  [[nodiscard]] std::uint64_t ca_guid() const noexcept { return ca_guid_; }

 private:
  static constexpr std::size_t most_in_inbox = 4096;

  agent();
  void work();
  void wake() const;
  void watch(int fd) const;

  /// Queues a message. Any thread, without the lock.
  void post(const engine::management_datagram& datagram);
  /// A queue pair has received its first data. Any thread, without the lock.
  void post_data(std::uint32_t qpn);
  /// True if there was something.
  bool handle_inbox();
  void handle_first_data(std::uint32_t qpn) const;
  void handle(const engine::management_datagram& datagram);
  void handle_request(const engine::management_datagram& datagram);
  [[nodiscard]] cm_id* listener_for(const engine::management_datagram& request) const;
  [[nodiscard]] static bool is_cut_off(const engine::management_datagram& datagram);
  [[nodiscard]] static bool refuse_for_fault_plan(const engine::management_datagram& datagram);
  static void answer_without_receiver(const engine::management_datagram& datagram);

  void handle_descriptor(int fd);
  static void empty(const engine::handoff_socket& socket);
  static void receive_burst(const engine::handoff_socket::burst& burst);

  /// Receives what processes sent before they ended, also their DREQs, before their end is
  /// reported.
  void receive_from_gone_peers();
  /// True if there were any.
  bool report_gone_peers();
  static void send_orphan_disconnects(const std::vector<orphan_disconnect>& disconnects);

  /// Runs what is due. Returns when the next timer is.
  [[nodiscard]] engine::time_point run_timers();
  bool settle() override;
  [[nodiscard]] engine::time_point next_due() override;
  void run_due() override;
  void clock_changed() override { wake(); }

  std::uint64_t ca_guid_ = 0;
  struct listening {
    const port_reservation* port = nullptr;
    std::size_t socket = 0;
    cm_id* who = nullptr;
  };
  std::unordered_map<int, listening> listeners_;  ///< by the descriptor of a handoff socket
  std::set<std::pair<engine::time_point, cm_id*>> timers_;
  std::set<cm_id*> peers_gone_;  ///< whose peer has ended; not reported yet

  std::mutex inbox_mutex_;
  std::vector<engine::management_datagram> inbox_;
  std::size_t lost_ = 0;  ///< since the inbox was emptied
  std::vector<std::uint32_t> queue_pairs_with_data_;
  std::thread thread_;
};

}  // namespace softverbs::cm
