// A variant of the library sees every request and every completion, where the plain one looks at
// none.

#include <array>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include <rdmaxx/verbs/context.hpp>
#include <rdmaxx/verbs/device.hpp>
#include <rdmaxx/verbs/queue_pair.hpp>

using namespace rdmaxx;

namespace {

using seen = detail::observer;

constexpr std::uint32_t places = 4;
constexpr std::size_t most = 100;

struct side {
  context ctx = open_device("soft0").value();
  protection_domain pd = ctx.alloc_pd().value();
  completion_queue cq = ctx.create_cq({.capacity = 64}).value();
  queue_pair qp = pd.create_qp({.send_cq = cq,
                                .recv_cq = cq,
                                .capabilities = {.max_send_wr = places, .max_recv_wr = places}})
                      .value();
  std::array<std::byte, 8> buffer{};
  memory_region region = pd.register_local(buffer).value();

  void poll_until(std::size_t count) const {
    std::array<work_completion, 8> found;
    for (std::size_t all = 0; all < count;) all += cq.poll(found).value().size();
  }
};

struct counts {
  std::size_t sends = seen::sends;
  std::size_t receives = seen::receives;
  std::size_t completions = seen::completions;
};

}  // namespace

TEST(counting_variant, counts_requests_and_completions) {
  const side a;
  const side b;
  const auto to_b = b.qp.endpoint().value();
  const auto to_a = a.qp.endpoint().value();
  a.qp.connect(to_b).value();
  b.qp.connect(to_a).value();
  const counts before;

  std::array<recv_slot, 2> receive_slots;
  recv_list receives(receive_slots);
  for (int i = 0; i < 2; ++i) receives.push(recv_wr{.into = b.region.scatter()});
  b.qp.post(receives).value();
  b.qp.post(recv_wr{.into = b.region.scatter()}).value();
  std::array<send_slot, 2> send_slots;
  send_list sends(send_slots);
  for (int i = 0; i < 2; ++i) sends.push(send_wr{.from = a.region.gather()});
  a.qp.post(sends).value();
  a.qp.post(send_wr{.from = a.region.gather()}).value();
  a.poll_until(3);
  b.poll_until(3);

  EXPECT_EQ(seen::sends, before.sends + 3);
  EXPECT_EQ(seen::receives, before.receives + 3);
  EXPECT_EQ(seen::completions, before.completions + 6);
}

TEST(counting_variant, does_not_count_what_the_device_refuses) {
  const side alone;
  alone.qp.to_init({}).value();
  const counts before;

  std::size_t taken = 0;
  while (taken < most && alone.qp.post(recv_wr{.into = alone.region.scatter()})) ++taken;
  ASSERT_LT(taken, most) << "a queue of " << places << " is never full";
  EXPECT_FALSE(alone.qp.post(send_wr{.from = alone.region.gather()}).has_value());

  EXPECT_EQ(seen::receives, before.receives + taken);
  EXPECT_EQ(seen::sends, before.sends);
}
