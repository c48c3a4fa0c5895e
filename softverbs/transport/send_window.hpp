// How many bytes a requester may have under way, without I/O and without a clock.
//
// The window doubles with each round trip at first (slow start), grows by a quarter beyond a
// threshold, and is cut by losses. Two things are not as in TCP:
//
// - Above `unconditional` it grows only while round trips stay short. Within a host nothing delays
//   packets but their own queue, and a longer one would only overflow the receiver's socket.
// - A loss does not halve the window below what usually arrives between two losses. Packets that
//   get lost at random say nothing about the path's capacity, while a receiver that overflows
//   always loses after about the same amount, which is then the right window.
//
// After silence one packet is sent to find out (`timed_out`); if nothing was lost after all, the
// window is what it was (`nothing_was_lost`).
//
// Owner: a requester. Not synchronised.
#pragma once

#include <algorithm>
#include <cstddef>

namespace softverbs::transport {

class send_window {
 public:
  static constexpr std::size_t first = std::size_t{64} * 1024;
  static constexpr std::size_t unconditional = std::size_t{256} * 1024;
  static constexpr std::size_t largest = std::size_t{16} * 1024 * 1024;
  /// What is sent in one burst after a loss; the rest of the window follows as answers come.
  static constexpr std::size_t restart = std::size_t{512} * 1024;
  static constexpr std::size_t most_between_ack_requests = std::size_t{128} * 1024;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// An acknowledgement is asked for after so many bytes: often enough to keep the window moving in
  /// small bursts.
  [[nodiscard]] std::size_t ack_interval() const noexcept {
    return std::min(bytes_ / 4, most_between_ack_requests);
  }

  [[nodiscard]] bool has_room(std::size_t under_way, std::size_t more) const noexcept {
    return under_way == 0 || under_way + more <= bytes_;
  }
  /// Whether the next packet may go. A window that was full opens again for a burst: if each
  /// acknowledgement let out just what it covers, the next one would cover no more than that, and
  /// in the end every packet would travel alone.
  [[nodiscard]] bool admits(std::size_t under_way, std::size_t packet) noexcept {
    const bool open = has_room(under_way, was_full_ ? std::max(packet, ack_interval()) : packet);
    was_full_ = !open;
    return open;
  }

  /// `under_way` is what was not acknowledged before this.
  void acknowledged(std::size_t acknowledged, std::size_t under_way,
                    bool queue_builds_up) noexcept {
    since_loss_ = std::min(since_loss_ + acknowledged, largest);
    if (probing_) {
      probing_ = false;
      bytes_ = std::min(first, threshold_);
      return;
    }
    // A window that was not used proves nothing.
    if (under_way < bytes_ / 2) return;
    if (bytes_ >= unconditional && queue_builds_up) return;
    bytes_ += bytes_ < threshold_ ? std::min(acknowledged, threshold_ - bytes_) : acknowledged / 4;
    bytes_ = std::min(bytes_, largest);
  }

  /// A gap was found.
  void lost(std::size_t mtu) noexcept {
    const auto was = probing_ ? before_.bytes : bytes_;
    average_run_ = average_run_ - average_run_ / 4 + std::min(since_loss_, was) / 4;
    since_loss_ = 0;
    threshold_ = std::max({was / 2, average_run_, 2 * mtu});
    bytes_ = std::min(threshold_, restart);
    probing_ = false;
  }

  /// No answer: send one packet and see.
  void timed_out(std::size_t mtu) noexcept {
    if (!probing_) {
      before_ = {.bytes = bytes_, .threshold = threshold_};
      threshold_ = std::max({bytes_ / 2, average_run_, 2 * mtu});
    }
    probing_ = true;
    bytes_ = mtu;
  }
  /// The answer to that packet acknowledges everything: it was only late.
  void nothing_was_lost() noexcept {
    if (!probing_) return;
    probing_ = false;
    bytes_ = before_.bytes;
    threshold_ = before_.threshold;
  }

  /// After a pause: what the path takes now is unknown, what it took is where slow start ends.
  void restart_after_pause() noexcept {
    threshold_ = std::max(threshold_, bytes_);
    bytes_ = std::min(bytes_, first);
  }

 private:
  struct state {
    std::size_t bytes = 0;
    std::size_t threshold = 0;
  };

  std::size_t bytes_ = first;
  std::size_t threshold_ = largest;
  std::size_t since_loss_ = 0;   ///< acknowledged, up to `largest`
  std::size_t average_run_ = 0;  ///< acknowledged between losses
  bool probing_ = false;
  bool was_full_ = false;
  state before_;
};

}  // namespace softverbs::transport
