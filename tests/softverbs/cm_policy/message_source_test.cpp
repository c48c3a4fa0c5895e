#include <cm/message_source.hpp>

#include <gtest/gtest.h>

namespace softverbs::cm {
namespace {

using engine::management_datagram;
using way = management_datagram::way;
using wire::cm_kind;

management_datagram from_port(std::uint16_t port, way came, cm_kind kind = cm_kind::reply) {
  management_datagram datagram;
  datagram.message.kind = kind;
  datagram.message.local_id = 0x12340007;
  datagram.message.remote_id = 0x56780001;
  datagram.came = came;
  datagram.source_port = port;
  return datagram;
}

TEST(message_source, a_neighbour_speaks_for_its_own_identifiers_alone) {
  for (const auto came : {way::own_port, way::well_known_port}) {
    for (const auto kind :
         {cm_kind::reply, cm_kind::ready, cm_kind::rejection, cm_kind::disconnect_request,
          cm_kind::disconnect_reply, cm_kind::receipt, cm_kind::request, cm_kind::sidr_request}) {
      EXPECT_TRUE(is_believable(from_port(0x1234, came, kind), true));
      EXPECT_FALSE(is_believable(from_port(0x1235, came, kind), true));
    }
  }
}

TEST(message_source, other_hosts_use_the_well_known_port) {
  EXPECT_TRUE(is_believable(from_port(9, way::well_known_port), false));
  EXPECT_FALSE(is_believable(from_port(0x1234, way::own_port), false));
}

TEST(message_source, a_service_is_told_requests_alone) {
  EXPECT_TRUE(is_believable(from_port(0x1234, way::service, cm_kind::request), true));
  EXPECT_TRUE(is_believable(from_port(0x1234, way::service, cm_kind::sidr_request), true));
  EXPECT_FALSE(is_believable(from_port(0x1234, way::service, cm_kind::disconnect_request), true));
  EXPECT_FALSE(is_believable(from_port(0x1234, way::service, cm_kind::rejection), true));
  auto taken_back = from_port(0x1234, way::service, cm_kind::rejection);
  taken_back.message.remote_id = 0;
  EXPECT_TRUE(is_believable(taken_back, true));
  EXPECT_TRUE(is_believable(from_port(9, way::service, cm_kind::request), false));
}

TEST(message_source, answers_of_nobody_have_no_identifier) {
  auto refusal = from_port(9, way::own_port, cm_kind::rejection);
  refusal.message.local_id = 0;
  EXPECT_TRUE(is_believable(refusal, true));
  auto request = from_port(9, way::own_port, cm_kind::request);
  request.message.local_id = 0;
  EXPECT_FALSE(is_believable(request, true));
}

}  // namespace
}  // namespace softverbs::cm
