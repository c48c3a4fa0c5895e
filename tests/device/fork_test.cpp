// fork(2): inherited objects belong to the parent. Calls on them fail and say so, destructors are
// silent, and the parent is not disturbed.

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmaxx/rdmaxx.hpp>

#include "byte_pattern.hpp"
#include "cm_conversation.hpp"
#include "completion_waiter.hpp"
#include "connected_pair.hpp"
#include "device_under_test.hpp"
#include "stream_pair.hpp"

namespace rdmaxx::device_tests {

namespace {

/// What a child printed, on both of its outputs, and how it ended.
struct ending {
  int status;
  std::string printed;
};

ending run_in_child(const std::function<void()>& body) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return {.status = -1, .printed = "no pipe"};
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // a hang ends by a signal
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(pipe[1]);
  ending end{};
  std::array<char, 4096> some{};
  for (ssize_t got = 0; (got = ::read(pipe[0], some.data(), some.size())) > 0;)
    end.printed.append(some.data(), static_cast<std::size_t>(got));
  ::close(pipe[0]);
  if (::waitpid(child, &end.status, 0) != child) end.status = -1;
  return end;
}

/// In a child: prints what is wrong.
void say(std::string_view what) {
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, what.data(), what.size());
}

template <class Outcome>
void expect_forked(std::string_view call, const Outcome& outcome) {
  if (outcome) {
    say(std::string(call) + " succeeds; ");
  } else if (outcome.error() != std::errc::no_such_device ||
             outcome.error().hint().find("fork") == std::string_view::npos) {
    say(std::string(call) + ": " + outcome.error().message() + "; ");
  }
}

void expect_quiet_end(const ending& end) {
  EXPECT_EQ(end.status, 0);
  EXPECT_EQ(end.printed, "");
}

void expect_echo(stream_pair& pair) {
  const auto sent = pattern(3000, 7);
  std::vector<std::byte> got(sent.size());
  pair.client.write_all(sent).value();
  pair.server.read_exactly(got).value();
  EXPECT_TRUE(same_bytes(got, sent));
}

TEST(fork, calls_on_a_stream_of_the_parent_fail_and_say_why) {
  stream_pair pair;
  expect_echo(pair);
  pair.server.write_all(pattern(10, 1)).value();  // something to read is there, too
  expect_quiet_end(run_in_child([&] {
    auto& inherited = pair.client;
    std::array<std::byte, 10> memory{};
    expect_forked("write", inherited.write(memory));
    expect_forked("try_write", inherited.try_write(memory));
    expect_forked("write_all", inherited.write_all(memory));
    expect_forked("flush", inherited.flush());
    expect_forked("read", inherited.read(memory));
    expect_forked("try_read", inherited.try_read(memory));
    expect_forked("read_exactly", inherited.read_exactly(memory));
    expect_forked("peek", inherited.peek());
    expect_forked("fd", inherited.fd());
    expect_forked("close", inherited.close(patience));
    inherited.consume(1);
    inherited.shutdown(direction::both);
    inherited.abort();
    say(inherited.statistics().bytes_written == 0 ? "" : "statistics of the parent; ");
  }));
  std::array<std::byte, 10> kept{};
  pair.client.read_exactly(kept).value();
  EXPECT_TRUE(same_bytes(kept, pattern(10, 1)));
  expect_echo(pair);
}

TEST(fork, a_child_ends_the_streams_of_its_parent_quietly) {
  std::optional<stream_pair> pair(std::in_place);
  expect_echo(*pair);
  const auto waiting = stream_listener::listen(own_address(), {}).value();
  std::optional<std::pair<read_half, write_half>> halves;
  expect_quiet_end(run_in_child([&] {
    halves = std::move(pair->server).into_split();
    halves.reset();
    pair.reset();
  }));
  expect_echo(*pair);
}

TEST(fork, a_child_does_not_wait_for_threads_of_its_parent) {
  stream_pair pair;
  auto [reader, writer] = std::move(pair.server).into_split();
  // One thread leads and sleeps, and others follow; the child's copy of memory keeps that state.
  std::promise<void> started;
  auto reading = std::async(std::launch::async, [&, &half = reader] {
    started.set_value();
    std::array<std::byte, 1> one{};
    return half.read(one);
  });
  started.get_future().wait();
  for (int round = 0; round < 20; ++round) {
    expect_quiet_end(run_in_child([&, &half = reader] {
      expect_forked("write", writer.write(pattern(1, 1)));
      {
        const auto gone = std::move(half);
      }
      {
        const auto gone = std::move(writer);
      }
    }));
  }
  pair.client.write_all(pattern(1, 1)).value();
  EXPECT_EQ(reading.get().value(), 1U);
}

TEST(fork, calls_on_verbs_objects_of_the_parent_fail_and_say_why) {
  RDMAXX_NEEDS(capability::faults);  // other devices do not stop the child from posting and polling
  connected_pair pair({.with_channel = true});
  const auto memory = pair.a.local_memory(64);
  auto events = pair.a.ctx.async_events().value();
  expect_quiet_end(run_in_child([&] {
    auto& side = pair.a;
    expect_forked("post send", side.qp.post(send_wr{.from = memory.gather()}));
    expect_forked("post recv", side.qp.post(recv_wr{.into = memory.scatter()}));
    std::array<work_completion, 1> some;
    expect_forked("poll", side.send_cq.poll(some));
    expect_forked("req_notify", side.send_cq.req_notify());
    expect_forked("to_error", side.qp.to_error());
    expect_forked("query", side.qp.query());
  }));
}

TEST(fork, a_child_neither_makes_things_from_nor_waits_for_objects_of_its_parent) {
  connected_pair pair({.with_channel = true});
  const auto events = pair.a.ctx.async_events().value();
  const auto channel = event_channel::create().value();
  std::array<std::byte, 64> memory{};
  expect_quiet_end(run_in_child([&] {
    auto& side = pair.a;
    expect_forked("alloc_pd", side.ctx.alloc_pd());
    expect_forked("create_cq", side.ctx.create_cq({.capacity = 1}));
    expect_forked("create_completion_channel", side.ctx.create_completion_channel());
    expect_forked("register_local", side.pd.register_local(memory));
    expect_forked("create_srq", side.pd.create_srq({.capacity = 1}));
    expect_forked("create_qp",
                  side.pd.create_qp({.send_cq = side.send_cq, .recv_cq = side.recv_cq}));
    expect_forked("completion_channel::get_event", side.channel.get_event(patience));
    expect_forked("async_event_queue::get_event", events.get_event(patience));
    expect_forked("event_channel::get_event", channel.get_event(patience));
    expect_forked("create_id", channel.create_id(port_space::tcp));
  }));
}

TEST(fork, a_child_destroys_verbs_objects_of_its_parent_quietly) {
  std::optional<connected_pair> pair(std::in_place, pair_options{.with_channel = true});
  std::optional memory(pair->b.local_memory(64));
  auto channel = event_channel::create().value();
  expect_quiet_end(run_in_child([&] {
    memory.reset();
    pair.reset();
    channel = {};
  }));
  // The parent's are as they were.
  pair->b.qp.post(recv_wr{.id = wr_id{1}, .into = memory->scatter()}).value();
  const auto bytes = pair->a.local_memory(64);
  pair->a.qp.post(send_wr{.id = wr_id{2}, .from = bytes.gather()}).value();
  EXPECT_EQ(wait_for_success(pair->b.recv_cq).byte_len(), 64U);
}

}  // namespace
}  // namespace rdmaxx::device_tests
