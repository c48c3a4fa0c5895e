#include <rdmaxx/cm/reject_reason.hpp>

#include <set>
#include <string>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rdmaxx;
using testing::HasSubstr;

TEST(reject_reason, every_reason_of_the_specification_has_a_name_of_its_own) {
  std::set<std::string> names;
  for (int reason = 1; reason <= 33; ++reason)
    names.insert(std::string(describe(static_cast<reject_reason>(reason))));

  EXPECT_EQ(names.size(), 33U);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(describe(reject_reason{34}), "unknown");
}

TEST(reject_reason, a_code_tells_number_and_name) {
  const std::error_code code = reject_reason::consumer;

  EXPECT_EQ(code.value(), 28);
  EXPECT_STREQ(code.category().name(), "rdmaxx.reject");
  EXPECT_EQ(code.message(), "rejected, reason 28 (consumer)");
  EXPECT_EQ(make_error_code(reject_reason::no_such_service).value(), 8);
}

TEST(reject_reason, every_refusal_is_a_refused_connection) {
  EXPECT_TRUE(make_error_code(reject_reason::consumer) == std::errc::connection_refused);
  EXPECT_TRUE(make_error_code(reject_reason::no_such_service) == std::errc::connection_refused);
  EXPECT_TRUE(make_error_code(reject_reason::timeout) == std::errc::timed_out);
}

TEST(reject_reason, frequent_reasons_come_with_advice) {
  EXPECT_THAT(std::string(hint(reject_reason::no_such_service)), HasSubstr("nothing listens"));
  EXPECT_FALSE(hint(reject_reason::consumer).empty());
}
