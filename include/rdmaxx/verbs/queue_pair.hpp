#pragma once

// queue_pair: the send and receive queue through which a program talks to a peer.
//
//   auto qp = pd.create_qp({.type = qp_type::rc, .send_cq = cq, .recv_cq = cq}).value();
//   exchange qp.endpoint() with the peer, then
//   qp.connect(peer, {}).value();                                   // RESET → INIT → RTR → RTS
//   qp.post(recv_wr{.id = wr_id{1}, .into = mr.scatter()}).value();
//   qp.post(send_wr{.id = wr_id{2}, .from = mr.gather()}).value();
//
// Lifetime: move-only; keeps its domain and completion queues alive. Destroying it with work in
// flight is safe for memory (the device stops before the destructor returns) but may discard
// completions; drain() first if they matter. Threads: post() may be called from several threads at
// once, also during polling. Transitions, drain() and destruction belong to one thread at a time;
// concurrent posts may fail but corrupt nothing.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <infiniband/verbs.h>

#include <rdmaxx/core/handle.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/native_request.hpp>
#include <rdmaxx/verbs/observer.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>
#include <rdmaxx/verbs/qp_attributes.hpp>
#include <rdmaxx/verbs/qp_endpoint.hpp>
#include <rdmaxx/verbs/shared_receive_queue.hpp>
#include <rdmaxx/verbs/work_list.hpp>
#include <rdmaxx/verbs/work_request.hpp>

namespace RDMAXX_NAMESPACE {

struct queue_pair_config {
  qp_type type = qp_type::rc;
  completion_queue send_cq{};
  completion_queue recv_cq{};
  qp_capabilities capabilities{};
  /// Every send request raises a completion, whatever its flags say.
  bool signal_all = false;
  /// Where its receives come from, instead of a queue of its own.
  shared_receive_queue srq{};
};
[[nodiscard]] std::string describe(const queue_pair_config& config);

/// How to describe this side to a peer. connect() must be given the same port, gid_index and
/// first_psn.
struct endpoint_options {
  std::uint8_t port = 1;
  std::optional<std::uint32_t> gid_index{};  ///< chosen as pick_gid() does if empty
  std::optional<psn> first_psn{};            ///< if empty: a random one, fixed until reset()
  qkey queue_key{0x11111111};                ///< UD
};
[[nodiscard]] std::string describe(const endpoint_options& options);

/// How to connect. The defaults suit most networks.
struct qp_connect_options {
  std::uint8_t port = 1;
  std::optional<std::uint32_t> gid_index{};
  std::optional<psn> first_psn{};
  qkey queue_key{0x11111111};  ///< UD: the key this side accepts
  std::uint16_t pkey_index = 0;
  /// What the peer may do through this queue pair; each region limits it further.
  access_flags access = access::remote_read | access::remote_write | access::remote_atomic;
  std::optional<mtu> path_mtu{};  ///< the smaller of both sides' if empty
  /// Until a packet is retransmitted: 67 ms.
  rdmaxx::ack_timeout ack_timeout = rdmaxx::ack_timeout::from_exponent(14);
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;  ///< 7: no limit
  /// Until a peer that found no receive here retries.
  rnr_timer min_rnr_timer = std::chrono::microseconds(640);
  /// This side's reads and atomics in flight; if empty, as many as the device and the peer support.
  std::optional<std::uint8_t> max_rd_atomic{};
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
};
[[nodiscard]] std::string describe(const qp_connect_options& options);

/// What an adopted queue pair refers to.
struct queue_pair_parents {
  protection_domain pd{};
  completion_queue send_cq{};
  completion_queue recv_cq{};
  shared_receive_queue srq{};
};

class queue_pair : public unique_handle<ibv_qp> {
 public:
  queue_pair() noexcept = default;

  /// Takes over a queue pair that was created elsewhere, for example by rdma_create_qp.
  [[nodiscard]] static result<queue_pair> adopt(ibv_qp* native, const queue_pair_parents& parents,
                                                adoption how = {});

  [[nodiscard]] qpn number() const noexcept { return qpn(live()->qp_num); }
  [[nodiscard]] qp_type type() const noexcept { return qp_type(live()->qp_type); }
  /// What the device granted; at least what was requested.
  [[nodiscard]] const qp_capabilities& capabilities() const noexcept;
  [[nodiscard]] std::uint32_t max_inline() const noexcept { return max_inline_; }
  [[nodiscard]] const protection_domain& pd() const noexcept;
  [[nodiscard]] const completion_queue& send_cq() const noexcept;
  [[nodiscard]] const completion_queue& recv_cq() const noexcept;
  /// Empty if it has a receive queue of its own.
  [[nodiscard]] const shared_receive_queue& srq() const noexcept;

  // ── connection ──

  /// Everything that the device reports about this queue pair.
  [[nodiscard]] result<qp_attributes> query() const;
  [[nodiscard]] result<qp_state> state() const;

  /// ibv_modify_qp with what is set in `attributes`. If the device refuses, the error says which
  /// attributes the transition lacks or must not have.
  [[nodiscard]] result<void> modify(const qp_attributes& attributes) const;

