// A queue pair of verbs: the front end through which users of libibverbs, the network and the clock
// reach a queue pair of the transport.
//
// queue_pair.cpp has attributes and states, queue_pair_traffic.cpp posting, packets, completions
// and events.
//
// Owner: the user, through ibv_create_qp and ibv_destroy_qp. The lock is the endpoint's mutex. The
// functions that say so take it themselves; all others are called with it held.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include <engine/completion_queue.hpp>
#include <engine/device_context.hpp>
#include <engine/endpoint.hpp>
#include <engine/memory_objects.hpp>
#include <engine/route.hpp>
#include <engine/sender.hpp>
#include <engine/shared_receive_queue.hpp>
#include <infiniband/verbs.h>
#include <transport/front_end.hpp>
#include <transport/queue_pair.hpp>
#include <transport/receive_queue.hpp>

namespace softverbs::engine {

class queue_pair final : public ibv_qp_ex, private transport::front_end {
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
  /// Says at level info how many packets were sent, and how many of them again.
  ~queue_pair();

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

  // --- for those who build requests piece by piece ---
  /// Whether requests may be posted at all in this state; 0 or EINVAL.
  [[nodiscard]] int may_post_send() const;
  /// `count` requests are in the slots behind the newest: send them.
  void posted(unsigned count) noexcept;

  // --- from the network and the clock; a queue pair that finds no memory in one of these breaks
  void receive(const inbound& in) noexcept;
  /// After a train of packets: answers, and goes on sending. A user whose completion queue was
  /// empty gets its completions before the peer gets its acknowledgement.
  void after_receiving(bool called_by_user) noexcept;
  void send_acknowledgement() noexcept;
  void on_timer(time_point now) noexcept;

  device_context& context;
  const std::shared_ptr<endpoint> where;
  const parts made;
  ibv_qp_attr attributes{};
  transport::queue_pair core;
  transport::receive_queue receives;
  transport::path_ends ends;         ///< of a connected queue pair
  std::shared_ptr<route> connected;  ///< to its peer; null before RTR
  event_account asynchronous_events;
  std::atomic<unsigned> groups = 0;  ///< that it is attached to

  // wr_start … wr_complete
  unsigned building = 0;
  int building_failure = 0;

 private:
  // What the transport asks for (transport/front_end.hpp).
  [[nodiscard]] time_point now() const noexcept override { return clock::now(); }
  [[nodiscard]] bool is_frozen() const noexcept override {
    return context.place->outages().is_frozen();
  }
  [[nodiscard]] transport::packet_sink* peer() override;
  [[nodiscard]] transport::packet_sink* datagram_path(const transport::path_ends& to,
                                                      std::uint32_t qpn) override;
  [[nodiscard]] taken take_receive(std::uint32_t xrc_srqn, transport::receive_work& into) override;
  [[nodiscard]] transport::memory_domain domain_of_queue(std::uint32_t xrc_srqn) override;
  [[nodiscard]] bool complete(const transport::send_work& work, transport::status result) override;
  [[nodiscard]] bool complete(const transport::receive_completion& done) override;
  void raise(transport::event what) override;
  void state_changed(transport::state now) override;

  [[nodiscard]] int check(const ibv_qp_attr& wanted, int mask) const;
  void apply(const ibv_qp_attr& wanted, int mask);
  [[nodiscard]] int connect(const ibv_ah_attr& path, std::uint32_t qpn);
  void choose_datagram_mtu();
  void set_state(ibv_qp_state now);
  void raise_event(ibv_event_type event) { context.raise(event, *this); }

  [[nodiscard]] bool is_datagram() const { return made.type == IBV_QPT_UD; }
  [[nodiscard]] bool is_from_peer(const inbound& in) const;
  /// False if the completion was lost.
  [[nodiscard]] bool push_completion(completion_queue& cq, const ibv_wc& wc, bool solicited);
  /// What the fault plan makes of an operation: the status that it completes with.
  [[nodiscard]] transport::status injected_status(std::string_view operation);
  /// What the fault plan wants to become of the requests behind the newest.
  void inject_faults(unsigned count);
  /// In a handler: what was under way cannot be finished, and may be half done.
  void break_for_lack_of_memory() noexcept;
  void answer();
  void keep_sending();

  recent_routes datagram_routes_;
  packet_origin origin_;
  sender out_{origin_};
  traffic_counters::amount received_;  ///< and not counted yet
};

}  // namespace softverbs::engine
