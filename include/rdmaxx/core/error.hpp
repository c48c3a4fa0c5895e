#pragma once

// error: what failed, why, and what a person can do about it.
//
// An error is one pointer to shared details off the hot path, so result<T> stays small and success
// costs nothing. It holds the call that failed, the std::error_code, a category to branch on, and a
// hint.
//
//   error: ibv_create_qp failed: Cannot allocate memory [12]: max_send_wr 70000 exceeds the
//   device's 1048576
//     hint: ask for at most 1048576 …
//
// Threads: an error is an immutable value; copies may be used from any threads.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <rdmaxx/core/identifiers.hpp>

namespace RDMAXX_NAMESPACE {

/// The kind of failure, which decides what a program does next.
enum class error_category : std::uint8_t {
  retryable,    ///< the same call may succeed later
  peer,         ///< the peer or the network is at fault
  misuse,       ///< the program asked for something impossible; retrying will not help
  resources,    ///< memory, queue slots, descriptors or a device limit
  gone,         ///< the object, the device or the connection no longer exists
  unsupported,  ///< this device or kernel cannot do it
  unknown,      ///< none of the above is known to apply
};
[[nodiscard]] std::string_view describe(error_category category) noexcept;

/// Where a failed completion came from.
struct completion_origin {
  qpn queue_pair{};
  wr_id request{};
  std::uint32_t vendor_code = 0;
};
[[nodiscard]] std::string describe(const completion_origin& origin);

/// What an error is made of. Only `operation` and `code` are always present.
struct error_parts {
  std::string operation{};  ///< the call or action that failed: "ibv_create_qp"
  std::error_code code{};
  error_category category = error_category::unknown;
  std::string problem{};  ///< what is wrong with this call: "max_send_wr 70000 exceeds …"
  std::string hint{};     ///< what to do
  std::optional<completion_origin> completion{};
  /// For a list of requests that was posted only in part: the position of the first one not posted.
  std::optional<std::size_t> first_not_posted{};
  /// For a connection that the peer rejected: its private data.
  std::vector<std::byte> peer_data{};
};

class [[nodiscard]] error {
 public:
  explicit error(error_parts parts) noexcept;
  error(const error& other) noexcept;
  error(error&& other) noexcept : detail_(other.detail_) { other.detail_ = nullptr; }
  error& operator=(const error& other) noexcept;
  error& operator=(error&& other) noexcept {
    std::swap(detail_, other.detail_);
    return *this;
  }
  ~error() {
    if (detail_ != nullptr) release(detail_);
  }

  [[nodiscard]] std::string_view operation() const noexcept;
  [[nodiscard]] std::error_code code() const noexcept;
  [[nodiscard]] error_category category() const noexcept;
  [[nodiscard]] std::string_view problem() const noexcept;
  [[nodiscard]] std::string_view hint() const noexcept;
  [[nodiscard]] std::optional<completion_origin> completion() const noexcept;
  [[nodiscard]] std::optional<std::size_t> first_not_posted() const noexcept;
  [[nodiscard]] std::span<const std::byte> peer_data() const noexcept;

  /// One line: the call, the code, the problem, and the hint in brackets.
  [[nodiscard]] std::string message() const;

  /// The same error, with more context: "opening rxe0: ibv_open_device failed: …".
  [[nodiscard]] error within(std::string_view action) const;
  /// The same error with another category, where more is known than its code says.
  [[nodiscard]] error as(error_category category) const;

  operator std::error_code() const noexcept { return code(); }

  friend bool operator==(const error& e, const std::error_code& code) noexcept {
    return e.code() == code;
  }
  friend bool operator==(const error& e, const std::error_condition& condition) noexcept {
    return e.code() == condition;
  }
  friend bool operator==(const error& e, std::errc condition) noexcept {
    return e.code() == condition;
  }

 private:
  struct detail;

  // Static: a member would take the address of this object, and the compiler could no longer keep a
  // result<T> in registers.
  [[gnu::cold]] static void release(const detail* shared) noexcept;

  const detail* detail_;
};

[[nodiscard]] std::string describe(const error& failure);

/// Thrown by result<T>::value() and by the checked accessors that throw like std::vector::at.
class exception : public std::system_error {
 public:
  explicit exception(rdmaxx::error failure);

  [[nodiscard]] const rdmaxx::error& error() const noexcept { return error_; }
  [[nodiscard]] const char* what() const noexcept override;

 private:
  rdmaxx::error error_;
  std::string message_;
};

/// The category that an errno suggests when nothing more is known.
[[nodiscard]] error_category category_of(std::error_code code) noexcept;

/// An error from an errno value; category and a general hint are derived from it.
[[nodiscard]] error errno_error(std::string_view operation, int errno_value,
                                std::string problem = {}, std::string hint = {});

/// The caller asked for something impossible: EINVAL, with the reason.
[[nodiscard]] error misuse_error(std::string_view operation, std::string problem,
                                 std::string hint = {});

/// A timed wait ran out of time: ETIMEDOUT, "timed out after 2 s waiting for an event on fd 7".
[[nodiscard]] error timed_out_error(std::string_view operation, std::chrono::milliseconds waited,
                                    std::string_view awaited, std::string hint = {});

}  // namespace RDMAXX_NAMESPACE
