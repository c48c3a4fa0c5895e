// The connection manager of this process: one thread that receives its messages, runs its timers
// and notices when a neighbour dies, and the directory of identifiers that messages are for.
//
// Everything here and in identifiers is guarded by one lock: connections are made rarely. Nobody
// holds it while waiting for a peer or an event; only taking UDP port 4791 may make others wait a
// moment. After fork a child has an agent of its own; that of its parent stays untouched in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cm/last_will.hpp>
#include <cm/neighbourhood.hpp>
#include <engine/clock.hpp>
#include <engine/mailbox.hpp>
#include <engine/management.hpp>
#include <engine/private_descriptor.hpp>
#include <engine/virtual_time.hpp>
#include <net/address.hpp>

namespace softverbs::cm {

class identifier;
class port_reservation;

class agent final : private engine::time_source {
 public:
  [[nodiscard]] static agent& of_process();
  /// Null if nobody has needed it yet.
  [[nodiscard]] static agent* of_process_if_made();

  std::mutex mutex;

  /// The rest with the lock held.
  void add(identifier& who) { all_.insert(&who); }
  void remove(identifier& who) { all_.erase(&who); }
  [[nodiscard]] const std::set<identifier*>& all() const noexcept { return all_; }

  /// Messages to the identifier name this number, whose upper half is the port of the process; 0 if
  /// all are taken.
  [[nodiscard]] std::uint32_t enter(identifier& who, std::uint16_t port);
  void leave(std::uint32_t number);

  /// Requests that were received, so that a repetition is recognised.
  struct request_key {
    net::address source;
    std::uint64_t ca_guid = 0;
    std::uint32_t number = 0;
    friend auto operator<=>(const request_key&, const request_key&) = default;
  };
  void remember_request(const request_key& key, identifier& who) { requests_[key] = &who; }
  void forget_request(const request_key& key) { requests_.erase(key); }

  void listen(const port_reservation& port, identifier& who);
  void stop_listening(const port_reservation& port);

  /// One timer for each identifier; `never` stops it.
  void set_timer(identifier& who, engine::time_point when);
  void forget(identifier& who);

  /// A message that arrives as if from the network, when the caller is done.
  void post(const engine::management_datagram& datagram);
  /// Data has come to a queue pair for the first time.
  void post_data(std::uint32_t qpn);

  /// Random, for each process: a restarted program is not taken for its predecessor.
  [[nodiscard]] std::uint64_t ca_guid() const noexcept { return ca_guid_; }
  [[nodiscard]] static std::uint32_t random_psn();

  /// Makes this process notice the end of a neighbour, whose messages come from that port.
  void watch_neighbour(identifier& who, const net::address& address, std::uint16_t port);
  void unwatch_neighbour(identifier& who);
  /// Lets neighbours notice the end of this process.
  void show_life(const net::address& own, std::uint16_t port) { neighbours_.show_life(own, port); }
  /// What the peer on another host of a connection is to be told at the end of this process.
  void bequeath(std::uint32_t number, const last_will& will) { neighbours_.bequeath(number, will); }
  void revoke(std::uint32_t number) { neighbours_.revoke(number); }

 private:
  static constexpr std::size_t most_in_inbox = 4096;

  agent();
  void work();
  void wake() const;
  /// True if there was something.
  bool handle_inbox();
  [[nodiscard]] static bool is_cut_off(const engine::management_datagram& datagram);
  void data_came_to(std::uint32_t qpn);
  void handle(const engine::management_datagram& datagram);
  void handle_request(const engine::management_datagram& datagram);
  [[nodiscard]] static bool refuse_for_fault_plan(const engine::management_datagram& datagram);
  void answer_for_nobody(const engine::management_datagram& datagram);
  void handle_descriptor(int fd);
  static void empty(const engine::mailbox& box);
  static void receive_letter(const engine::mailbox::letter& letter);
  /// What a neighbour sent before it ended is received before its end is told: also its DREQ.
  void hear_last_words();
  /// True if there was somebody.
  bool tell_bereaved();
  static void execute(const std::vector<last_will>& wills);
  /// Runs what is due; tells when the next one is.
  [[nodiscard]] engine::time_point run_timers();
  bool settle() override;
  [[nodiscard]] engine::time_point next_due() override;
  void run_due() override;
  void clock_changed() override { wake(); }
  void watch(int fd) const;

  std::uint64_t ca_guid_ = 0;
  std::set<identifier*> all_;
  engine::private_descriptor epoll_;
  engine::private_descriptor wake_fd_;
  std::unordered_map<std::uint32_t, identifier*> by_number_;
  std::array<std::uint32_t, 256> left_{};  ///< the last numbers that were given back
  std::size_t next_left_ = 0;
  std::map<request_key, identifier*> requests_;
  struct listening {
    const class port_reservation* port = nullptr;
    std::size_t box = 0;
    identifier* who = nullptr;
  };
  std::unordered_map<int, listening> listeners_;
  std::set<std::pair<engine::time_point, identifier*>> timers_;

  neighbourhood neighbours_;
  std::set<identifier*> bereaved_;  ///< of a neighbour, and not told yet

  std::mutex inbox_mutex_;
  std::vector<engine::management_datagram> inbox_;
  std::size_t lost_ = 0;  ///< since the inbox was emptied
  std::vector<std::uint32_t> queue_pairs_with_data_;
  std::thread thread_;
};

}  // namespace softverbs::cm
