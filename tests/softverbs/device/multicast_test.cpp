// UD to many: every queue pair that is attached to a group gets a copy of what is sent to it.

#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

constexpr std::uint32_t all_of_the_group = 0xffffff;
constexpr std::size_t bytes = 1000;

ibv_gid group_of(const char* text) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  EXPECT_EQ(inet_pton(AF_INET, text, &gid.raw[12]), 1) << text;
  return gid;
}

class multicast : public testing::Test {
 protected:
  void SetUp() override { fill_pattern(here_.bytes(), 1); }

  [[nodiscard]] owned<ibv_ah> address_of(const ibv_gid& group) {
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.port_num = 1;
    attributes.grh.dgid = group;
    attributes.grh.sgid_index = ipv4_index;
    return own(ibv_create_ah(pair_.a.domain(), &attributes));
  }
  void send_to(ibv_ah* group) {
    ASSERT_EQ(send(2, {here_.sge()}).to(group, all_of_the_group, queue_key).post(pair_.a.qp.get()),
              0);
    wait_for_success(pair_.a.send_cq.get());
  }

  connected_pair pair_{pair_options{.type = IBV_QPT_UD}};
  buffer here_{pair_.a.domain(), bytes};
};

TEST_F(multicast, reaches_every_member_of_the_group) {
  auto group = group_of("239.77.1.1");
  const auto ah = address_of(group);
  const side third(pair_.context, {.type = IBV_QPT_UD});
  connect(third.qp.get(), 0, {.type = IBV_QPT_UD});
  const std::array<const side*, 3> members{&pair_.a, &pair_.b, &third};
  std::deque<buffer> arrived;
  for (const auto* each : members) {
    const auto& place = arrived.emplace_back(each->domain(), grh_bytes + bytes);
    ASSERT_EQ(ibv_attach_mcast(each->qp.get(), &group, 0), 0);
    ASSERT_EQ(post_receive(each->qp.get(), 1, {place.sge()}), 0);
  }
  send_to(ah.get());

  for (std::size_t i = 0; i < members.size(); ++i) {
    SCOPED_TRACE(i);
    const auto got = wait_for_success(members.at(i)->recv_cq.get());
    EXPECT_EQ(got.byte_len, grh_bytes + bytes);
    EXPECT_EQ(got.src_qp, pair_.a.qp->qp_num);
    EXPECT_TRUE(same_bytes(arrived[i].bytes(grh_bytes, bytes), here_.bytes()));
  }
  for (const auto* each : members) {
    EXPECT_EQ(ibv_detach_mcast(each->qp.get(), &group, 0), 0);
  }
}

TEST_F(multicast, groups_are_kept_apart) {
  auto joined = group_of("239.77.1.2");
  const auto mine = address_of(joined);
  const auto foreign = address_of(group_of("239.77.1.3"));
  buffer there(pair_.b.domain(), grh_bytes + bytes);
  ASSERT_EQ(ibv_attach_mcast(pair_.b.qp.get(), &joined, 0), 0);
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 7, {there.sge()}), 0);
  send_to(foreign.get());
  here_.bytes()[0] = std::byte{0xee};
  send_to(mine.get());

  EXPECT_EQ(wait_for_success(pair_.b.recv_cq.get()).wr_id, 7U);
  EXPECT_EQ(there.bytes()[grh_bytes], std::byte{0xee}) << "the datagram to the other group came";
  EXPECT_EQ(ibv_detach_mcast(pair_.b.qp.get(), &joined, 0), 0);
}

TEST_F(multicast, a_member_that_left_gets_nothing) {
  auto group = group_of("239.77.1.4");
  const auto ah = address_of(group);
  buffer before(pair_.b.domain(), grh_bytes + bytes);
  buffer after(pair_.a.domain(), grh_bytes + bytes);
  for (auto* each : {pair_.a.qp.get(), pair_.b.qp.get()}) {
    ASSERT_EQ(ibv_attach_mcast(each, &group, 0), 0);
  }
  ASSERT_EQ(ibv_detach_mcast(pair_.b.qp.get(), &group, 0), 0);
  ASSERT_EQ(post_receive(pair_.b.qp.get(), 1, {before.sge()}), 0);
  ASSERT_EQ(post_receive(pair_.a.qp.get(), 1, {after.sge()}), 0);
  send_to(ah.get());

  wait_for_success(pair_.a.recv_cq.get());  // members are served in one go
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(pair_.b.recv_cq.get(), 1, &none), 0);
  ASSERT_EQ(ibv_detach_mcast(pair_.a.qp.get(), &group, 0), 0);
}

TEST_F(multicast, attaching_is_checked) {
  auto group = group_of("239.77.1.5");
  auto single = group_of("127.0.0.1");
  auto* const qp = pair_.b.qp.get();
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), EINVAL) << "not attached";
  EXPECT_EQ(ibv_attach_mcast(qp, &single, 0), EINVAL) << "not a group";
  EXPECT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_attach_mcast(qp, &group, 0), 0) << "again";
  EXPECT_EQ(ibv_destroy_qp(qp), EBUSY) << "attached";
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), EINVAL) << "not any more";

  const connected_pair connected;
  EXPECT_EQ(ibv_attach_mcast(connected.a.qp.get(), &group, 0), EINVAL) << "RC";
}

}  // namespace
}  // namespace softverbs::device_tests
