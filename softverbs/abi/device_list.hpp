// The devices of the real library.
#pragma once

#include <infiniband/verbs.h>

namespace softverbs::abi {

/// The real library's list, to be given back to it. Empty if it fails, as it does on a kernel
/// without RDMA, or if the user hides real devices.
class real_device_list {
 public:
  real_device_list();
  real_device_list(const real_device_list&) = delete;
  real_device_list& operator=(const real_device_list&) = delete;
  ~real_device_list();

  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] ibv_device** data() const noexcept { return list_; }
  /// Somebody else gives it back.
  ibv_device** release() noexcept;

 private:
  int size_ = 0;
  ibv_device** list_ = nullptr;
};

/// While it lives, this thread's ibv_get_device_list() gives the real devices alone: the real
/// library asks for them, and looks behind each for what soft devices do not have.
class real_devices_only {
 public:
  real_devices_only() noexcept;
  real_devices_only(const real_devices_only&) = delete;
  real_devices_only& operator=(const real_devices_only&) = delete;
  ~real_devices_only();
};

}  // namespace softverbs::abi
