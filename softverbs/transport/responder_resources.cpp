#include <transport/responder_resources.hpp>

#include <algorithm>
#include <utility>

#include <transport/operations.hpp>

namespace softverbs::transport {

bool responder_resources::has_room(std::uint8_t max_dest_rd_atomic) const {
  return waiting_.size() < max_dest_rd_atomic ||
         std::cmp_less(std::ranges::count(waiting_, false, &response::repeated),
                       max_dest_rd_atomic);
}

void responder_resources::add(const response& accepted, std::uint8_t max_dest_rd_atomic) {
  waiting_.push_back(accepted);
  kept_.push_back(accepted);
  if (kept_.size() > max_dest_rd_atomic) kept_.pop_front();
}

void responder_resources::clear() {
  waiting_.clear();
  kept_.clear();
}

void responder_resources::repeat(const wire::headers& request, std::size_t mtu) {
  const bool atomic = is_atomic(request.op);
  const auto kept = std::ranges::find_if(kept_, [&](const response& each) {
    const auto distance = wire::psn_distance(each.first_psn, request.psn);
    return each.is_atomic == atomic && distance >= 0 &&
           distance < static_cast<std::int32_t>(each.packets);
  });
  if (kept == kept_.end()) return;
  // The requester asks again for everything from here on: what is still to be sent is outdated.
  std::erase_if(waiting_, [&](const response& each) {
    return wire::psn_distance(request.psn, (each.first_psn + each.packets - 1) & wire::psn_mask) >=
           0;
  });
  auto again = *kept;
  again.sent = 0;
  again.repeated = true;
  if (!atomic) {
    const auto skipped =
        static_cast<std::uint32_t>(wire::psn_distance(kept->first_psn, request.psn));
    const auto packets = static_cast<std::uint32_t>(packets_of(request.dma_length, mtu));
    if (request.rkey != kept->rkey || request.dma_length > kept->bytes ||
        skipped + packets > kept->packets) {
      return;
    }
    again.first_psn = request.psn;
    again.address = request.remote_address;
    again.bytes = request.dma_length;
    again.packets = packets;
  }
  if (waiting_.size() < most_repeated) waiting_.push_back(again);
}

}  // namespace softverbs::transport
