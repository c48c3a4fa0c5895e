#include <rdmaxx/core/strong_integer.hpp>

#include <concepts>
#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <rdmaxx/core/format.hpp>
#include <rdmaxx/core/identifiers.hpp>

using namespace rdmaxx;

namespace {

template <class A, class B>
concept comparable = requires(A a, B b) { a == b; };

template <class Identifier>
concept is_strong = !std::is_convertible_v<typename Identifier::value_type, Identifier> &&
                    !std::is_convertible_v<Identifier, typename Identifier::value_type> &&
                    !std::is_constructible_v<typename Identifier::value_type, Identifier> &&
                    !std::is_assignable_v<Identifier&, typename Identifier::value_type> &&
                    !std::is_convertible_v<Identifier, bool> &&
                    !comparable<Identifier, typename Identifier::value_type> &&
                    std::is_trivially_copyable_v<Identifier> && std::regular<Identifier> &&
                    sizeof(Identifier) == sizeof(typename Identifier::value_type);

template <class A, class B>
concept unrelated =
    !std::is_convertible_v<A, B> && !std::is_convertible_v<B, A> &&
    !std::is_constructible_v<A, B> && !std::is_constructible_v<B, A> && !comparable<A, B>;

}  // namespace

static_assert(is_strong<lkey> && is_strong<rkey> && is_strong<qpn> && is_strong<psn> &&
              is_strong<qkey>);
static_assert(is_strong<pkey> && is_strong<lid> && is_strong<guid> && is_strong<wr_id>);

static_assert(unrelated<lkey, rkey> && unrelated<qpn, psn> && unrelated<qpn, qkey> &&
              unrelated<pkey, lid>);
static_assert(unrelated<guid, wr_id>);

TEST(strong_integer, starts_at_zero) {
  EXPECT_EQ(qpn().value(), 0U);
  EXPECT_EQ(qpn(), qpn(0));
}

TEST(strong_integer, is_ordered_like_its_value) {
  EXPECT_LT(psn(1), psn(2));
  EXPECT_GT(psn(0xffffffff), psn(0)) << "unsigned";
  EXPECT_GE(psn(2), psn(2));
  EXPECT_NE(psn(1), psn(2));
}

TEST(strong_integer, is_a_key_of_hash_tables) {
  std::unordered_map<wr_id, std::string> pending;

  pending[wr_id(1)] = "first";
  pending[wr_id(0xffffffffffffffff)] = "last";

  EXPECT_EQ(pending.at(wr_id(1)), "first");
  EXPECT_EQ(pending.at(wr_id(0xffffffffffffffff)), "last");
  EXPECT_FALSE(pending.contains(wr_id(2)));
}

TEST(strong_integer, keys_and_numbers_print_in_hexadecimal_and_request_ids_in_decimal) {
  EXPECT_EQ(describe(qpn(0x11)), "0x11");
  EXPECT_EQ(describe(rkey(0xdeadbeef)), "0xdeadbeef");
  EXPECT_EQ(describe(pkey(0xffff)), "0xffff");
  EXPECT_EQ(describe(guid(0x0102030405060708)), "0x102030405060708");
  EXPECT_EQ(describe(wr_id(255)), "255");
  EXPECT_EQ(describe(wr_id(0xffffffffffffffff)), "18446744073709551615");
}

TEST(strong_integer, fmt_and_stream_agree_with_describe) {
  std::ostringstream streamed;

  streamed << qpn(0x2a) << ' ' << wr_id(42);

  EXPECT_EQ(streamed.str(), "0x2a 42");
  EXPECT_EQ(fmt::format("{} {}", qpn(0x2a), wr_id(42)), streamed.str());
}
