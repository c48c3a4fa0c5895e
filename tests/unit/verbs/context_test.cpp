#include <rdmaxx/verbs/context.hpp>

#include <cerrno>
#include <cstdint>
#include <memory>

#include <endian.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/verbs/pick_device.hpp>

#include "unit/core/captured_log.hpp"
#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

ibv_gid_entry row(const char* address, std::uint32_t index, ibv_gid_type type) {
  ibv_gid_entry entry{};
  entry.gid = gid::parse(address).value().native();
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = type;
  return entry;
}

}  // namespace

TEST(context, an_owned_one_is_closed_after_everything_made_from_it) {
  fake_device card;
  {
    protection_domain pd;
    {
      const auto ctx = context::adopt(&card).value();
      pd = ctx.alloc_pd().value();
    }
    EXPECT_THAT(card.ended, IsEmpty());
  }
  EXPECT_THAT(card.ended, ElementsAre("ibv_dealloc_pd", "ibv_close_device"));
}

TEST(context, a_borrowed_one_is_not_closed) {
  fake_device card;

  {
    const auto ctx = context::adopt(&card, {.kind = ownership::borrowed}).value();
  }

  EXPECT_THAT(card.ended, IsEmpty());
}

TEST(context, what_could_not_be_adopted_stays_with_its_owner) {
  fake_device card;
  card.refuse("ibv_query_device", EIO);

  EXPECT_EQ(context::adopt(&card).error(), std::errc::io_error);

  EXPECT_THAT(card.ended, IsEmpty());
}

TEST(context, null_cannot_be_adopted) {
  EXPECT_EQ(context::adopt(nullptr).error().category(), error_category::misuse);
  EXPECT_EQ(protection_domain::adopt(nullptr, context()).error().category(),
            error_category::misuse);
}

TEST(context, is_described_by_device_and_transport) {
  fake_device card;

  EXPECT_EQ(describe(card.open()), "context fake0 (infiniband)");
  EXPECT_EQ(describe(context()), "context (empty)");
}

TEST(context, ports_count_from_one) {
  fake_device card;
  const auto ctx = card.open();

  EXPECT_EQ(ctx.query_port(1).value().number, 1);
  EXPECT_EQ(ctx.query_ports().value().size(), 1U);
  for (const std::uint8_t port : {std::uint8_t{0}, std::uint8_t{2}, std::uint8_t{255}}) {
    EXPECT_THAT(ctx.query_port(port).error().hint(), HasSubstr("ports count from 1; fake0 has 1"));
  }
}

TEST(context, indices_beyond_a_table_are_refused_with_its_length) {
  fake_device card;
  const auto ctx = card.open();

  EXPECT_EQ(describe(ctx.query_gid(1, 1).value()), "::ffff:10.0.0.1");
  EXPECT_THAT(ctx.query_gid(1, 4).error().hint(), HasSubstr("4 entries"));
  EXPECT_EQ(ctx.query_pkey(1, 0).value(), pkey(0xffff));
  EXPECT_THAT(ctx.query_pkey(1, 1).error().hint(), HasSubstr("1 entries"));
}

TEST(context, failures_name_the_call) {
  fake_device card;
  const auto ctx = card.open();
  card.refuse("ibv_alloc_pd", ENOMEM);
  card.refuse("ibv_query_port", EIO);
  card.refuse("ibv_query_gid_table", ENODEV);

  EXPECT_EQ(ctx.alloc_pd().error().operation(), "ibv_alloc_pd");
  EXPECT_EQ(ctx.query_port().error().operation(), "ibv_query_port");

  card.refuse("ibv_query_port", 0);
  EXPECT_EQ(ctx.query_gid_table().error(), std::errc::no_such_device);
}

TEST(context, a_domain_of_another_device_cannot_be_adopted) {
  fake_device card;
  fake_device other;
  const auto ctx = card.open();
  ibv_pd foreign{};
  foreign.context = &other;

  EXPECT_THAT(protection_domain::adopt(&foreign, ctx).error().problem(),
              HasSubstr("another context"));
}

TEST(pick_gid, prefers_roce_v2_then_the_peers_family_then_global_addresses) {
  fake_device card;
  card.port.gid_tbl_len = 8;
  card.gids = {row("fe80::1", 0, IBV_GID_TYPE_ROCE_V1),  row("fe80::1", 1, IBV_GID_TYPE_ROCE_V2),
               row("10.0.0.1", 2, IBV_GID_TYPE_ROCE_V1), row("10.0.0.1", 3, IBV_GID_TYPE_ROCE_V2),
               row("fd77::1", 4, IBV_GID_TYPE_ROCE_V1),  row("fd77::1", 5, IBV_GID_TYPE_ROCE_V2)};
  const auto ctx = card.open();
  const auto towards = [&](const char* peer) {
    return pick_gid(ctx, 1, gid::parse(peer).value()).value().index;
  };

  EXPECT_EQ(pick_gid(ctx, 1).value().index, 3U);
  EXPECT_EQ(towards("10.0.0.9"), 3U);
  EXPECT_EQ(towards("fd77::9"), 5U);
  EXPECT_EQ(towards("fe80::9"), 1U);
}

TEST(pick_gid, a_port_without_any_says_what_to_do) {
  fake_device card;
  card.gids.clear();

  EXPECT_THAT(pick_gid(card.open(), 1).error().hint(), HasSubstr("give it an address"));
}
