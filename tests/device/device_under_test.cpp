#include "device_under_test.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

namespace rdmaxx::device_tests {

namespace {

constexpr const char* variable = "RDMAXX_TEST_DEVICE";

// Devices whose behaviour cannot be asked for. They are known by the vendor id they report.
constexpr std::uint32_t siw_vendor_id = 0x626d74;
constexpr std::uint32_t rxe_vendor_id = 0xffffff;

std::set<capability> quirks_of(const device_attributes& attributes) {
  if (attributes.vendor_id == siw_vendor_id) {
    return {
        capability::solicited_events,  // armed for solicited completions, it never raises an event
        capability::remote_error_reports,  // a WRITE completes when it was sent; a refusal ends the
                                           // connection
        capability::remote_read_enforced,  // it does not look at a region's access when it answers
                                           // a READ
        capability::retry_limit,           // it relies on TCP, which gives up after minutes
        capability::truthful_state,        // Linux 6.1: query always says reset
        capability::self_connection,       // TCP would have to connect to itself
        capability::send_queue_drained_event,
        capability::zero_based_regions,  // taken, and counted from the memory's address all the
                                         // same
    };
  }
  // Linux 6.1: as siw; later ones refuse them.
  if (attributes.vendor_id == rxe_vendor_id) return {capability::zero_based_regions};
  return {};
}

bool can_create(const context& ctx, const queue_pair_config& config) {
  auto cq = ctx.create_cq({.capacity = 4}).value();
  auto wanted = config;
  wanted.send_cq = wanted.recv_cq = cq;
  return ctx.alloc_pd().value().create_qp(wanted).has_value();
}

bool can_register_from_zero(const context& ctx) {
  std::array<std::byte, 64> memory{};
  return ctx.alloc_pd().value().register_shared(unsafe, memory, access::zero_based).has_value();
}

bool can_resize(const context& ctx) {
  return ctx.create_cq({.capacity = 4}).value().resize(64).has_value();
}

std::set<capability> probe(const context& ctx, const device_attributes& attributes) {
  std::set<capability> found{
      capability::remote_read_enforced, capability::self_connection,
      capability::solicited_events,     capability::remote_error_reports,
      capability::retry_limit,          capability::truthful_state,
      capability::cq_overflow_event,    capability::send_queue_drained_event,
  };
  const auto add = [&](capability what, bool present) {
    if (present) found.insert(what);
  };
  const bool iwarp = ctx.transport() == transport_type::iwarp;
  // The iWARP protocol has neither immediate data nor a receiver-not-ready answer.
  add(capability::manual_connection, !iwarp);
  add(capability::immediate_data, !iwarp);
  add(capability::receiver_not_ready, !iwarp);
  add(capability::uc, can_create(ctx, {.type = qp_type::uc}));
  add(capability::ud, can_create(ctx, {.type = qp_type::ud}));
  add(capability::atomics, attributes.atomics != atomic_capability::none);
  add(capability::inline_data, can_create(ctx, {.capabilities = {.max_inline = 32}}));
  add(capability::several_read_elements, attributes.max_sge_read > 1);
  add(capability::zero_based_regions, can_register_from_zero(ctx));
  add(capability::resize_cq, can_resize(ctx));
  add(capability::faults, ctx.device_name().starts_with("soft"));
  add(capability::pkeys, ctx.query_port(1).value().pkey_table_length > 0);
  const auto table = ctx.query_gid_table().value();
  add(capability::ip_gids, std::ranges::any_of(table, [](const gid_entry& row) {
        return row.address.is_ipv4_mapped();
      }));
  add(capability::ipv6_gids, std::ranges::any_of(table, [](const gid_entry& row) {
        return row.type == gid_type::roce_v2 && !row.address.is_ipv4_mapped() &&
               !row.address.is_link_local();
      }));
  for (const auto quirk : quirks_of(attributes)) found.erase(quirk);
  return found;
}

std::string name_from_environment() {
  const char* const name =
      std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): no thread changes it
  if (name == nullptr || *name == '\0') {
    throw std::runtime_error(
        fmt::format("{} is not set: it names the device to test, such as rxe0", variable));
  }
  return name;
}

/// Without the device there is nothing to test: one clear failure instead of one for each test.
class device_environment : public ::testing::Environment {
 public:
  void SetUp() override {
    try {
      const auto& dut = device_under_test::get();
      ::testing::Test::RecordProperty("device", dut.name());
      // siw sends through TCP sockets of the kernel, in the thread that posts: like a socket of the
      // program's own, they raise the signal when the peer has closed.
      if (dut.is_iwarp()) std::signal(SIGPIPE, SIG_IGN);
    } catch (const std::exception& failure) {
      FAIL() << failure.what();
    }
  }
};

const auto* const registered = ::testing::AddGlobalTestEnvironment(new device_environment);

}  // namespace

std::string_view describe(capability what) noexcept {
  switch (what) {
    case capability::manual_connection:
      return "manual connection (iWARP connects through rdma_cm only)";
    case capability::self_connection:
      return "connections of a queue pair to itself";
    case capability::uc:
      return "UC queue pairs";
    case capability::ud:
      return "UD queue pairs";
    case capability::atomics:
      return "atomics";
    case capability::immediate_data:
      return "immediate data";
    case capability::inline_data:
      return "inline data";
    case capability::several_read_elements:
      return "reads into several elements";
    case capability::zero_based_regions:
      return "zero-based regions";
    case capability::resize_cq:
      return "resizing of completion queues";
    case capability::solicited_events:
      return "events for solicited completions";
    case capability::receiver_not_ready:
      return "receiver-not-ready answers";
    case capability::remote_error_reports:
      return "reports of refused writes";
    case capability::remote_read_enforced:
      return "a check of remote_read";
    case capability::retry_limit:
      return "a limit of retries";
    case capability::truthful_state:
      return "a truthful answer about a queue pair's state";
    case capability::send_queue_drained_event:
      return "an event for a drained send queue";
    case capability::cq_overflow_event:
      return "an event for an overflowing completion queue";
    case capability::ip_gids:
      return "GIDs that are IP addresses";
    case capability::ipv6_gids:
      return "a global IPv6 GID";
    case capability::faults:
      return "faults that a test chooses (soft devices have them)";
    case capability::pkeys:
      return "a P_Key table";
  }
  return "something unnamed";
}

device_under_test::device_under_test() : name_(name_from_environment()) {
  const auto ctx = open_device(name_).value();
  attributes_ = ctx.query_device().value();
  netdev_ = netdev_of(ctx);
  iwarp_ = ctx.transport() == transport_type::iwarp;
  capabilities_ = probe(ctx, attributes_);
}

const device_under_test& device_under_test::get() {
  static const device_under_test only;
  return only;
}

context device_under_test::open() const { return open_device(name_).value(); }

}  // namespace rdmaxx::device_tests
