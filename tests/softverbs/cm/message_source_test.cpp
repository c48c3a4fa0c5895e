#include <cm/message_source.hpp>

#include <gtest/gtest.h>

namespace softverbs::cm {
namespace {

using engine::management_datagram;
using arrival = management_datagram::arrival;
using wire::cm_kind;

management_datagram from_port(std::uint16_t port, arrival arrived_by, cm_kind kind = cm_kind::rep) {
  management_datagram datagram;
  datagram.message.kind = kind;
  datagram.message.local_id = 0x12340007;
  datagram.message.remote_id = 0x56780001;
  datagram.arrived_by = arrived_by;
  datagram.source_port = port;
  return datagram;
}

TEST(message_source, a_process_of_this_host_speaks_only_for_its_own_comm_ids) {
  for (const auto arrived_by : {arrival::own_port, arrival::roce_port}) {
    for (const auto kind : {cm_kind::rep, cm_kind::rtu, cm_kind::rej, cm_kind::dreq, cm_kind::drep,
                            cm_kind::mra, cm_kind::req, cm_kind::sidr_req}) {
      EXPECT_TRUE(is_believable(from_port(0x1234, arrived_by, kind), true));
      EXPECT_FALSE(is_believable(from_port(0x1235, arrived_by, kind), true));
    }
  }
}

TEST(message_source, other_hosts_send_to_the_roce_port) {
  EXPECT_TRUE(is_believable(from_port(9, arrival::roce_port), false));
  EXPECT_FALSE(is_believable(from_port(0x1234, arrival::own_port), false));
}

TEST(message_source, a_services_handoff_socket_takes_only_requests) {
  EXPECT_TRUE(is_believable(from_port(0x1234, arrival::service, cm_kind::req), true));
  EXPECT_TRUE(is_believable(from_port(0x1234, arrival::service, cm_kind::sidr_req), true));
  EXPECT_FALSE(is_believable(from_port(0x1234, arrival::service, cm_kind::dreq), true));
  EXPECT_FALSE(is_believable(from_port(0x1234, arrival::service, cm_kind::rej), true));
  auto withdrawal = from_port(0x1234, arrival::service, cm_kind::rej);
  withdrawal.message.remote_id = 0;
  EXPECT_TRUE(is_believable(withdrawal, true));
  EXPECT_TRUE(is_believable(from_port(9, arrival::service, cm_kind::req), false));
}

TEST(message_source, answers_without_a_receiver_have_no_comm_id) {
  auto refusal = from_port(9, arrival::own_port, cm_kind::rej);
  refusal.message.local_id = 0;
  EXPECT_TRUE(is_believable(refusal, true));
  auto request = from_port(9, arrival::own_port, cm_kind::req);
  request.message.local_id = 0;
  EXPECT_FALSE(is_believable(request, true));
}

}  // namespace
}  // namespace softverbs::cm
