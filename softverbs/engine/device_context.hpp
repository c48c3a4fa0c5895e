// An opened soft device: what an ibv_context stands for.
//
// Owner: the user, through ibv_open_device and ibv_close_device; every object made from it keeps
// counting on it, so it cannot be closed before them. Any thread may call any function.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <engine/completion_queue.hpp>
#include <engine/domain_directory.hpp>
#include <engine/event_fd.hpp>
#include <engine/netdev_port.hpp>
#include <infiniband/verbs.h>
#include <transport/memory_keys.hpp>

namespace softverbs::engine {

class queue_pair;
class shared_receive_queue;

class device_context {
 public:
  explicit device_context(std::shared_ptr<netdev_port> place);
  device_context(const device_context&) = delete;
  device_context& operator=(const device_context&) = delete;
  ~device_context();

  [[nodiscard]] ibv_context* as_ibv() noexcept { return &verbs.context; }
  [[nodiscard]] static device_context& of(ibv_context* context) noexcept {
    return *reinterpret_cast<device_context*>(reinterpret_cast<std::byte*>(context) -
                                              offsetof(verbs_context, context));
  }

  /// False in a child of the process that opened the device: nothing of it can be used there.
  [[nodiscard]] bool is_alive() const noexcept { return generation_ == process_generation(); }

  /// 0, or the errno with which the function of that name has to fail: here in a child, or because
  /// the fault plan wants it.
  [[nodiscard]] int refuses(std::string_view function) const;

  void raise(ibv_event_type type, completion_queue& cq) noexcept;
  void raise(ibv_event_type type, queue_pair& qp) noexcept;
  void raise(ibv_event_type type, shared_receive_queue& srq) noexcept;

  verbs_context verbs{};  ///< first, so that as_ibv() can be undone
  std::shared_ptr<netdev_port> place;
  transport::memory_keys memory;
  domain_directory domains;
  event_fd<ibv_async_event> events;
  std::atomic<unsigned> objects = 0;  ///< made from it and not destroyed yet

 private:
  /// Turns what becomes of the netdev into events of the port.
  class port_events final : public netdev_observer {
   public:
    explicit port_events(device_context& owner) : owner_(owner) {}
    void netdev_changed(change what) override;

   private:
    device_context& owner_;
  };

  port_events port_events_{*this};
  unsigned generation_;
};

}  // namespace softverbs::engine
