// A queue pair: its attributes and states, its two queues, and the two halves of the transport.
//
// Owner: the user, through ibv_create_qp and ibv_destroy_qp. The lock is the endpoint's mutex. The
// functions that say so take it themselves; all others are called with it held.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <engine/completion_queue.hpp>
#include <engine/device_context.hpp>
#include <engine/endpoint.hpp>
#include <engine/receive_queue.hpp>
#include <engine/requester.hpp>
#include <engine/responder.hpp>
#include <engine/send_queue.hpp>
#include <engine/sender.hpp>
#include <engine/shared_receive_queue.hpp>
#include <infiniband/verbs.h>

namespace softverbs::engine {

class queue_pair : public ibv_qp_ex {
 public:
  struct parts {
    ibv_pd* pd = nullptr;
    completion_queue* send_cq = nullptr;
    completion_queue* receive_cq = nullptr;
    shared_receive_queue* srq = nullptr;
    xrc_domain* domain = nullptr;
    ibv_qp_cap capacities{};
    ibv_qp_type type = IBV_QPT_RC;
    bool signal_all = false;
    void* user_context = nullptr;
  };
  queue_pair(device_context& context, std::shared_ptr<endpoint> where, const parts& made_of);
  queue_pair(const queue_pair&) = delete;
  queue_pair& operator=(const queue_pair&) = delete;
  ~queue_pair() { out.log_totals(); }

  [[nodiscard]] static queue_pair& of(ibv_qp* qp) {
    return *static_cast<queue_pair*>(reinterpret_cast<ibv_qp_ex*>(qp));
  }
  [[nodiscard]] static queue_pair& of(ibv_qp_ex* qp) { return *static_cast<queue_pair*>(qp); }

  // --- from users; these take the lock ---
  [[nodiscard]] int modify(const ibv_qp_attr& wanted, int mask);
  void query(ibv_qp_attr& out, ibv_qp_init_attr& init);
  [[nodiscard]] int post_receive(ibv_recv_wr* list, ibv_recv_wr** bad);
  [[nodiscard]] int post_send(ibv_send_wr* list, ibv_send_wr** bad);
  [[nodiscard]] int bind_window(memory_window& window, const ibv_mw_bind& wanted);
  /// Whether requests may be posted at all in this state; 0 or EINVAL.
  [[nodiscard]] int may_post_send() const;
  /// `count` requests are in the slots behind the newest: send them. The lock is held.
  void posted(unsigned count) noexcept;

  // --- from the network and the clock; a queue pair that finds no memory in one of these breaks
  // ---
  void receive(const inbound& in) noexcept;
  /// After a train of packets: answers, and goes on sending. A user whose completion queue was
  /// empty gets its completions before the peer gets its acknowledgement.
  void after_receiving(bool called_by_user) noexcept;
  void send_acknowledgement() noexcept;
  void on_timer(time_point now) noexcept;
  void set_timer();
  /// Calls on_timer then: a full ring may have room again.
  void look_again(time_point when);

  // --- for the two halves ---
  /// Takes it out of the send queue, which is not empty.
  void complete_oldest_send(ibv_wc_status status);
  void push_completion(completion_queue& cq, const ibv_wc& wc, bool solicited);
  void enter_error();
  /// What the fault plan makes of an operation: the status that it completes with.
  [[nodiscard]] ibv_wc_status injected_status(std::string_view operation);
  /// UC and UD: a failed send stops the send queue alone.
  void enter_send_error();
  void raise(ibv_event_type event) { context.raise(event, *this); }
  [[nodiscard]] wire::transport service() const;
  [[nodiscard]] std::size_t mtu() const { return mtu_bytes; }
  /// To any queue pair; the last few are remembered. Null if there is no way.
  [[nodiscard]] std::shared_ptr<route> route_to(const path_ends& wanted, std::uint32_t qpn);
  [[nodiscard]] bool is_connected_type() const { return made.type != IBV_QPT_UD; }

  device_context& context;
  const std::shared_ptr<endpoint> where;
  parts made;
  ibv_qp_attr attributes{};
  std::size_t mtu_bytes = 256;
  send_queue sends;
  receive_queue receives;
  requester out;
  responder in;
  event_account asynchronous_events;

  path_ends ends;                    ///< of a connected queue pair
  std::shared_ptr<route> connected;  ///< to its peer; null before RTR
  packet_origin origin;
  std::atomic<unsigned> groups = 0;  ///< that it is attached to

  // wr_start … wr_complete
  unsigned building = 0;
  int building_failure = 0;

 private:
  void complete_send(const send_work& work, ibv_wc_status status);
  /// What the fault plan wants to become of the requests behind the newest.
  void inject_faults(unsigned count);
  /// In a handler: what was under way cannot be finished, and may be half done.
  void break_for_lack_of_memory() noexcept;
  [[nodiscard]] int apply(const ibv_qp_attr& wanted, int mask);
  [[nodiscard]] int connect(const ibv_qp_attr& wanted);
  void reset();
  void flush();
  [[nodiscard]] int fill(send_work& work, std::uint64_t index, const ibv_send_wr& request);
  [[nodiscard]] bool is_from_peer(const inbound& in) const;
  void keep_sending();
  [[nodiscard]] std::shared_ptr<route> find_route(const path_ends& wanted, std::uint32_t qpn) const;

  struct recent_route {
    net::address source;
    net::address destination;
    std::uint32_t qpn = 0;
    std::shared_ptr<route> way;
  };
  traffic_counters::amount received_;  ///< and not counted yet
  bool tell_when_drained_ = false;     ///< SQD: by an event, once
  std::array<recent_route, 8> recent_routes_;
  unsigned next_recent_ = 0;
};

}  // namespace softverbs::engine
