// libFuzzer target: greetings and frames of a hostile peer, made plausible bit by bit, to an engine
// in use. It stays within its memory, its numbers within their limits, and its first error stays.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <rdmaxx/stream/frame.hpp>
#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/protocol_engine.hpp>

#include "input.hpp"

namespace {

using namespace rdmaxx::stream_protocol;
using fuzz::require;

void check_decoding(std::span<const std::byte> bytes) {
  if (const auto header = decode_frame(bytes)) {
    std::array<std::byte, frame_header_bytes> again{};
    encode(*header, again);
    require(std::ranges::equal(again, bytes.first(frame_header_bytes)));
    require(header->length + frame_header_bytes == bytes.size());
  }
  if (const auto hello = greeting::from_bytes(bytes)) {
    require(greeting::from_bytes(hello->to_bytes()).value() == *hello);
    if (const auto terms = negotiate({}, *hello)) {
      require(terms->version == 2 && terms->peer.check().has_value());
    }
  }
}

class victim {
 public:
  explicit victim(fuzz::input& input)
      : input_(input),
        terms_{.own = {.buffers = 6, .buffer_bytes = 64 + window_size(), .growth = 3},
               .peer = {.buffers = 8, .buffer_bytes = 64 + window_size(), .growth = 4}},
        send_(send_half::control_bytes + 2 * std::size_t{send_buffer_bytes}),
        receive_(std::size_t{terms_.own.buffers + spare} * terms_.own.buffer_bytes),
        send_pool_(std::span(send_).subspan(send_half::control_bytes), send_buffer_bytes,
                   input.chance() ? send_pool::use::by_many : send_pool::use::by_one),
        receive_pool_(receive_, terms_.own.buffer_bytes, spare),
        engine_(protocol_engine::create(
                    terms_, {.control = std::span(send_).first(send_half::control_bytes),
                             .send = &send_pool_,
                             .send_buffers = 2,
                             .receive = &receive_pool_})
                    .value()) {
    for (std::size_t buffer = 0; buffer < receive_pool_.size(); ++buffer) posted_.push_back(buffer);
  }

  void run() {
    while (!input_.is_empty()) {
      switch (input_.below(8)) {
        case 0:
          static_cast<void>(engine_.sending().write(std::span(payload_).first(input_.byte())));
          break;
        case 1:
          static_cast<void>(
              engine_.sending().write_in_place(std::span(payload_).first(input_.byte()), 0));
          break;
        case 2:
          send();
          break;
        case 3:
          engine_.sending().sent_up_to(input_.hostile<std::uint32_t>());
          break;
        case 4:
          read();
          break;
        case 5:
          post();
          break;
        case 6:
          control();
          break;
        default:
          receive();
          break;
      }
      check();
    }
  }

 private:
  static constexpr std::uint32_t send_buffer_bytes = 80;
  static constexpr std::uint32_t spare = 4;

  std::uint32_t window_size() { return static_cast<std::uint32_t>(input_.below(64)); }

  void send() {
    const auto frame = engine_.next_send();
    if (!frame) return;
    require(frame->id == sent_++);
    require(frame->bytes.data() >= send_.data());
    require(frame->bytes.data() + frame->bytes.size() <= send_.data() + send_.size());
    require(frame->bytes.size() + frame->in_place.size() <= terms_.peer.buffer_bytes);
    std::vector<std::byte> whole(frame->bytes.begin(), frame->bytes.end());
    whole.insert(whole.end(), frame->in_place.begin(), frame->in_place.end());
    const auto header = decode_frame(whole).value();
    require(header.sequence == data_sent_);
    if (header.kind == frame_kind::data) {
      ++data_sent_;
      require(data_sent_ <= granted_);
    } else {
      ++control_sent_;
      require(static_cast<std::uint8_t>(control_sent_ - acknowledged_) <=
              receive_window::control_buffers);
    }
    require(header.granted >= told_ && header.granted <= received_ + terms_.own.most_credits());
    told_ = header.granted;
    if (engine_.failure()) require(header.kind == frame_kind::reset);
  }

