#include "bandwidth.hpp"

#include <algorithm>

namespace rdmaxx::tool {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t max_requests_in_flight = 16;

std::size_t requests_in_flight(const connection& here, std::size_t message_bytes) noexcept {
  return std::clamp<std::size_t>(here.memory().size() / message_bytes, 1, max_requests_in_flight);
}

void post(const connection& here, remote_address there, transfer kind, std::span<std::byte> bytes) {
  const auto& memory = here.memory();
  if (kind == transfer::write) {
    here.qp().post(write_wr{.from = memory.gather(bytes), .to = there}).value();
  } else {
    here.qp().post(read_wr{.from = there, .into = memory.scatter(bytes)}).value();
  }
}

}  // namespace

std::string_view describe(transfer kind) noexcept {
  return kind == transfer::write ? "RDMA WRITE" : "RDMA READ";
}

double bandwidth_measured::bytes_per_second() const noexcept {
  return static_cast<double>(bytes) / std::chrono::duration<double>(time).count();
}

std::size_t bytes_in_flight(const connection& here, std::size_t message_bytes) noexcept {
  return requests_in_flight(here, message_bytes) * message_bytes;
}

bandwidth_measured measure(connection& here, remote_address there, const bandwidth_wanted& wanted) {
  const auto window = requests_in_flight(here, wanted.message_bytes);
  const auto sent_before = here.sent();
  std::uint64_t posted = 0;
  std::size_t place = 0;
  const auto start = clock::now();
  // The whole window is used at least once, so that all of it can be checked.
  while (posted < window || clock::now() - start < wanted.time) {
    if (posted >= window) here.wait_until_sent(sent_before + posted - window + 1);
    const auto offset = place * wanted.message_bytes;
    post(here, there + offset, wanted.kind,
         here.memory().bytes().subspan(offset, wanted.message_bytes));
    ++posted;
    place = place + 1 == window ? 0 : place + 1;
  }
  here.wait_until_sent(sent_before + posted);
  return {.messages = posted, .bytes = posted * wanted.message_bytes, .time = clock::now() - start};
}

}  // namespace rdmaxx::tool
