// The place of one netdev in this process: its UDP ports, the queue pair numbers that follow from
// them, and the thread that moves packets and timers when no user's thread does.
//
// A queue pair's number is (UDP port << 8) | index: a process binds a port of its own on every
// address of the netdev and owns the 256 numbers that belong to it. Whoever knows a QPN knows where
// to send, with no table and no daemon. docs/softverbs.md tells the whole story.
//
// Owners: the contexts of the process that are open on the netdev share one station; the last one
// to close ends it. Any thread may call any function.
//
// Who receives: one thread at a time, under the receiving lock. A user that polls a completion
// queue receives for itself; while users poll, the station's thread stands by and looks only now
// and then. As soon as it finds that packets wait for it although users poll (they spin on memory,
// for instance), it goes back to waiting for every packet.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>
#include <tuple>
#include <vector>

#include <base/descriptor.hpp>
#include <engine/clock.hpp>
#include <engine/endpoint.hpp>
#include <engine/fault_rule.hpp>
#include <engine/incoming_rings.hpp>
#include <engine/mailbox.hpp>
#include <engine/multicast_group.hpp>
#include <engine/outgoing_rings.hpp>
#include <engine/packet_ring.hpp>
#include <engine/ring_listener.hpp>
#include <engine/slot_claim.hpp>
#include <engine/traffic_counters.hpp>
#include <engine/virtual_time.hpp>
#include <net/change_watch.hpp>
#include <net/netdev.hpp>
#include <net/udp_socket.hpp>

namespace softverbs::engine {

class well_known_port;

/// A UDP port of this process and the 256 queue pair numbers that it stands for.
class port_lease {
 public:
  static constexpr unsigned numbers = 256;

  /// Binds the same port on each of the addresses; nothing with errno if that cannot be had. With a
  /// claim, a port in its slot if there is one.
  [[nodiscard]] static std::unique_ptr<port_lease> take(const std::vector<net::address>& addresses,
                                                        unsigned netdev_index, slot_claim* claim);

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::vector<std::unique_ptr<net::udp_socket>>& sockets() const noexcept {
    return sockets_;
  }
  [[nodiscard]] const net::udp_socket* socket_of(const net::address& own) const noexcept;
  [[nodiscard]] const std::vector<std::unique_ptr<mailbox>>& mailboxes() const noexcept {
    return mailboxes_;
  }
  [[nodiscard]] const mailbox* mailbox_of(const net::address& own) const noexcept;
  [[nodiscard]] const std::vector<std::unique_ptr<ring_listener>>& ring_listeners() const noexcept {
    return ring_listeners_;
  }
  /// Binds the port on one more address; false with errno. The lock of the process is held.
  bool add_address(const net::address& own, unsigned netdev_index);

  /// Null if all numbers are taken. Numbers are not used again before all the others were.
  [[nodiscard]] std::shared_ptr<endpoint> allocate();
  void release(std::uint32_t qpn);
  [[nodiscard]] std::shared_ptr<endpoint> find(std::uint32_t qpn) const;
  [[nodiscard]] std::vector<std::shared_ptr<endpoint>> all() const;

 private:
  port_lease() = default;

  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<net::udp_socket>> sockets_;
  std::vector<std::unique_ptr<mailbox>> mailboxes_;
  std::vector<std::unique_ptr<ring_listener>> ring_listeners_;
  mutable std::mutex mutex_;
  std::array<std::shared_ptr<endpoint>, numbers> endpoints_;
  unsigned next_ = 0;
  unsigned taken_ = 0;
};

/// Who wants to know what becomes of the netdev.
class netdev_observer {
 public:
  enum class change : std::uint8_t { up, down, addresses };
  virtual void netdev_changed(change what) = 0;

 protected:
  ~netdev_observer() = default;
};

/// How many objects of a kind there are, and may be.
class object_count {
 public:
  /// False if there are as many as there may be.
  [[nodiscard]] bool add(unsigned limit) noexcept {
    auto now = count_.load(std::memory_order_relaxed);
    do {
      if (now >= limit) return false;
    } while (!count_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed));
    return true;
  }
  void remove() noexcept { count_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<unsigned> count_ = 0;
};

class station final : public std::enable_shared_from_this<station>, private time_source {
 public:
  /// The process's station of the netdev.
  [[nodiscard]] static std::shared_ptr<station> of(const net::netdev& device);
  explicit station(net::netdev device);
  station(const station&) = delete;
  station& operator=(const station&) = delete;
  ~station();

