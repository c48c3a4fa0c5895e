#include <engine/endpoint.hpp>

#include <utility>

#include <engine/queue_pair.hpp>

namespace softverbs::engine {
namespace {

thread_local std::vector<std::shared_ptr<endpoint>> deferred;
thread_local unsigned held = 0;
std::atomic<std::uint32_t> endpoints_made = 0;
constexpr std::size_t most_spare_bytes = std::size_t{1024} * 1024;

}  // namespace

namespace deferred_work {

void add(std::shared_ptr<endpoint> work) {
  // Trains of packets go to one queue pair: most of the time it is the last that was added.
  if (!deferred.empty() && deferred.back() == work) return;
  deferred.push_back(std::move(work));
}

void hold() noexcept { ++held; }
void release() noexcept { --held; }
bool is_held() noexcept { return held != 0; }

void run() {
  if (is_held()) return;
  // In the order of arrival, so that two queue pairs that keep each other busy take turns.
  for (std::size_t next = 0; next < deferred.size(); ++next) {
    const auto work = std::move(deferred[next]);
    work->run();
    if (next == 63) {
      deferred.erase(deferred.begin(), deferred.begin() + 64);
      next = static_cast<std::size_t>(-1);
    }
  }
  deferred.clear();
}

}  // namespace deferred_work

endpoint::endpoint(std::uint32_t number)
    : qpn(number), order(endpoints_made.fetch_add(1, std::memory_order_relaxed) + 1) {}

endpoint::inbox& endpoint::spare() {
  static thread_local inbox memory;
  return memory;
}

void endpoint::enqueue(const wire::headers& header, std::span<const iovec> payload,
                       const net::address& source, const net::address& destination) {
  {
    const std::lock_guard lock(inbox_mutex_);
    if (inbox_.packets.capacity() == 0) std::swap(inbox_, spare());
    queued entry{.header = header, .source = source, .destination = destination};
    entry.offset = inbox_.payloads.size();
    for (const auto& part : payload) {
      const auto* bytes = static_cast<const std::byte*>(part.iov_base);
      inbox_.payloads.insert(inbox_.payloads.end(), bytes, bytes + part.iov_len);
    }
    entry.bytes = inbox_.payloads.size() - entry.offset;
    inbox_.packets.push_back(entry);
  }
  deferred_work::add(shared_from_this());
}

void endpoint::run() {
  const std::lock_guard lock(mutex);
  if (owner != nullptr && owner->context.place->outages().is_frozen())
    return;  // it runs again afterwards
  inbox handled;
  {
    const std::lock_guard inbox_lock(inbox_mutex_);
    std::swap(inbox_, handled);
  }
  if (owner != nullptr) {
    for (const auto& each : handled.packets) {
      owner->receive(
          {.packet = {.header = each.header,
                      .payload = std::span(handled.payloads).subspan(each.offset, each.bytes)},
           .source = each.source,
           .destination = each.destination,
           .came = inbound::path::in_process});
    }
    owner->after_receiving(false);
  }
  if (handled.packets.capacity() == 0 || handled.payloads.capacity() > most_spare_bytes) return;
  handled.packets.clear();
  handled.payloads.clear();
  spare() = std::move(handled);
}

}  // namespace softverbs::engine