  [[nodiscard]] result<void> to_init(const qp_connect_options& options) const;
  [[nodiscard]] result<void> to_rtr(const qp_endpoint& peer,
                                    const qp_connect_options& options) const;
  [[nodiscard]] result<void> to_rts(const qp_endpoint& peer,
                                    const qp_connect_options& options) const;
  /// Fails everything in flight and everything posted later.
  [[nodiscard]] result<void> to_error() const;
  /// Discards everything in flight, without completions. The queue pair gets a new first PSN, so
  /// both sides must exchange their endpoint() again before they connect().
  [[nodiscard]] result<void> reset() const;

  /// This side's endpoint, for the peer.
  [[nodiscard]] result<qp_endpoint> endpoint(const endpoint_options& options = {}) const;
  /// From RESET to RTS, on RoCE and InfiniBand, also to itself or to another queue pair on the same
  /// port. A UD queue pair can then reach every peer. iWARP connects through rdma_cm only.
  [[nodiscard]] result<void> connect(const qp_endpoint& peer,
                                     const qp_connect_options& options = {}) const;

  // ── data path ──

  // Always inlined: only then does the compiler see the contents of the request and fold it away.

  template <send_operation Request>
  [[nodiscard, gnu::always_inline]] result<void> post(const Request& request) const {
    // Not zeroed: only what the operation reads is filled in.
    ibv_send_wr native_request;
    ibv_sge place;
    native_request.next = nullptr;
    detail::fill(native_request, place, request, max_inline_);
    detail::observer::posting(live(), &native_request);
    ibv_send_wr* refused = nullptr;
    const int rc = ibv_post_send(live(), &native_request, &refused);
    if (rc == 0) [[likely]]
      return {};
    detail::observer::refused(live(), &native_request);
    return post_failed(rc, native_request);
  }

  [[nodiscard, gnu::always_inline]] result<void> post(const recv_wr& request) const {
    ibv_recv_wr native_request;
    ibv_sge place;
    native_request.next = nullptr;
    detail::fill(native_request, place, request);
    detail::observer::posting(live(), &native_request);
    ibv_recv_wr* refused = nullptr;
    const int rc = ibv_post_recv(live(), &native_request, &refused);
    if (rc == 0) [[likely]]
      return {};
    detail::observer::refused(live(), &native_request);
    return post_failed(rc, native_request);
  }

  /// Posts all requests of the list in order. On failure error().first_not_posted() says how many
  /// were accepted before; those will complete.
  [[nodiscard]] result<void> post(const send_list& list) const {
    if (list.empty()) [[unlikely]]
      return {};
    ibv_send_wr* const chain = list.chain();
    detail::observer::posting(live(), chain);
    ibv_send_wr* refused = nullptr;
    const int rc = ibv_post_send(live(), chain, &refused);
    if (rc != 0 || refused != nullptr) [[unlikely]]
      detail::observer::refused(live(), refused != nullptr ? refused : chain);
    list.unchain();
    // siw names the request that it refused, but returns success because of those before it.
    if (rc == 0 && refused == nullptr) [[likely]]
      return {};
    return post_failed(rc, list.slots(), refused);
  }

  [[nodiscard]] result<void> post(const recv_list& list) const {
    if (list.empty()) [[unlikely]]
      return {};
    ibv_recv_wr* const chain = list.chain();
    detail::observer::posting(live(), chain);
    ibv_recv_wr* refused = nullptr;
    const int rc = ibv_post_recv(live(), chain, &refused);
    if (rc != 0) [[unlikely]]
      detail::observer::refused(live(), refused != nullptr ? refused : chain);
    list.unchain();
    if (rc == 0) [[likely]]
      return {};
    return post_failed(rc, list.slots(), refused);
  }

  // ── end ──

  using completion_sink = std::function<void(const work_completion&)>;

  /// Moves the queue pair to the error state and waits until every request posted so far has
  /// completed. It polls both completion queues itself and passes everything it finds, including
  /// completions of other queue pairs, to `sink`; meanwhile no other thread may poll them or post.
  /// Afterwards the device no longer accesses any buffer of this queue pair. (iWARP may lose
  /// requests posted after the connection has ended: they never complete, and their buffers are in
  /// use until the queue pair is destroyed.)
  [[nodiscard]] result<void> drain(
      const completion_sink& sink = {},
      std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;

 private:
  friend struct detail::handle_access;
  queue_pair(ibv_qp* native, detail::reference block, std::uint32_t max_inline) noexcept
      : unique_handle(native, std::move(block)), max_inline_(max_inline) {}

  [[nodiscard, gnu::cold]] error post_failed(int rc, const ibv_send_wr& request,
                                             std::optional<std::size_t> position = {}) const;
  [[nodiscard, gnu::cold]] error post_failed(int rc, const ibv_recv_wr& request,
                                             std::optional<std::size_t> position = {}) const;
  [[nodiscard, gnu::cold]] error post_failed(int rc, const send_slot* list,
                                             const ibv_send_wr* refused) const;
  [[nodiscard, gnu::cold]] error post_failed(int rc, const recv_slot* list,
                                             const ibv_recv_wr* refused) const;

  std::uint32_t max_inline_ = 0;
};
/// "queue_pair 0x11 rc rts → 0x12 at ::ffff:10.0.0.2 on rxe0"
[[nodiscard]] std::string describe(const queue_pair& qp);

}  // namespace RDMAXX_NAMESPACE