  [[nodiscard]] const net::netdev& device() const noexcept { return device_; }

  /// A new queue pair number; null with errno.
  [[nodiscard]] std::shared_ptr<endpoint> allocate_endpoint();
  void release_endpoint(std::uint32_t qpn);
  /// The socket through which the queue pair sends from this address; null if it has none.
  [[nodiscard]] const net::udp_socket* socket_of(std::uint32_t qpn, const net::address& own);

  /// Told of changes until removed, from whatever thread notices them.
  void add_observer(netdev_observer& who);
  void remove_observer(netdev_observer& who);

  /// 0 or an errno; `added` tells whether it was not attached before.
  [[nodiscard]] int attach(const std::shared_ptr<endpoint>& who, const net::address& group,
                           bool& added);
  /// False if it was not attached.
  [[nodiscard]] bool detach(const endpoint& who, const net::address& group);

  /// The port by which this process is known for what is not about a queue pair; 0 with errno.
  [[nodiscard]] std::uint16_t management_port();
  /// The socket of that port; null if it has none on the address.
  [[nodiscard]] const net::udp_socket* management_socket(const net::address& own);

  /// The ring through which the queue pair's packets reach the process that holds that address and
  /// port; null if they have to go through sockets.
  [[nodiscard]] std::shared_ptr<ring_writer> ring_to(std::uint32_t qpn, const net::address& own,
                                                     const net::address& to, std::uint16_t to_port);

  /// Makes sure that packets from other hosts reach this process; 0 or an errno.
  [[nodiscard]] int open_well_known_port(const net::address& own);
  /// The same for all addresses, as far as they can be had.
  void open_well_known_ports();

  /// Called by users who find their completion queue empty.
  void poll();
  /// Receives what is there already, in this thread. No endpoint's lock may be held.
  void receive_pending();
  /// Called by users who are about to sleep on a completion channel.
  void user_sleeps();
  /// The queue pair has an acknowledgement to send, after the user has had its completion. False:
  /// nobody would, send it now. Called with the receiving lock held.
  [[nodiscard]] bool acknowledge_later(endpoint& who);

  /// Of this process, since it began.
  traffic_counters& traffic;
  object_count queue_pairs;
  object_count completion_queues;

  /// Calls the queue pair's on_timer at that time (or earlier). The endpoint's lock is held.
  void set_timer(endpoint& who, time_point when);
  /// Calls the function at that time, with no lock held. Not at all if the station ends before.
  void at(time_point when, std::function<void()> function);

