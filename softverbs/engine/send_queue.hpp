// A ring of send requests in the order in which they were posted, from the oldest that is not
// complete to the newest. Not synchronised: guarded by the queue pair's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <infiniband/verbs.h>
#include <net/address.hpp>

namespace softverbs::engine {

struct memory_region;
struct memory_window;

/// The two ends of a path as an address handle or a connected queue pair knows them.
struct path_ends {
  net::address source{};
  net::address destination{};
  std::uint8_t traffic_class = 0;
};

struct send_work {
  std::uint64_t wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = 0;  ///< ibv_send_flags
  bool inline_data = false;
  unsigned elements = 0;
  std::uint64_t bytes = 0;

  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;  ///< as the user gave it; also the rkey to invalidate
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;

  // UD and XRC
  path_ends to{};
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  std::uint32_t xrc_srqn = 0;

  // bind_mw; either may have gone when its turn comes
  memory_window* window = nullptr;
  memory_region* region = nullptr;
  std::uint32_t region_key = 0;  ///< at the time of posting
  std::uint64_t bind_address = 0;
  std::uint64_t bind_bytes = 0;
  unsigned bind_access = 0;

  // What the transport has done with it. PSNs are counted without wrapping around.
  bool started = false;
  bool done = false;  ///< a local operation that was carried out
  ibv_wc_status failed = IBV_WC_SUCCESS;
  std::uint64_t first_psn = 0;
  std::uint64_t last_psn = 0;

  [[nodiscard]] bool is_read() const { return opcode == IBV_WR_RDMA_READ; }
  [[nodiscard]] bool is_atomic() const {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  /// Carried out on this side, without a packet.
  [[nodiscard]] bool is_local() const {
    return opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW;
  }
};

class send_queue {
 public:
  send_queue(unsigned capacity, unsigned most_sge, unsigned most_inline)
      : work_(capacity),
        most_sge_(most_sge),
        most_inline_(most_inline),
        stride_((std::max<std::size_t>(most_sge * sizeof(ibv_sge), most_inline) + 7) / 8 * 8),
        data_(capacity * stride_) {}

  [[nodiscard]] unsigned capacity() const noexcept { return static_cast<unsigned>(work_.size()); }
  [[nodiscard]] unsigned most_sge() const noexcept { return most_sge_; }
  [[nodiscard]] unsigned most_inline() const noexcept { return most_inline_; }
  [[nodiscard]] std::uint64_t head() const noexcept { return head_; }
  [[nodiscard]] std::uint64_t tail() const noexcept { return tail_; }
  [[nodiscard]] bool is_empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] bool is_full() const noexcept { return head_ - tail_ == work_.size(); }

  [[nodiscard]] send_work& operator[](std::uint64_t index) { return work_[index % work_.size()]; }
  /// Elements of a request, or the bytes that were copied into it.
  [[nodiscard]] ibv_sge* elements(std::uint64_t index) {
    return reinterpret_cast<ibv_sge*>(inline_data(index));
  }
  [[nodiscard]] std::byte* inline_data(std::uint64_t index) {
    return data_.data() + index % work_.size() * stride_;
  }

  /// The slot behind the newest; not in the queue before publish().
  [[nodiscard]] std::uint64_t next_slot(unsigned ahead = 0) const noexcept { return head_ + ahead; }
  [[nodiscard]] bool has_slot(unsigned ahead = 0) const noexcept {
    return head_ + ahead - tail_ < work_.size();
  }
  void publish(unsigned count = 1) noexcept { head_ += count; }
  void pop() noexcept { ++tail_; }
  void clear() noexcept { tail_ = head_; }

 private:
  std::vector<send_work> work_;
  unsigned most_sge_;
  unsigned most_inline_;
  std::size_t stride_;
  std::vector<std::byte> data_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace softverbs::engine
