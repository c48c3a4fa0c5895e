#include "stream/stream_endpoint.hpp"

#include "stream/grouped_stream_device.hpp"
#include "stream/stream_groups.hpp"
#include "stream/verbs_stream_device.hpp"

namespace RDMAXX_NAMESPACE::detail {

using stream_protocol::receive_window;

namespace {

/// As large as a stream of the group may grow, in memory of its own.
stream_options without_sharing(const stream_group_config& config, stream_options options) {
  options.window = {
      .buffers = config.idle_credits + receive_window::control_buffers + config.busy_buffers,
      .buffer_bytes = config.buffer_bytes};
  options.send_buffers = config.busy_buffers;
  options.send_buffer_bytes = config.buffer_bytes;
  options.inline_bytes = config.inline_bytes;
  options.group = {};
  return options;
}

}  // namespace

receive_window window_of(const stream_options& options) {
  const auto* const groups = stream_groups::of(options.group);
  if (groups == nullptr) return options.window;
  return {.buffers = groups->config().idle_credits + receive_window::control_buffers,
          .buffer_bytes = groups->config().buffer_bytes,
          .growth = groups->config().busy_buffers};
}

result<stream_endpoint> stream_endpoint::for_id(const cm_id& id, const stream_options& options) {
  RDMAXX_TRY(options.check());
  if (auto* const groups = stream_groups::of(options.group)) {
    RDMAXX_TRY(const auto device, id.context());
    RDMAXX_TRY(auto group, groups->on(device));
    if (group == nullptr) return for_id(id, without_sharing(groups->config(), options));
    RDMAXX_TRY(auto place, group_membership::of(std::move(group), id));
    return stream_endpoint(std::move(place), window_of(options));
  }
  RDMAXX_TRY(auto own,
             stream_resources::for_id(id,
                                      {.receive_buffers = options.window.buffers,
                                       .receive_buffer_bytes = options.window.buffer_bytes,
                                       .send_buffers = options.send_buffers,
                                       .send_buffer_bytes = options.send_buffer_bytes},
                                      options.inline_bytes));
  return stream_endpoint(std::move(own), options.window);
}

std::unique_ptr<connected_device> stream_endpoint::connected(cm::connection connection) && {
  if (auto* const place = std::get_if<group_membership>(&resources_))
    return std::make_unique<grouped_stream_device>(std::move(connection), std::move(*place));
  return std::make_unique<verbs_stream_device>(
      std::move(connection), std::get<std::unique_ptr<stream_resources>>(std::move(resources_)));
}

}  // namespace RDMAXX_NAMESPACE::detail
