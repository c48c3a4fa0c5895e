// What an rdma_cm_id stands for: an address, then a listener or one side of a connection.
//
// Owner: the user, through rdma_create_id and rdma_destroy_id; those of connection requests belong
// to their event until the user has taken it. All functions are called with the agent's lock held,
// unless they say otherwise. Functions for users return 0 or an errno.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <cm/agent.hpp>
#include <cm/event_channel.hpp>
#include <cm/local_device.hpp>
#include <cm/port_reservation.hpp>
#include <engine/completion_queue.hpp>
#include <engine/management.hpp>
#include <rdma/rdma_cma.h>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

class identifier : public rdma_cm_id {
 public:
  identifier(agent& owner, event_channel& events, void* user_context, rdma_port_space space,
             ibv_qp_type type);
  identifier(const identifier&) = delete;
  identifier& operator=(const identifier&) = delete;
  ~identifier();
  /// Says goodbye to the peer; nothing happens to it any more.
  void retire() noexcept;
  /// False in a child of the process that made it.
  [[nodiscard]] bool is_alive() const noexcept {
    return generation_ == engine::process_generation();
  }

  [[nodiscard]] static identifier& of(rdma_cm_id* id) { return *static_cast<identifier*>(id); }

  // --- for users ---
  [[nodiscard]] int bind(const sockaddr* wanted);
  [[nodiscard]] int listen(int backlog);
  [[nodiscard]] int resolve_address(const sockaddr* source, const sockaddr* destination);
  [[nodiscard]] int resolve_route();
  [[nodiscard]] int connect(const rdma_conn_param* wanted);
  [[nodiscard]] int accept(const rdma_conn_param* wanted);
  [[nodiscard]] int reject(std::span<const std::byte> private_data, wire::reject_reason reason);
  [[nodiscard]] int disconnect();
  /// Tells the peer that this side is ready; after CONNECT_RESPONSE.
  [[nodiscard]] int establish();
  /// Data came before the peer's word that it is ready.
  [[nodiscard]] int data_has_come();
  [[nodiscard]] int join(const sockaddr* group, void* group_context);
  [[nodiscard]] int leave(const sockaddr* group);
  [[nodiscard]] int set_option(int level, int option, std::span<const std::byte> value);
  /// What a queue pair needs for the state in `attributes`.
  [[nodiscard]] int describe(ibv_qp_attr& attributes, int& mask) const;
  void migrate_to(event_channel& other);
  [[nodiscard]] bool reports_to(const event_channel& channel_of_user) const noexcept {
    return events_ == &channel_of_user;
  }

  /// The event is about to be handed out: what remains to be done before the user sees it.
  static void prepare(cm_event& news);

  // --- for the agent ---
  void on_message(const engine::management_datagram& datagram);
  /// To a listener.
  void on_request(const engine::management_datagram& datagram);
  /// The same request again.
  void on_repeated_request();
  void on_timer(engine::time_point now);
  void on_neighbour_gone();

  [[nodiscard]] local_device* device() const noexcept { return device_; }
  [[nodiscard]] event_channel& events() const noexcept { return *events_; }
  [[nodiscard]] bool is_datagram() const noexcept { return qp_type == IBV_QPT_UD; }
  [[nodiscard]] bool is_listening() const noexcept { return phase_ == phase::listening; }

  [[nodiscard]] agent& manager() const noexcept { return agent_; }

  engine::event_account account;  ///< of events that users have not acknowledged
  bool synchronous = false;
  std::unique_ptr<event_channel> own_events;  ///< of a synchronous identifier
  std::unique_ptr<ibv_qp_init_attr> qp_wish;  ///< of rdma_create_ep: for what it accepts
  ibv_pd* pd_wish = nullptr;
  ibv_ece local_ece{};
  ibv_ece remote_ece{};
  std::uint8_t requested_responder_resources = 0;
  std::uint8_t requested_initiator_depth = 0;