  void read() {
    std::array<std::byte, 200> bytes{};
    const auto into = std::span(bytes).first(input_.below(bytes.size()));
    const auto count = engine_.receiving().read(into);
    require(count <= into.size() && count <= unread_.size());
    require(std::equal(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(count),
                       unread_.begin()));
    unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  void post() {
    const auto buffer = engine_.receiving().next_to_post();
    if (!buffer) return;
    engine_.receiving().posted(*buffer);
    posted_.push_back(*buffer);
  }

  void control() {
    switch (input_.below(16)) {
      case 0:
        engine_.receiving().shutdown();
        unread_.clear();
        break;
      case 1:
        engine_.sending().shutdown();
        break;
      case 2:
        engine_.abort();
        break;
      case 3:
        engine_.connection_lost();
        break;
      case 4:
        static_cast<void>(engine_.received(input_.hostile(), input_.hostile()));
        break;
      case 5:
        engine_.sending().announce(input_.hostile());
        break;
      default:
        engine_.sending().flush();
        break;
    }
    if (engine_.failure() && engine_.receiving().available() == 0) unread_.clear();
  }

  std::vector<std::byte> any_frame() {
    const auto change = input_.byte();
    frame_header header{.kind = frame_kind(1 + input_.below(4)),
                        .fin = input_.below(16) == 0,
                        .acknowledged = input_.chance() ? control_sent_ : acknowledged_,
                        .wanted = input_.byte(),
                        .sequence = received_,
                        .granted = granted_};
    const auto longest = terms_.own.buffer_bytes - frame_header_bytes;
    std::size_t length = input_.byte() % (longest + 1);
    if (header.kind == frame_kind::reset) length = reset_payload_bytes;
    if (header.kind == frame_kind::credit || header.kind == frame_kind::stop) length = 0;
    if (header.kind != frame_kind::data) header.fin = false;
    header.length = static_cast<std::uint32_t>(length);
    const auto most = data_sent_ + terms_.peer.most_credits() - granted_;
    header.granted += static_cast<std::uint32_t>(input_.byte() % (most + 1));
    if (change < 8) header.sequence = input_.hostile<std::uint32_t>();
    if (change >= 8 && change < 16) header.granted = input_.hostile<std::uint32_t>();
    if (change >= 16 && change < 24) header.length = input_.hostile<std::uint32_t>();
    std::vector<std::byte> bytes(frame_header_bytes + length, std::byte(received_));
    encode(header, std::span(bytes).first<frame_header_bytes>());
    if (change >= 24 && change < 32) bytes[input_.below(4)] = std::byte(input_.byte());
    if (change >= 32 && change < 36) bytes.resize(input_.below(frame_header_bytes));
    return bytes;
  }

  void receive() {
    if (posted_.empty()) return;
    const auto buffer = posted_.front();
    posted_.pop_front();
    const auto frame = any_frame();
    std::ranges::copy(frame, engine_.receiving().memory_of(buffer).begin());
    const auto available = engine_.receiving().available();
    if (!engine_.received(buffer, frame.size())) {
      require(engine_.failure().has_value());
      if (engine_.receiving().available() == 0) unread_.clear();
      return;
    }
    const auto header = decode_frame(frame).value();
    require(header.sequence == received_);
    if (header.kind == frame_kind::data) require(received_++ < told_);
    require(header.granted >= granted_);
    require(header.granted <= data_sent_ + terms_.peer.most_credits());
    granted_ = header.granted;
    acknowledged_ = header.acknowledged;
    if (engine_.receiving().available() == available) return;
    unread_.insert(unread_.end(), frame.begin() + frame_header_bytes, frame.end());
  }

  void check() {
    const auto readable = engine_.receiving().readable();
    require(readable.size() <= engine_.receiving().available() &&
            engine_.receiving().available() == unread_.size());
    require(std::equal(readable.begin(), readable.end(), unread_.begin()));
    require(engine_.sending().credits() <= terms_.peer.most_credits());
    require(engine_.receiving().borrowed() <= terms_.own.growth);
    require(engine_.receiving().borrowed() + receive_pool_.spare() == spare);
    require(engine_.sending().in_flight() <= engine_.sending().most_in_flight());
    if (const auto& failure = engine_.failure()) {
      if (!first_problem_) first_problem_ = std::string(failure->problem());
      require(*first_problem_ == failure->problem());
      require(!engine_.sending().check() && !engine_.receiving().next_to_post());
    } else {
      require(!first_problem_);
    }
  }

  fuzz::input& input_;
  agreement terms_;
  std::vector<std::byte> send_;
  std::vector<std::byte> receive_;
  send_pool send_pool_;
  receive_pool receive_pool_;
  protocol_engine engine_;
  std::array<std::byte, 256> payload_{};
  std::deque<std::size_t> posted_;
  std::deque<std::byte> unread_;  // what the engine must still have
  std::uint32_t sent_ = 0;
  std::uint32_t data_sent_ = 0;
  std::uint8_t control_sent_ = 0;
  std::uint32_t received_ = 0;                     // data frames
  std::uint32_t granted_ = terms_.peer.credits();  // by the peer
  std::uint32_t told_ = terms_.own.credits();      // what the peer may send
  std::uint8_t acknowledged_ = 0;                  // by the peer
  std::optional<std::string> first_problem_;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_decoding(std::as_bytes(std::span(data, size)));
  fuzz::input input(std::span(data, size));
  victim(input).run();
  return 0;
}
