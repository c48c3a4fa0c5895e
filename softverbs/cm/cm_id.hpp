// What an rdma_cm_id stands for: a listener, or one end of a connection or of a service id
// resolution. It holds the parts together: it passes calls, messages and timers to the state
// machine (connection.hpp, sidr_exchange.hpp), and carries out the steps that the machine returns.
//
// Owner: the user, through rdma_create_id and rdma_destroy_id. The id of a connection request
// belongs to its event until the user has taken that. All functions are called with the agent's
// lock held, unless they say otherwise. Functions for users return 0 or an errno.
//
// It has more than fifteen public functions because each input of the state machines is one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <cm/addressing.hpp>
#include <cm/agent.hpp>
#include <cm/connection.hpp>
#include <cm/event_reporter.hpp>
#include <cm/listener.hpp>
#include <cm/multicast_membership.hpp>
#include <cm/sidr_exchange.hpp>
#include <engine/management.hpp>
#include <rdma/rdma_cma.h>
#include <wire/cm_message.hpp>

namespace softverbs::cm {

class cm_id : public rdma_cm_id {
 public:
  cm_id(agent& owner, event_channel& events_go_to, void* user_context, rdma_port_space space,
        ibv_qp_type type);
  cm_id(const cm_id&) = delete;
  cm_id& operator=(const cm_id&) = delete;
  ~cm_id();
  /// Tells the peer that this end goes. Nothing happens to it any more.
  void retire() noexcept;
  /// False in a child of the process that made it. Without the lock.
  [[nodiscard]] bool is_alive() const noexcept {
    return generation_ == engine::process_generation();
  }

  [[nodiscard]] static cm_id& of(rdma_cm_id* id) { return *static_cast<cm_id*>(id); }
  [[nodiscard]] bool is_datagram() const noexcept { return qp_type == IBV_QPT_UD; }

  // --- the parts ---
  agent& manager;
  addressing address;
  event_reporter events;
  multicast_membership groups;
  listener requests;

  // --- for users ---
  [[nodiscard]] int connect(const rdma_conn_param* wanted);
  [[nodiscard]] int accept(const rdma_conn_param* wanted);
  [[nodiscard]] int reject(std::span<const std::byte> private_data, wire::reject_reason reason);
  [[nodiscard]] int disconnect();
  /// Tells the peer that this side is ready; after CONNECT_RESPONSE.
  [[nodiscard]] int establish();
  /// Data has arrived, maybe before the peer's RTU.
  [[nodiscard]] int data_arrived();
  /// What a queue pair needs for the state in `attributes`.
  [[nodiscard]] int describe_qp(ibv_qp_attr& attributes, int& mask) const;
  /// What the peer has asked for, or has agreed to.
  [[nodiscard]] const connection_terms& terms() const noexcept { return connection_.terms(); }
  /// The event is about to be handed out: what has to happen before the user sees it.
  static void prepare(cm_event& seen);

  // --- for the agent and the listener ---
  /// Becomes the passive side. False if that is not possible now: the peer asks again.
  [[nodiscard]] bool receive_request(const engine::management_datagram& datagram,
                                     local_device& device, std::uint16_t own_port);
  /// A message to this id, or a repetition of its request.
  void on_message(const engine::management_datagram& datagram);
  void on_timer(engine::time_point now);
  void on_peer_gone();

  ibv_ece local_ece{};
  ibv_ece remote_ece{};
  std::unique_ptr<ibv_qp_init_attr> ep_qp_attributes;  ///< of rdma_create_ep: for what it accepts
  ibv_pd* ep_pd = nullptr;

 private:
  template <class Function>
  auto with_machine(Function function) {
    return is_datagram() ? function(sidr_) : function(connection_);
  }
  [[nodiscard]] bool is_idle() const noexcept;
  [[nodiscard]] bool is_requested() const noexcept;

  int carry_out(const protocol_step& step);
  [[nodiscard]] int send(const wire::cm_message& message) const;
  void set_timer(engine::time_point when);
  void watch_peer();
  void unwatch_peer();
  void notify_user(const protocol_step::notification& about);
  [[nodiscard]] int try_to_accept(const rdma_conn_param& wanted);
  void on_response_seen(cm_event& seen);
  void fail_queue_pair() const;
  [[nodiscard]] std::uint16_t management_port() const {
    return static_cast<std::uint16_t>(comm_id_ >> 16U);
  }

  const unsigned generation_ = engine::process_generation();
  bool retired_ = false;
  std::uint32_t comm_id_ = 0;  ///< 0: none yet
  std::optional<directory::request_key> request_;
  engine::time_point timer_ = engine::never;
  std::uint32_t own_qpn_ = 0;  ///< of the request
  connection connection_;
  sidr_exchange sidr_;  ///< instead, if the id is for datagrams
};

}  // namespace softverbs::cm
