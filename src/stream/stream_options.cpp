#include <rdmaxx/stream/stream_options.hpp>

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

namespace {

std::string described(std::optional<std::chrono::milliseconds> timeout) {
  return timeout ? fmt::format("{} ms", timeout->count()) : std::string("none");
}

}  // namespace

result<void> stream_options::check() const {
  using stream_protocol::receive_window;
  RDMAXX_TRY(window.check());
  if (send_buffers < 2 || send_buffers > receive_window::most_buffers) {
    return misuse_error("stream_options", fmt::format("send_buffers is {}", send_buffers),
                        fmt::format("from 2 to {} are possible", receive_window::most_buffers));
  }
  if (send_buffer_bytes < receive_window::fewest_bytes ||
      send_buffer_bytes > receive_window::most_bytes) {
    return misuse_error("stream_options", fmt::format("send_buffer_bytes is {}", send_buffer_bytes),
                        fmt::format("from {} to {} are possible", receive_window::fewest_bytes,
                                    receive_window::most_bytes));
  }
  if (connect_timeout.count() <= 0)
    return misuse_error("stream_options", "connect_timeout is not positive", "use more than 0");
  if (keep_alive_timeout.count() <= 0)
    return misuse_error("stream_options", "keep_alive_timeout is not positive", "use more than 0");
  constexpr std::chrono::milliseconds none{0};
  const std::array<std::pair<std::string_view, bool>, 6> is_negative{
      {{"spin", spin < none},
       {"gather", gather < none},
       {"read_timeout", read_timeout.value_or(none) < none},
       {"write_timeout", write_timeout.value_or(none) < none},
       {"linger", linger < none},
       {"keep_alive", keep_alive < none}}};
  for (const auto& [name, it_is] : is_negative) {
    if (it_is)
      return misuse_error("stream_options", fmt::format("{} is negative", name), "use 0 or more");
  }
  return {};
}

stream_options stream_options::low_latency() {
  stream_options options;
  options.spin = std::chrono::milliseconds(1);
  options.gather = std::chrono::microseconds(0);
  return options;
}

stream_options stream_options::low_cpu() {
  stream_options options;
  options.spin = std::chrono::microseconds(0);
  return options;
}

std::string describe(const stream_options& options) {
  return fmt::format(
      "receives in {}, sends from {} buffers of {} bytes, inline up to {} bytes, spins {} us, "
      "gathers {} us, timeouts: read {}, write {}, connect {} ms, linger {} ms, keep-alive {} ms "
      "({} ms to answer)",
      describe(options.window), options.send_buffers, options.send_buffer_bytes,
      options.inline_bytes, options.spin.count(), options.gather.count(),
      described(options.read_timeout), described(options.write_timeout),
      options.connect_timeout.count(), options.linger.count(), options.keep_alive.count(),
      options.keep_alive_timeout.count());
}

}  // namespace RDMAXX_NAMESPACE
