#include "connection.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

namespace rdmaxx::tool {

namespace {

constexpr std::chrono::seconds patience(5);
/// After this many polls that found nothing, other threads may need the processor to make something
/// complete.
constexpr unsigned polls_before_yield = 1000;

constexpr wr_id receive_id{1};
constexpr wr_id send_id{2};

}  // namespace

connection::connection(const device_choice& choice, std::size_t bytes)
    : choice_(choice),
      pd_(choice.context().alloc_pd().value()),
      cq_(choice.context().create_cq({.capacity = 128}).value()),
      // Safe: only the two sides of the measurement know the key, and they take turns.
      memory_(
          pd_.allocate_shared(unsafe, {.bytes = bytes}, access::remote_read | access::remote_write)
              .value()),
      outgoing_(pd_.allocate_local({.bytes = sizeof(std::uint64_t)}).value()),
      incoming_(pd_.allocate_local({.bytes = sizeof(std::uint64_t)}).value()),
      qp_(pd_.create_qp({.type = qp_type::rc, .send_cq = cq_, .recv_cq = cq_}).value()) {}

qp_endpoint connection::endpoint() const {
  return qp_.endpoint({.port = choice_.port(), .gid_index = choice_.gid_index()}).value();
}

void connection::connect(const qp_endpoint& peer) {
  qp_.connect(peer, {.port = choice_.port(), .gid_index = choice_.gid_index()}).value();
}

void connection::expect_message() const {
  qp_.post(recv_wr{.id = receive_id, .into = incoming_.scatter()}).value();
}

void connection::send_message(std::uint64_t message) const {
  std::memcpy(outgoing_.data(), &message, sizeof message);
  qp_.post(send_wr{.id = send_id, .from = outgoing_.gather()}).value();
}

std::uint64_t connection::message() const {
  std::uint64_t message = 0;
  std::memcpy(&message, incoming_.data(), sizeof message);
  return message;
}

void connection::wait_until_sent(std::uint64_t total) { wait_for(sent_, total); }

void connection::wait_until_received(std::uint64_t total) { wait_for(received_, total); }

void connection::wait_for(const std::uint64_t& counter, std::uint64_t total) {
  using clock = std::chrono::steady_clock;
  auto deadline = clock::time_point::max();
  unsigned idle_polls = 0;
  while (counter < total) {
    if (poll()) {
      deadline = clock::time_point::max();
      idle_polls = 0;
    } else if (++idle_polls % polls_before_yield == 0) {
      // The clock is only read when nothing has completed.
      const auto now = clock::now();
      if (deadline == clock::time_point::max()) deadline = now + patience;
      if (now > deadline) {
        throw exception(errno_error(
            "waiting for completions", ETIMEDOUT,
            fmt::format("nothing completed on {} for {} s", describe(qp_), patience.count())));
      }
      std::this_thread::yield();
    }
  }
}

bool connection::poll() {
  std::array<work_completion, 16> completions;
  const auto done = cq_.poll(completions).value();
  for (const auto& completion : done) {
    if (!completion) throw exception(completion.error());
    ++(completion.is_receive() ? received_ : sent_);
  }
  return !done.empty();
}

}  // namespace rdmaxx::tool