  // --- what the fault plan wants ---
  /// A device that is frozen sends, receives and counts nothing; everything waits.
  [[nodiscard]] bool is_frozen() const noexcept { return frozen_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool port_is_down() const noexcept {
    return port_down_.load(std::memory_order_relaxed);
  }
  /// Without a duration it lasts until the plan is replaced; if it has been already, nothing
  /// begins.
  void begin_outage(fault_rule::action what, std::optional<std::chrono::nanoseconds> duration,
                    unsigned edition);
  /// Ends what another plan has begun, and sets the timers of this one.
  void follow_plan();

 private:
  struct timer {
    time_point when;
    std::uint64_t order = 0;         ///< of those that are due at once
    std::shared_ptr<endpoint> who;   ///< its on_timer, or
    std::function<void()> function;  ///< this
    friend bool operator>(const timer& a, const timer& b) {
      return std::tie(a.when, a.order) > std::tie(b.when, b.order);
    }
  };

  void start_thread();
  void packets_are_lost(const std::exception& problem) const noexcept;
  void work();
  [[nodiscard]] clock::wall::time_point time_to_wake(bool standby, clock::duration look_after);
  /// Until then, a packet, or wake(): true.
  bool sleep_until(clock::wall::time_point until);
  void wake() const;
  /// Runs what is due; tells when the next one is.
  [[nodiscard]] time_point run_timers();
  void run_timer(const timer& due) const;
  void add_timer(timer added);
  void end_outage(fault_rule::action what);
  void thaw();
  void tell_observers(netdev_observer::change what);

  bool settle() override;
  [[nodiscard]] time_point next_due() override;
  void run_due() override { static_cast<void>(run_timers()); }
  void clock_changed() override { wake(); }

  /// All with the receiving lock held.
  bool receive_all();
  bool receive_from(std::uint64_t marked, std::uint32_t events);
  bool receive_from(const net::udp_socket& socket);
  /// Asks the kernel only when the source is another one than the last.
  [[nodiscard]] bool is_of_this_host(const net::address& sender);
  bool receive_rings();
  bool receive_letters(const mailbox& box);
  void accept_rings(const ring_listener& listener);
  void stop_watching(int fd) const;
  void send_deferred_acknowledgements();

  /// Looks what has become of the netdev.
  void on_change();
  /// Binds addresses that the netdev has gained since.
  void bind_new_addresses();
  /// With leases_mutex_ held. Null with errno.
  [[nodiscard]] port_lease* take_lease();
  void lease_address(port_lease& lease, const net::address& own);

  /// What stands behind a descriptor in `sockets_epoll_`; it is marked by the lowest bits of the
  /// object's address.
  enum class source : std::uint8_t {
    socket,
    well_known,
    letters,
    group,
    changes,
    ring_listener,
    incoming_ring,
    outgoing_ring
  };
  static constexpr std::uint64_t source_bits = 7;
  void watch(int fd, source what, const void* object) const;
  void watch(const port_lease& lease, std::size_t address) const;
  static void unwatch(int fd);  ///< before it is closed
  void set_standby(bool standby);

  friend class well_known_port;

  net::netdev device_;
  mutable std::mutex leases_mutex_;
  std::vector<std::unique_ptr<port_lease>> leases_;
  slot_claim slot_;                                           ///< guarded by leases_mutex_
  std::vector<std::unique_ptr<well_known_port>> well_known_;  ///< guarded by leases_mutex_

  bool well_known_for_all_ = false;  ///< guarded by leases_mutex_
  net::change_watch changes_;

  std::mutex observers_mutex_;
  std::vector<netdev_observer*> observers_;
  bool was_up_ = true;
  std::vector<net::address> had_addresses_;

  std::mutex receiving_;
  net::receive_buffers buffers_;
  std::uint64_t busiest_ = 0;  ///< where the last packets came from, as epoll knows it
  net::address asked_source_;  ///< that is_of_this_host() was asked about last
  bool asked_source_is_local_ = false;
  std::map<net::address, std::unique_ptr<multicast_group>> groups_;
  unsigned polls_since_look_ = 0;
  incoming_rings incoming_;
  std::vector<std::byte> letter_memory_;
  std::vector<std::shared_ptr<endpoint>> acknowledgements_;
  bool called_by_user_ = false;
  descriptor sockets_epoll_;
  descriptor outer_epoll_;
  descriptor wake_fd_;

  outgoing_rings outgoing_;

  std::atomic<std::uint64_t> polls_ = 0;
  std::atomic<bool> standby_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> thread_sleeps_until_ = 0;  ///< ticks of the wall's clock; 0: awake
  std::atomic<bool> frozen_ = false;
  std::atomic<bool> port_down_ = false;

  std::mutex timers_mutex_;
  std::priority_queue<timer, std::vector<timer>, std::greater<>> timers_;
  std::uint64_t timers_set_ = 0;

  std::mutex thread_mutex_;
  std::thread thread_;
};

/// Makes all devices of this process follow the fault plan, which has changed.
void follow_fault_plan();

/// The endpoint of a queue pair of this process with that address and number; null if there is
/// none.
[[nodiscard]] std::shared_ptr<endpoint> find_in_process(const net::address& destination,
                                                        std::uint32_t qpn);

/// Whether this process holds the port on that address.
[[nodiscard]] bool holds_port(const net::address& own, std::uint16_t port);

/// Descriptors that a child of a fork must not keep; to be forgotten before they are closed.
void close_in_children(int fd);
void forget_descriptor(int fd);

/// Counts the forks that lie between this process and the one that loaded the library: objects of
/// another generation belong to the parent.
[[nodiscard]] unsigned process_generation() noexcept;

}  // namespace softverbs::engine
