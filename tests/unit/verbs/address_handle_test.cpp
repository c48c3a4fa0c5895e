#include <rdmaxx/verbs/address_handle.hpp>

#include <array>
#include <cstddef>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;
using testing::HasSubstr;

namespace {

address_vector full_vector() {
  return {.port = 2,
          .global = true,
          .destination = gid::parse("10.0.0.9").value(),
          .source_gid_index = 3,
          .destination_lid = lid(0x44),
          .service_level = 5,
          .traffic_class = 96,
          .hop_limit = 7,
          .flow_label = 0xabcde,
          .source_path_bits = 1,
          .static_rate = 4};
}

}  // namespace

TEST(address_vector, becomes_the_c_attributes) {
  const auto native = full_vector().native();

  EXPECT_EQ(native.port_num, 2);
  EXPECT_EQ(native.is_global, 1);
  EXPECT_EQ(gid(native.grh.dgid), full_vector().destination);
  EXPECT_EQ(native.grh.sgid_index, 3);
  EXPECT_EQ(native.grh.traffic_class, 96);
  EXPECT_EQ(native.grh.hop_limit, 7);
  EXPECT_EQ(native.grh.flow_label, 0xabcdeU);
  EXPECT_EQ(native.dlid, 0x44);
  EXPECT_EQ(native.sl, 5);
  EXPECT_EQ(native.src_path_bits, 1);
  EXPECT_EQ(native.static_rate, 4);
}

TEST(address_vector, survives_the_way_through_the_c_type) {
  const auto back = address_vector::from_native(full_vector().native());
  const auto original = full_vector();

  EXPECT_EQ(back.port, original.port);
  EXPECT_EQ(back.global, original.global);
  EXPECT_EQ(back.destination, original.destination);
  EXPECT_EQ(back.source_gid_index, original.source_gid_index);
  EXPECT_EQ(back.destination_lid, original.destination_lid);
  EXPECT_EQ(back.service_level, original.service_level);
  EXPECT_EQ(back.traffic_class, original.traffic_class);
  EXPECT_EQ(back.hop_limit, original.hop_limit);
  EXPECT_EQ(back.flow_label, original.flow_label);
  EXPECT_EQ(back.source_path_bits, original.source_path_bits);
  EXPECT_EQ(back.static_rate, original.static_rate);
}

TEST(address_vector, a_local_one_has_no_grh) {
  auto local = full_vector();
  local.global = false;

  const auto native = local.native();

  EXPECT_EQ(native.is_global, 0);
  EXPECT_TRUE(gid(native.grh.dgid).is_zero());
  EXPECT_EQ(native.dlid, 0x44);
  EXPECT_EQ(describe(local), "port 2 lid 0x44 sl 5");
}

TEST(address_vector, a_global_one_is_described_by_its_gid) {
  EXPECT_EQ(describe(full_vector()), "port 2 gid 3 to ::ffff:10.0.0.9 sl 5 tc 96 hop_limit 7");
}

TEST(address_handle, an_empty_one_says_so) {
  EXPECT_EQ(describe(address_handle()), "address_handle (empty)");
}

TEST(address_handle, keeps_its_domain_alive) {
  fake_device card;
  {
    address_handle ah;
    {
      const auto pd = card.open().alloc_pd().value();
      ah = pd.create_ah(full_vector()).value();
    }
    EXPECT_TRUE(card.ended.empty());
  }
  EXPECT_THAT(card.ended, testing::ElementsAre("ibv_destroy_ah", "ibv_dealloc_pd"));
}

TEST(address_handle, a_refusal_names_the_destination) {
  fake_setup setup;
  setup.card.refuse("ibv_create_ah", EHOSTUNREACH);

  const auto failed = setup.pd.create_ah(full_vector());

  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), std::errc::host_unreachable);
  EXPECT_THAT(failed.error().hint(), HasSubstr("10.0.0.9"));
}

TEST(address_handle, a_header_that_is_too_short_is_refused) {
  const fake_setup setup;
  const std::array<std::byte, 39> short_header{};

  const auto failed = setup.pd.create_ah(work_completion(ibv_wc{}), short_header);

  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().problem(), HasSubstr("39 bytes"));
  EXPECT_THAT(failed.error().hint(), HasSubstr("40 bytes"));
}
