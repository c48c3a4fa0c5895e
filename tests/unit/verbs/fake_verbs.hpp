#pragma once

// fake_verbs: a device of plain memory, so that the library's own logic is tested where there is no
// RDMA.
//
// fake_verbs.cpp defines those functions of libibverbs that the library calls on open devices; in
// this program the linker takes them instead of the real ones. Every object they make belongs to a
// fake_device, which records what it is told, keeps what it is asked to refuse, and can be looked
// into.
//
//   fake_device card;
//   card.refuse("ibv_create_qp", ENOMEM);
//   const auto ctx = card.open();
//
// A fake_device outlives everything made from it.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>

#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

/// What a post handed to the driver: the C request as it was, and the elements it pointed to.
template <class Native>
struct posted {
  Native request;
  std::vector<ibv_sge> elements;
};

struct fake_cq : ibv_cq {
  std::deque<ibv_wc> completions;
  int poll_failure = 0;            ///< returned by polls if it is negative
  int last_poll_size = -1;         ///< how many completions the last poll asked for
  std::vector<int> notifications;  ///< the `solicited_only` of each arming
  unsigned unacknowledged = 0;
};

struct fake_channel : ibv_comp_channel {
  std::deque<fake_cq*> events;

  /// As the kernel does when an armed queue gets a completion.
  void raise(const rdmaxx::completion_queue& cq);
  void raise(ibv_cq* cq);
};

struct fake_qp : ibv_qp {
  ibv_qp_attr attributes{};
  std::vector<std::uint32_t> modifications;  ///< the mask of each ibv_modify_qp
  std::vector<posted<ibv_send_wr>> sends;
  std::vector<posted<ibv_recv_wr>> recvs;
  std::size_t accepts =
      std::numeric_limits<std::size_t>::max();  ///< how many more posts are accepted
  int refusal = ENOMEM;                         ///< returned by the post after that
  bool tells_refused = true;                    ///< sets bad_wr, as most drivers do
};

class fake_device : public ibv_context {
 public:
  fake_device();
  fake_device(const fake_device&) = delete;
  fake_device& operator=(const fake_device&) = delete;
  ~fake_device();

  /// A context that does not close the device.
  [[nodiscard]] rdmaxx::context open();

  /// From now on `function` fails with `result`; 0 lets it succeed again.
  void refuse(std::string_view function, int result) { refusals_[std::string(function)] = result; }

  [[nodiscard]] static fake_qp& of(const rdmaxx::queue_pair& qp) {
    return static_cast<fake_qp&>(*qp.native());
  }
  [[nodiscard]] static fake_cq& of(const rdmaxx::completion_queue& cq) {
    return static_cast<fake_cq&>(*cq.native());
  }
  [[nodiscard]] static fake_channel& of(const rdmaxx::completion_channel& channel) {
    return static_cast<fake_channel&>(*channel.native());
  }

  /// As the kernel does when something happens to the device.
  void raise(const ibv_async_event& event);

  ibv_device_attr limits{};
  ibv_port_attr port{};
  std::vector<ibv_gid_entry> gids;
  std::vector<std::string> ended;  ///< the functions that destroyed something, in order
  std::deque<ibv_async_event> async_events;
  unsigned unacknowledged_async = 0;

  // ── for the fake functions
  // ──────────────────────────────────────────────────────────────────────────

  /// What `function` shall return, with errno set to it.
  [[nodiscard]] int answer(std::string_view function);
  /// The same for functions that end an object; remembers the success.
  [[nodiscard]] int answer_end(std::string_view function);
  [[nodiscard]] std::uint32_t next_number() noexcept { return ++last_number_; }

 private:
  ibv_device card_{};
  std::map<std::string, int, std::less<>> refusals_;
  std::uint32_t last_number_ = 0x10;
};

/// A device with one of everything, as most tests need it.
struct fake_setup {
  fake_device card;
  rdmaxx::context ctx = card.open();
  rdmaxx::protection_domain pd = ctx.alloc_pd().value();
  rdmaxx::completion_queue cq = ctx.create_cq({.capacity = 16}).value();

  [[nodiscard]] rdmaxx::queue_pair make_qp(const rdmaxx::qp_capabilities& capabilities = {},
                                           rdmaxx::qp_type type = rdmaxx::qp_type::rc) const {
    return pd.create_qp({.type = type, .send_cq = cq, .recv_cq = cq, .capabilities = capabilities})
        .value();
  }
};
