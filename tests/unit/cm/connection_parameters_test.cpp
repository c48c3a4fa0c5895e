#include <rdmaxx/cm/connection_parameters.hpp>

#include <array>
#include <cstddef>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <rdmaxx/cm/port_space.hpp>

using namespace rdmaxx;
using testing::HasSubstr;

TEST(connection_parameters, empty_values_mean_the_maximum) {
  const auto native = connection_parameters{}.native().value();

  EXPECT_EQ(native.responder_resources, RDMA_MAX_RESP_RES);
  EXPECT_EQ(native.initiator_depth, RDMA_MAX_INIT_DEPTH);
  EXPECT_EQ(native.private_data, nullptr);
  EXPECT_EQ(native.private_data_len, 0);
  EXPECT_EQ(native.retry_count, 7);
  EXPECT_EQ(native.rnr_retry_count, 7);
}

TEST(connection_parameters, given_values_come_back) {
  const std::array<std::byte, 3> said{std::byte{1}, std::byte{2}, std::byte{3}};
  const connection_parameters wanted{.private_data = said,
                                     .responder_resources = 4,
                                     .initiator_depth = 0,
                                     .flow_control = false,
                                     .retry_count = 1,
                                     .rnr_retry = 2,
                                     .queue_pair = qpn{0x123},
                                     .shared_receive_queue = true};

  const auto back = connection_parameters::from_native(wanted.native().value());

  EXPECT_EQ(back.private_data.data(), said.data());
  EXPECT_EQ(back.private_data.size(), said.size());
  EXPECT_EQ(back.responder_resources, 4);
  EXPECT_EQ(back.initiator_depth, 0);
  EXPECT_FALSE(back.flow_control);
  EXPECT_EQ(back.retry_count, 1);
  EXPECT_EQ(back.rnr_retry, 2);
  EXPECT_EQ(back.queue_pair, qpn{0x123});
  EXPECT_TRUE(back.shared_receive_queue);
}

TEST(connection_parameters, private_data_that_has_no_length_is_refused) {
  const std::vector<std::byte> too_long(256);

  const auto native = connection_parameters{.private_data = too_long}.native();

  ASSERT_FALSE(native.has_value());
  EXPECT_THAT(native.error().message(), HasSubstr("256 bytes"));
}

TEST(port_space, each_has_its_type_of_queue_pair) {
  EXPECT_EQ(qp_type_of(port_space::tcp), qp_type::rc);
  EXPECT_EQ(qp_type_of(port_space::ib), qp_type::rc);
  EXPECT_EQ(qp_type_of(port_space::udp), qp_type::ud);
  EXPECT_EQ(qp_type_of(port_space::ipoib), qp_type::ud);
}
