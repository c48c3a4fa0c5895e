#include <rdmaxx/cm/connection_parameters.hpp>

#include <limits>

#include <fmt/format.h>

namespace RDMAXX_NAMESPACE {

result<rdma_conn_param> connection_parameters::native() const {
  if (private_data.size() > std::numeric_limits<std::uint8_t>::max()) {
    return misuse_error("connection_parameters",
                        fmt::format("{} bytes of private data", private_data.size()),
                        "a request carries at most 56 bytes, an acceptance 196");
  }
  rdma_conn_param native{};
  native.private_data = private_data.empty() ? nullptr : private_data.data();
  native.private_data_len = static_cast<std::uint8_t>(private_data.size());
  native.responder_resources = responder_resources.value_or(RDMA_MAX_RESP_RES);
  native.initiator_depth = initiator_depth.value_or(RDMA_MAX_INIT_DEPTH);
  native.flow_control = flow_control ? 1 : 0;
  native.retry_count = retry_count;
  native.rnr_retry_count = rnr_retry;
  native.srq = shared_receive_queue ? 1 : 0;
  native.qp_num = queue_pair.value();
  return native;
}

connection_parameters connection_parameters::from_native(const rdma_conn_param& native) noexcept {
  return {
      .private_data = {static_cast<const std::byte*>(native.private_data),
                       native.private_data != nullptr ? native.private_data_len : std::size_t{0}},
      .responder_resources = native.responder_resources,
      .initiator_depth = native.initiator_depth,
      .flow_control = native.flow_control != 0,
      .retry_count = native.retry_count,
      .rnr_retry = native.rnr_retry_count,
      .queue_pair = qpn(native.qp_num),
      .shared_receive_queue = native.srq != 0};
}

std::string describe(const connection_parameters& parameters) {
  const auto or_most = [](std::optional<std::uint8_t> count) {
    return count ? std::to_string(*count) : "most";
  };
  return fmt::format(
      "private_data {} bytes responder_resources {} initiator_depth {} retry_count {} rnr_retry {}",
      parameters.private_data.size(), or_most(parameters.responder_resources),
      or_most(parameters.initiator_depth), parameters.retry_count, parameters.rnr_retry);
}

}  // namespace RDMAXX_NAMESPACE
