#include <rdmaxx/stream/stream_group.hpp>

#include <array>
#include <string_view>

#include <fmt/format.h>

#include <rdmaxx/stream/greeting.hpp>
#include <rdmaxx/stream/send_half.hpp>

#include "stream/stream_groups.hpp"

namespace RDMAXX_NAMESPACE {

result<void> stream_group_config::check() const {
  using stream_protocol::receive_window;
  struct limit {
    std::string_view name;
    std::uint32_t value;
    std::uint32_t least;
    std::uint32_t most;
  };
  // A stream's place has 16 bits in the ids of its requests.
  const std::array limits{
      limit{"streams", streams, 2, 65536},
      limit{"buffer_bytes", buffer_bytes, receive_window::fewest_bytes, receive_window::most_bytes},
      limit{"idle_credits", idle_credits, 1, 1024},
      limit{"busy_buffers", busy_buffers, stream_protocol::send_half::fewest_buffers, 1024},
      limit{"spare_receive_buffers", spare_receive_buffers, 0, 1U << 20},
      limit{"send_buffers", send_buffers, stream_protocol::send_half::fewest_buffers, 1U << 20},
      limit{"inline_bytes", inline_bytes, 0, 65536}};
  for (const auto& [name, value, least, most] : limits) {
    if (value < least || value > most) {
      return misuse_error("stream_group_config", fmt::format("{} is {}", name, value),
                          fmt::format("from {} to {} are possible", least, most));
    }
  }
  return {};
}

std::string describe(const stream_group_config& config) {
  return fmt::format(
      "{} streams, buffers of {} bytes, {} credits while idle, up to {} buffers more while busy, "
      "{} "
      "spare receive buffers, {} send buffers, inline up to {} bytes",
      config.streams, config.buffer_bytes, config.idle_credits, config.busy_buffers,
      config.spare_receive_buffers, config.send_buffers, config.inline_bytes);
}

result<stream_group> stream_group::create(const stream_group_config& config) {
  RDMAXX_TRY(config.check());
  stream_group made;
  made.groups_ = std::make_shared<detail::stream_groups>(config);
  return made;
}

std::size_t stream_group::streams() const { return groups_ == nullptr ? 0 : groups_->streams(); }

std::size_t stream_group::registered_bytes() const {
  return groups_ == nullptr ? 0 : groups_->registered_bytes();
}

std::string describe(const stream_group& group) {
  const auto* const groups = detail::stream_groups::of(group);
  if (groups == nullptr) return "no stream group";
  return fmt::format("stream group: {} of at most {} streams, {} bytes", group.streams(),
                     groups->config().streams, group.registered_bytes());
}

}  // namespace RDMAXX_NAMESPACE
