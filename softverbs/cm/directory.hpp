// Which rdma_cm_id a message is for: all ids of this process, by their comm ids and by the requests
// that they answer.
//
// Owner: the agent, with whose lock held all functions are called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>

#include <net/address.hpp>

namespace softverbs::cm {

class cm_id;

class directory {
 public:
  void add(cm_id& who) { all_.insert(&who); }
  void remove(cm_id& who) { all_.erase(&who); }
  [[nodiscard]] const std::set<cm_id*>& all() const noexcept { return all_; }

  /// Gives the id a comm id, whose upper half is the port of this process; 0 if all are taken.
  [[nodiscard]] std::uint32_t assign_comm_id(cm_id& who, std::uint16_t port);
  void release_comm_id(std::uint32_t comm_id);
  /// Null if there is none.
  [[nodiscard]] cm_id* with_comm_id(std::uint32_t comm_id) const;

  /// What a repetition of a request has in common with it.
  struct request_key {
    net::address source;
    std::uint64_t ca_guid = 0;
    std::uint32_t comm_id = 0;  ///< of the sender
    friend auto operator<=>(const request_key&, const request_key&) = default;
  };
  void remember_request(const request_key& key, cm_id& who) { requests_[key] = &who; }
  void forget_request(const request_key& key) { requests_.erase(key); }
  /// Null if there is none.
  [[nodiscard]] cm_id* with_request(const request_key& key) const;

 private:
  std::set<cm_id*> all_;
  std::unordered_map<std::uint32_t, cm_id*> by_comm_id_;
  std::array<std::uint32_t, 256> released_{};  ///< the comm ids that were released last
  std::size_t next_released_ = 0;
  std::map<request_key, cm_id*> requests_;
};

}  // namespace softverbs::cm
