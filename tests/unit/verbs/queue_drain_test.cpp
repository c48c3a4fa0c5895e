#include <rdmaxx/verbs/queue_drain.hpp>

#include <cstdint>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rdmaxx/verbs/queue_pair.hpp>

#include "unit/verbs/fake_verbs.hpp"

using namespace rdmaxx;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class queue_drain_test : public testing::Test {
 protected:
  queue_drain_test() { device.attributes.qp_state = IBV_QPS_RTS; }

  fake_setup setup;
  queue_pair qp = setup.make_qp();
  fake_qp& device = fake_device::of(qp);
  fake_cq& reports = fake_device::of(setup.cq);

  void complete(std::uint64_t id, ibv_wc_status status, std::uint32_t number) const {
    ibv_wc native{};
    native.wr_id = id;
    native.status = status;
    native.qp_num = number;
    reports.completions.push_back(native);
  }

  /// A poll loop that is not the library's.
  std::vector<wr_id> rest_of(queue_drain& draining) const {
    std::vector<wr_id> seen;
    for (int round = 0; !draining.is_done() && round < 100; ++round) {
      const auto found = setup.cq.poll_each(4, [&](const work_completion& completion) {
        if (!draining.recognise(completion)) seen.push_back(completion.id());
      });
      draining.advance(found.value()).value();
    }
    return seen;
  }
};

}  // namespace

TEST_F(queue_drain_test, can_run_in_another_poll_loop) {
  for (std::uint64_t id = 0; id < 10; ++id) complete(id, IBV_WC_WR_FLUSH_ERR, device.qp_num);
  complete(77, IBV_WC_SUCCESS, device.qp_num + 1);
  auto draining = queue_drain::begin(qp).value();
  EXPECT_EQ(qp.state().value(), qp_state::error);
  EXPECT_THAT(describe(draining), HasSubstr("waiting for"));

  const auto seen = rest_of(draining);

  EXPECT_TRUE(draining.is_done());
  EXPECT_EQ(seen.size(), 11U) << "everybody's, without the markers";
  EXPECT_EQ(device.sends.size(), 1U);
  EXPECT_EQ(device.recvs.size(), 1U);
  EXPECT_THAT(reports.completions, IsEmpty());
}

TEST_F(queue_drain_test, no_marker_is_posted_before_there_is_room_for_it) {
  for (std::uint64_t id = 0; id < 6; ++id) complete(id, IBV_WC_WR_FLUSH_ERR, device.qp_num);
  auto draining = queue_drain::begin(qp).value();

  draining.advance(4).value();
  draining.advance(2).value();
  EXPECT_THAT(device.sends, IsEmpty());
  draining.advance(0).value();

  EXPECT_EQ(device.sends.size(), 1U);
  EXPECT_THAT(device.recvs, IsEmpty()) << "one marker at a time";
}

TEST_F(queue_drain_test, other_queue_pairs_that_keep_completing_do_not_delay_it) {
  auto draining = queue_drain::begin(qp).value();

  for (std::uint32_t seen = 0; seen < setup.cq.capacity(); seen += 4) draining.advance(4).value();

  EXPECT_EQ(device.sends.size(), 1U) << "so much cannot have been in the queue before";
}

TEST_F(queue_drain_test, markers_are_drawn_anew_each_time) {
  std::set<std::uint64_t> ids;
  for (int time = 0; time < 8; ++time) {
    auto draining = queue_drain::begin(qp).value();
    static_cast<void>(rest_of(draining));
  }
  for (const auto& each : device.sends) ids.insert(each.request.wr_id);
  for (const auto& each : device.recvs) ids.insert(each.request.wr_id);

  EXPECT_EQ(ids.size(), 16U);
}

TEST_F(queue_drain_test, what_only_looks_like_a_marker_is_the_users) {
  auto draining = queue_drain::begin(qp).value();
  draining.advance(0).value();
  const auto marker = device.sends.at(0).request.wr_id;
  ASSERT_EQ(reports.completions.size(), 1U);
  const auto real = reports.completions.front();
  reports.completions.clear();
  complete(marker, IBV_WC_SUCCESS, device.qp_num);           // posted in the error state? never
  complete(marker, IBV_WC_WR_FLUSH_ERR, device.qp_num + 1);  // another queue pair's
  complete(marker + 1, IBV_WC_WR_FLUSH_ERR, device.qp_num);
  reports.completions.push_back(real);

  EXPECT_THAT(rest_of(draining), ElementsAre(wr_id(marker), wr_id(marker), wr_id(marker + 1)));
  EXPECT_TRUE(draining.is_done());
}

TEST_F(queue_drain_test, a_device_that_refuses_markers_has_flushed) {
  device.accepts = 0;
  device.refusal = EINVAL;
  complete(5, IBV_WC_WR_FLUSH_ERR, device.qp_num);
  auto draining = queue_drain::begin(qp).value();

  EXPECT_THAT(rest_of(draining), ElementsAre(wr_id(5)));
  EXPECT_TRUE(draining.is_done());
}

TEST_F(queue_drain_test, a_full_queue_is_an_error) {
  device.accepts = 0;
  device.refusal = ENOMEM;
  auto draining = queue_drain::begin(qp).value();

  EXPECT_THAT(draining.advance(0).error().message(), HasSubstr("posting its marker"));
}

TEST_F(queue_drain_test, a_queue_pair_in_the_reset_state_has_nothing_to_drain) {
  device.attributes.qp_state = IBV_QPS_RESET;

  EXPECT_TRUE(queue_drain::begin(qp).value().is_done());
}
