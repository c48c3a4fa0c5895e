#include <rdmaxx/cm/reject_reason.hpp>

#include <array>
#include <string>

namespace RDMAXX_NAMESPACE {

namespace {

struct reason_knowledge {
  reject_reason reason;
  std::string_view name;
  std::string_view hint;
};

constexpr std::string_view way_hint =
    "the path does not suit the peer: check its addresses, and the GIDs of both devices";

constexpr std::array known_reasons{
    reason_knowledge{reject_reason::no_queue_pair, "no_queue_pair",
                     "the peer's device has no queue pairs left"},
    reason_knowledge{reject_reason::no_eec, "no_eec", ""},
    reason_knowledge{reject_reason::no_resources, "no_resources",
                     "the peer has no resources left: try again later"},
    reason_knowledge{reject_reason::timeout, "timeout",
                     "the peer gave up waiting for an answer: it, or this side, is too slow"},
    reason_knowledge{reject_reason::unsupported_request, "unsupported_request",
                     "the peer does not support this kind of request"},
    reason_knowledge{reject_reason::invalid_communication_id, "invalid_communication_id",
                     "the peer has forgotten the connection: connect again"},
    reason_knowledge{reject_reason::invalid_communication_instance,
                     "invalid_communication_instance", ""},
    reason_knowledge{
        reject_reason::no_such_service, "no_such_service",
        "nothing listens on that port: check the port, and that the server is running"},
    reason_knowledge{reject_reason::invalid_transport_type, "invalid_transport_type",
                     "the listener uses another type of queue pair: check the port space"},
    reason_knowledge{reject_reason::stale_connection, "stale_connection",
                     "the peer still has a connection with this queue pair number: connect again"},
    reason_knowledge{reject_reason::no_rdc, "no_rdc", ""},
    reason_knowledge{reject_reason::invalid_gid, "invalid_gid", way_hint},
    reason_knowledge{reject_reason::invalid_lid, "invalid_lid", way_hint},
    reason_knowledge{reject_reason::invalid_service_level, "invalid_service_level", way_hint},
    reason_knowledge{reject_reason::invalid_traffic_class, "invalid_traffic_class",
                     "check the type of service"},
    reason_knowledge{reject_reason::invalid_hop_limit, "invalid_hop_limit", way_hint},
    reason_knowledge{reject_reason::invalid_packet_rate, "invalid_packet_rate", way_hint},
    reason_knowledge{reject_reason::invalid_alternate_gid, "invalid_alternate_gid", ""},
    reason_knowledge{reject_reason::invalid_alternate_lid, "invalid_alternate_lid", ""},
    reason_knowledge{reject_reason::invalid_alternate_service_level,
                     "invalid_alternate_service_level", ""},
    reason_knowledge{reject_reason::invalid_alternate_traffic_class,
                     "invalid_alternate_traffic_class", ""},
    reason_knowledge{reject_reason::invalid_alternate_hop_limit, "invalid_alternate_hop_limit", ""},
    reason_knowledge{reject_reason::invalid_alternate_packet_rate, "invalid_alternate_packet_rate",
                     ""},
    reason_knowledge{reject_reason::port_and_manager_redirect, "port_and_manager_redirect", ""},
    reason_knowledge{reject_reason::port_redirect, "port_redirect", ""},
    reason_knowledge{
        reject_reason::invalid_mtu, "invalid_mtu",
        "the peer cannot receive packets of this size: set both ports to the same MTU"},
    reason_knowledge{reject_reason::insufficient_responder_resources,
                     "insufficient_responder_resources", "ask for a smaller initiator_depth"},
    reason_knowledge{reject_reason::consumer, "consumer",
                     "the peer's program rejected the connection; its private data may say why"},
    reason_knowledge{reject_reason::invalid_rnr_retry_count, "invalid_rnr_retry_count", ""},
    reason_knowledge{reject_reason::duplicate_communication_id, "duplicate_communication_id",
                     "connect again"},
    reason_knowledge{reject_reason::invalid_class_version, "invalid_class_version", ""},
    reason_knowledge{reject_reason::invalid_flow_label, "invalid_flow_label", ""},
    reason_knowledge{reject_reason::invalid_alternate_flow_label, "invalid_alternate_flow_label",
                     ""},
    reason_knowledge{reject_reason::vendor_option_not_supported, "vendor_option_not_supported", ""},
};

constexpr reason_knowledge unknown_reason{reject_reason{0}, "unknown", ""};

const reason_knowledge& knowledge_of(reject_reason reason) noexcept {
  for (const auto& known : known_reasons) {
    if (known.reason == reason) return known;
  }
  return unknown_reason;
}

class reject_error_category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "rdmaxx.reject"; }
  [[nodiscard]] std::string message(int reason) const override {
    const auto known = describe(static_cast<reject_reason>(reason));
    return "rejected, reason " + std::to_string(reason) + " (" + std::string(known) + ")";
  }
  [[nodiscard]] std::error_condition default_error_condition(int reason) const noexcept override {
    return static_cast<reject_reason>(reason) == reject_reason::timeout
               ? std::errc::timed_out
               : std::errc::connection_refused;
  }
};

}  // namespace

std::string_view describe(reject_reason reason) noexcept { return knowledge_of(reason).name; }

std::string_view hint(reject_reason reason) noexcept { return knowledge_of(reason).hint; }

const std::error_category& reject_category() noexcept {
  static const reject_error_category category;
  return category;
}

std::error_code make_error_code(reject_reason reason) noexcept {
  return {static_cast<int>(reason), reject_category()};
}

}  // namespace RDMAXX_NAMESPACE
