// fork(2): what a child inherits is of no use to it and no harm to the parent, and the child can
// begin anew.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connected_pair.hpp"
#include "device/byte_pattern.hpp"
#include "owned.hpp"
#include "requests.hpp"
#include "waiting.hpp"

namespace softverbs::device_tests {

namespace {

using rdmaxx::device_tests::fill_pattern;
using rdmaxx::device_tests::same_bytes;

/// Runs `body` in a child; it says what is wrong, or nothing.
pid_t start_child(const std::function<std::string()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::string problem;
  try {
    problem = body();
  } catch (const std::exception& failure) {
    problem = failure.what();
  }
  if (!problem.empty()) std::cerr << "the child: " << problem << '\n';
  std::cerr.flush();
  ::_exit(problem.empty() ? 0 : 1);  // the parent's objects are not the child's to destroy
}

void expect_good_end(pid_t child) {
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

std::string move_bytes(connected_pair& pair) {
  buffer from(pair.a.domain(), 5000);
  buffer to(pair.b.domain(), 5000);
  fill_pattern(from.bytes(), 1);
  if (write(1, {from.sge()}, to.address(), to.rkey()).post(pair.a.qp.get()) != 0) return "posting";
  wait_for_success(pair.a.send_cq.get());
  return same_bytes(to.bytes(), from.bytes()) ? "" : "other bytes";
}

TEST(fork, what_a_child_inherits_says_that_it_is_not_there) {
  connected_pair pair({.with_channel = true, .srq_requests = 4});
  buffer memory(pair.a.domain(), 64);
  const auto mw = own(ibv_alloc_mw(pair.a.domain(), IBV_MW_TYPE_1));
  const auto ah = address_of_neighbour(pair.a.domain());
  const auto child = start_child([&] {
    std::string wrong;
    const auto expect = [&wrong](const char* what, int found) {
      if (found != ENODEV) wrong += std::string(what) + " gives " + std::to_string(found) + "; ";
    };
    const auto expect_null = [&](const char* what, const void* made) {
      expect(what, made == nullptr ? errno : 0);
    };
    auto* const context = pair.context;
    auto* const qp = pair.a.qp.get();
    ibv_wc wc{};
    expect("poll_cq", -ibv_poll_cq(pair.a.send_cq.get(), 1, &wc));
    expect("req_notify_cq", ibv_req_notify_cq(pair.a.send_cq.get(), 0));
    expect("resize_cq", ibv_resize_cq(pair.a.send_cq.get(), 8));
    expect("post_send", send(1, {memory.sge()}).post(qp));
    expect("post_recv", post_receive(qp, 1, {memory.sge()}));
    expect("post_srq_recv", post_receive(pair.a.srq.get(), 1, {memory.sge()}));
    expect("modify_qp", to_state(IBV_QPS_ERR).apply(qp));
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    expect("query_qp", ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init));
    ibv_srq_attr srq{};
    expect("query_srq", ibv_query_srq(pair.a.srq.get(), &srq));
    expect("modify_srq", ibv_modify_srq(pair.a.srq.get(), &srq, IBV_SRQ_LIMIT));
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    expect("get_cq_event", ibv_get_cq_event(pair.a.channel.get(), &cq, &user) == 0 ? 0 : errno);
    ibv_async_event event{};
    expect("get_async_event", ibv_get_async_event(context, &event) == 0 ? 0 : errno);
    ibv_device_attr device{};
    expect("query_device", ibv_query_device(context, &device));
    ibv_port_attr port{};
    expect("query_port", ibv_query_port(context, 1, &port));
    ibv_gid gid{};
    expect("query_gid", ibv_query_gid(context, 1, 1, &gid) == 0 ? 0 : errno);
    expect_null("alloc_pd", ibv_alloc_pd(context));
    expect_null("reg_mr", ibv_reg_mr(pair.a.domain(), memory.bytes().data(), 8, 0));
    expect_null("create_cq", ibv_create_cq(context, 4, nullptr, nullptr, 0));
    expect_null("create_comp_channel", ibv_create_comp_channel(context));
    expect_null("create_qp", ibv_create_qp(pair.a.domain(), &init));
    expect_null("alloc_mw", ibv_alloc_mw(pair.a.domain(), IBV_MW_TYPE_1));
    expect("destroy_ah", ibv_destroy_ah(ah.get()));
    expect("dealloc_mw", ibv_dealloc_mw(mw.get()));
    expect("dereg_mr", ibv_dereg_mr(memory.mr.get()));
    expect("destroy_qp", ibv_destroy_qp(qp));
    expect("destroy_srq", ibv_destroy_srq(pair.a.srq.get()));
    expect("destroy_cq", ibv_destroy_cq(pair.a.send_cq.get()));
    expect("destroy_comp_channel", ibv_destroy_comp_channel(pair.a.channel.get()));
    expect("dealloc_pd", ibv_dealloc_pd(pair.a.domain()));
    expect("close_device", ibv_close_device(context));
    return wrong;
  });
  expect_good_end(child);
  EXPECT_EQ(move_bytes(pair), "") << "the parent is undisturbed";
}

TEST(fork, a_child_opens_the_device_anew) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no thread in a child of a process that has threads";
#endif
  connected_pair pair;
  EXPECT_EQ(move_bytes(pair), "");
  expect_good_end(start_child([] {
    connected_pair own_pair;
    return move_bytes(own_pair);
  }));
  EXPECT_EQ(move_bytes(pair), "");
}

TEST(fork, parent_and_child_exchange_messages) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no thread in a child of a process that has threads";
#endif
  struct address {
    std::uint32_t qpn;
    std::uint32_t rkey;
    std::uint64_t start;
  };
  int to_child[2]{};
  int to_parent[2]{};
  ASSERT_EQ(::pipe(to_child), 0);
  ASSERT_EQ(::pipe(to_parent), 0);
  constexpr std::size_t bytes = 300'000;
  /// Writes to the peer, then tells it by a message; both sides at once.
  const auto play = [&](ibv_context* device, int in, int out, std::uint64_t seed) -> std::string {
    const side own_side(device);
    buffer mine(own_side.domain(), bytes);
    buffer theirs(own_side.domain(), bytes);
    fill_pattern(mine.bytes(), seed);
    const address offered{own_side.qp->qp_num, theirs.rkey(), theirs.address()};
    address peer{};
    if (::write(out, &offered, sizeof offered) != sizeof offered) return "pipe";
    if (::read(in, &peer, sizeof peer) != sizeof peer) return "pipe";
    connect(own_side.qp.get(), peer.qpn);
    if (post_receive(own_side.qp.get(), 1, {}) != 0) return "receive";
    char ready = 'r';
    if (::write(out, &ready, 1) != 1 || ::read(in, &ready, 1) != 1) return "pipe";
    if (write(2, {mine.sge()}, peer.start, peer.rkey).post(own_side.qp.get()) != 0) return "write";
    if (send(3, {}).post(own_side.qp.get()) != 0) return "send";
    wait_for_successes(own_side.send_cq.get(), 2);
    wait_for_success(own_side.recv_cq.get());
    const auto expected = rdmaxx::device_tests::pattern(bytes, 3 - seed);
    if (!same_bytes(theirs.bytes(), expected)) return "other bytes";
    // Nobody leaves while the other may still wait for an acknowledgement.
    if (::write(out, &ready, 1) != 1 || ::read(in, &ready, 1) != 1) return "pipe";
    return "";
  };
  const auto child = start_child([&] {
    const auto own_context = open_device();
    return play(own_context.get(), to_child[0], to_parent[1], 1);
  });
  const auto context = open_device();
  EXPECT_EQ(play(context.get(), to_parent[0], to_child[1], 2), "");
  expect_good_end(child);
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
}

}  // namespace
}  // namespace softverbs::device_tests
