// The names of constants, as the headers spell them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>
#include <rdma/rdma_cma.h>

namespace cm_oracle {

using json = nlohmann::ordered_json;

std::string name_of_errno(int number);
std::string name_of(rdma_cm_event_type type);
std::string name_of(ibv_qp_state state);
std::string name_of(rdma_port_space space);
std::string name_of_family(int family);
std::string name_of_qp_type(int type);
/// Each bit of an ibv_qp_attr_mask.
json names_of_qp_attributes(int mask);
std::string hex(const void* data, std::size_t bytes);

}  // namespace cm_oracle
