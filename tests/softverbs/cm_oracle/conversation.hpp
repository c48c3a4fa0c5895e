// The way to a connection in steps, for scenarios that leave it somewhere.
#pragma once

#include <string_view>

#include "scene.hpp"
#include "side.hpp"

namespace cm_oracle {

/// What to say when connecting or accepting; the private data has to live as long.
rdma_conn_param parameters(std::string_view private_data = "", std::uint8_t reads = 1);

/// Two sides with a channel each; identifiers appear as the steps are taken.
struct conversation {
  explicit conversation(scene& at_scene, rdma_port_space in_space = RDMA_PS_TCP);

  /// Passive: bound to the own address and listening; `at` is where.
  void listen(int backlog = 8);
  /// Active: address and route are resolved, the queue pair is in INIT.
  void resolve();
  void resolve_to(const socket_address& to);
  /// Active connects, passive has a request with a queue pair. False if it did not come to that.
  bool request(std::string_view private_data = "");
  bool request(rdma_conn_param said);
  /// Passive accepts; both sides are told.
  void accept();
  /// All of the above.
  bool establish();

  scene& where;
  rdma_port_space space;
  side& active;
  side& passive;
  socket_address at;
  rdma_cm_id* listener = nullptr;
  rdma_cm_id* client = nullptr;
  rdma_cm_id* server = nullptr;
};

}  // namespace cm_oracle
