// Live objects in words: what a person reads in a log.

#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/rdmaxx.hpp>

#include "completion_waiter.hpp"
#include "connected_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class formatting_live : public device_test {
 protected:
  template <class T>
  static std::string text_of(const T& value) {
    const auto text = std::string(describe(value));
    std::ostringstream stream;
    stream << value;
    EXPECT_EQ(stream.str(), text);
    EXPECT_EQ(fmt::format("{}", value), text);
    return text;
  }
};

TEST_F(formatting_live, handles_name_their_device) {
  const auto side = unconnected_side(ctx, {.with_channel = true});

  EXPECT_THAT(text_of(ctx), HasSubstr(dut.name()));
  EXPECT_THAT(text_of(side.pd), HasSubstr(dut.name()));
  EXPECT_THAT(text_of(side.channel), HasSubstr(dut.name()));
  EXPECT_THAT(text_of(side.send_cq), AllOf(HasSubstr(dut.name()), HasSubstr("capacity")));
}

TEST_F(formatting_live, a_queue_pair_tells_number_type_state_and_peer) {
  const connected_pair pair;

  const auto text = text_of(pair.a.qp);

  EXPECT_THAT(
      text, AllOf(HasSubstr(describe(pair.a.qp.number())), HasSubstr("rc"), HasSubstr(dut.name())));
  if (!dut.has(capability::manual_connection)) return;
  EXPECT_THAT(text, AllOf(HasSubstr("rts"), HasSubstr("→ " + describe(pair.b.qp.number())),
                          HasSubstr(describe(pair.b.qp.endpoint().value().gid))));
}

TEST_F(formatting_live, a_region_tells_its_size_and_keys_but_not_its_bytes) {
  const auto region = ctx.alloc_pd().value().allocate_local({.bytes = 123}).value();

  EXPECT_THAT(
      text_of<memory_region>(region),
      AllOf(HasSubstr("123 bytes"), HasSubstr(describe(region.lkey())), HasSubstr("local_write")));
}

TEST_F(formatting_live, attributes_are_told_in_full) {
  EXPECT_THAT(text_of(ctx.query_device().value()),
              HasSubstr(std::to_string(dut.attributes().max_qp_wr)));
  EXPECT_THAT(text_of(ctx.query_port(1).value()), AllOf(HasSubstr("port 1"), HasSubstr("active")));
  for (const auto& row : ctx.query_gid_table().value())
    EXPECT_THAT(text_of(row), HasSubstr(describe(row.address)));
}

TEST_F(formatting_live, completions_tell_what_happened) {
  const connected_pair pair;
  const auto inbox = pair.b.local_memory(16);
  const auto from = pair.a.local_memory(7);
  pair.b.qp.post(recv_wr{.id = wr_id{41}, .into = inbox.scatter()}).value();
  pair.a.qp.post(send_wr{.id = wr_id{42}, .from = from.gather()}).value();

  EXPECT_THAT(text_of(wait_for_success(pair.b.recv_cq)),
              AllOf(HasSubstr("request 41"), HasSubstr("success"), HasSubstr("7 bytes"),
                    HasSubstr(describe(pair.b.qp.number()))));
  EXPECT_THAT(text_of(wait_for_success(pair.a.send_cq)),
              AllOf(HasSubstr("request 42"), HasSubstr("send")));
}

TEST_F(formatting_live, empty_handles_say_so) {
  EXPECT_THAT(text_of(context()), HasSubstr("empty"));
  EXPECT_THAT(text_of(protection_domain()), HasSubstr("empty"));
  EXPECT_THAT(text_of(completion_channel()), HasSubstr("empty"));
  EXPECT_THAT(text_of(completion_queue()), HasSubstr("empty"));
  EXPECT_THAT(text_of(queue_pair()), HasSubstr("empty"));
  EXPECT_THAT(text_of(memory_region()), HasSubstr("empty"));
  EXPECT_THAT(text_of(address_handle()), HasSubstr("empty"));
}

}  // namespace
}  // namespace rdmaxx::device_tests
