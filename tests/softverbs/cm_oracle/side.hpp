// One side of a scenario: an event channel, its identifiers, and a list of what was called and what
// happened. Every function is the C function of that name, written down with what it returned.
#pragma once

#include <cerrno>
#include <chrono>
#include <concepts>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <rdma/rdma_cma.h>

#include "names.hpp"
#include "socket_address.hpp"

namespace cm_oracle {

class scene;

constexpr std::chrono::seconds patience{10};        // the testbed is an emulated machine
constexpr std::chrono::milliseconds silence{1000};  // after which nothing more is expected

struct seen_event {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;  // none: nothing was seen
};

class side {
 public:
  side(scene& where, std::string name);
  ~side();
  side(const side&) = delete;
  side& operator=(const side&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const json& steps() const { return steps_; }
  [[nodiscard]] rdma_event_channel* channel() const { return channel_; }

  /// Identifiers are known by their labels; the side destroys those that the scenario does not.
  rdma_cm_id* create(const std::string& label, rdma_port_space space = RDMA_PS_TCP);
  rdma_cm_id* create_blocking(const std::string& label, rdma_port_space space = RDMA_PS_TCP);
  void adopt(rdma_cm_id* id, const std::string& label);
  int destroy(rdma_cm_id* id);
  /// Leaves it to the end of the process.
  void forget(rdma_cm_id* id) { std::erase(ids_, id); }

  int bind(rdma_cm_id* id, socket_address to);
  int listen(rdma_cm_id* id, int backlog = 8);
  int resolve_addr(rdma_cm_id* id, socket_address to, std::chrono::milliseconds timeout = patience);
  int resolve_addr(rdma_cm_id* id, socket_address from, socket_address to,
                   std::chrono::milliseconds timeout = patience);
  int resolve_route(rdma_cm_id* id, std::chrono::milliseconds timeout = patience);
  int connect(rdma_cm_id* id, rdma_conn_param* parameters);
  int accept(rdma_cm_id* id, rdma_conn_param* parameters);
  int reject(rdma_cm_id* id, const std::string& private_data = "");
  int establish(rdma_cm_id* id);
  int disconnect(rdma_cm_id* id);
  int notify(rdma_cm_id* id, ibv_event_type event);
  int migrate(rdma_cm_id* id, rdma_event_channel* to);
  int set_option(rdma_cm_id* id, int level, int name, const void* value, std::size_t bytes);
  int set_flag(rdma_cm_id* id, int option, int value = 1);
  int join(rdma_cm_id* id, socket_address group, void* context = nullptr);
  int leave(rdma_cm_id* id, socket_address group);

  /// Small queues, the default protection domain, and completion queues that librdmacm creates.
  int create_qp(rdma_cm_id* id, ibv_pd* pd = nullptr);
  int create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr attributes);
  static ibv_qp_init_attr small_queues(ibv_qp_type type);
  void destroy_qp(rdma_cm_id* id);
  void query_qp(rdma_cm_id* id);
  void query_qp(const std::string& label, ibv_qp* qp);
  void init_qp_attr(rdma_cm_id* id, ibv_qp_state state);
  void init_qp_attr_of_all_states(rdma_cm_id* id);

  /// What the structure and the functions that read it tell.
  void look_at(rdma_cm_id* id);

  /// The next event of the channel, acknowledged at once.
  seen_event next(std::chrono::milliseconds wait = patience);
  seen_event next_of(rdma_event_channel* channel, std::chrono::milliseconds wait = patience);
  /// Writes down that nothing comes, or what does.
  void expect_silence() { next(silence); }
  /// A request's new identifier, known by that label; none if something else came.
  rdma_cm_id* next_request(const std::string& label = "request");
  void write_event(const rdma_cm_event& event);

  void write(json step) { steps_.push_back(std::move(step)); }

  /// Writes down a call of any other function that returns a status.
  template <std::invocable F>
  int call(const char* function, rdma_cm_id* on, F run, const json& details = json::object()) {
    errno = 0;
    const int result = run();
    write_call(function, on, result, errno, details);
    return result;
  }

 private:
  void write_call(const char* function, rdma_cm_id* on, int result, int error, const json& details);
  [[nodiscard]] json label_of(rdma_cm_id* id) const;
  [[nodiscard]] json describe(const rdma_conn_param& parameters) const;
  [[nodiscard]] json describe(const rdma_ud_param& parameters) const;
  [[nodiscard]] json describe(const ibv_qp_attr& attributes, int mask) const;

  scene& where_;
  std::string name_;
  json steps_ = json::array();
  rdma_event_channel* channel_;
  std::map<rdma_cm_id*, std::string> labels_;
  std::vector<rdma_cm_id*> ids_;  // in order of creation
};

}  // namespace cm_oracle