 private:
  /// What the peer has to know when this end goes.
  void say_goodbye();
  enum class phase : std::uint8_t {
    idle,
    bound,
    address_resolved,
    route_resolved,
    listening,
    requested,      ///< by a peer, not answered yet
    connecting,     ///< the request is under way
    replied,        ///< the peer has accepted; its word is kept until the user is ready
    accepted,       ///< the reply is under way
    established,    //
    disconnecting,  ///< by this side, the peer has not answered
    disconnected,   ///< by the peer, this side has not answered
    timewait,
    closed
  };

  struct group {
    net::address address;
    bool attached = false;
  };

  cm_event& make_event(rdma_cm_event_type type, int status);
  void raise(cm_event& news);
  void raise(rdma_cm_event_type type, int status = 0) { raise(make_event(type, status)); }
  void fill_connection_event(cm_event& news, const wire::cm_message& message);
  void copy_private_data(cm_event& news, const wire::cm_message& message, std::size_t skip) const;

  /// Takes the device of the address.
  [[nodiscard]] int use_address(const net::address& own);
  [[nodiscard]] int reserve_port(bool to_listen);
  [[nodiscard]] wire::cm_message message_of(wire::cm_kind kind) const;
  [[nodiscard]] int put_private_data(wire::cm_message& message, const void* data, std::size_t bytes,
                                     bool with_addresses) const;
  [[nodiscard]] int send(const wire::cm_message& message);
  /// Until something is heard.
  [[nodiscard]] int send_repeatedly(const wire::cm_message& message);
  void stop_repeating();
  void enter_timewait();
  void send_receipt(wire::cm_answered what);
  void answer_for_nobody(const wire::cm_message& message);
  void look_for_listener(const wire::cm_message& message);
  void queue_pair_fails() const;
  /// Brings the queue pair, if there is one, from INIT to RTS.
  [[nodiscard]] int make_ready() const;
  void on_response_seen(cm_event& news);
  [[nodiscard]] int try_to_accept(const rdma_conn_param* wanted);
  void settle_connection(const wire::cm_message& message);
  [[nodiscard]] std::uint8_t acknowledge_timeout() const;
  void on_reply(const wire::cm_message& message);
  void on_rejection(const wire::cm_message& message);
  void on_sidr_reply(const wire::cm_message& message);
  void on_disconnect_request(const wire::cm_message& message);
  void watch_peer();
  void unwatch_peer();
  void set_addresses();
  void describe_path();
  [[nodiscard]] ibv_ah_attr path_to(const net::address& destination) const;

  agent& agent_;
  const unsigned generation_ = engine::process_generation();
  bool retired_ = false;
  event_channel* events_;
  phase phase_ = phase::idle;
  local_device* device_ = nullptr;
  net::address own_{};
  net::address peer_{};
  std::uint16_t port_ = 0;
  std::uint16_t peer_port_ = 0;
  unsigned scope_ = 0;  ///< the interface of a link-local address
  bool reuse_address_ = false;
  bool one_family_only_ = false;
  std::uint8_t type_of_service_ = 0;
  std::optional<std::uint8_t> acknowledge_timeout_;
  std::unique_ptr<port_reservation> reservation_;
  int backlog_left_ = 0;

  // The connection.
  std::uint32_t number_ = 0;  ///< this side's communication identifier; 0: none yet
  std::uint32_t peer_number_ = 0;
  std::uint64_t transaction_ = 0;
  std::uint64_t service_ = 0;
  std::optional<agent::request_key> request_;
  std::uint32_t own_psn_ = 0;   ///< that the peer sends with
  std::uint32_t peer_psn_ = 0;  ///< that this side sends with
  std::uint32_t own_qpn_ = 0;
  std::uint32_t peer_qpn_ = 0;
  std::uint8_t responder_resources_ = 0;
  std::uint8_t initiator_depth_ = 0;
  std::uint8_t retry_count_ = 7;
  std::uint8_t rnr_retry_count_ = 7;
  std::uint8_t path_timeout_ = 0;
  ibv_mtu mtu_ = IBV_MTU_1024;

  std::optional<wire::cm_message> repeated_;
  unsigned repetitions_left_ = 0;
  unsigned attempts_left_ = 0;  ///< to find somebody on this host who listens
  engine::clock::duration repeat_after_{};
  ibv_sa_path_rec path_{};
  std::vector<group> groups_;
};

}  // namespace softverbs::cm
