#pragma once

// name_lookup: asks the system's resolver, which blocks, with a timeout.
//
// Each lookup runs in a thread of its own. If the answer arrives in time, the thread has ended when
// the caller gets it. Otherwise the thread is abandoned: it cannot be stopped, and ends when the
// resolver gives up. The number of lookups is limited, so that a hanging resolver does not fill the
// process with threads.
//
// Threads: any.

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/result.hpp>

namespace RDMAXX_NAMESPACE::detail {

class name_lookup {
 public:
  using answer = result<std::vector<socket_address>>;

  /// The most lookups at once, in the whole process.
  static constexpr std::size_t most = 16;

  /// The result of `ask`; ETIMEDOUT if it takes too long, EAGAIN if too many lookups are running.
  [[nodiscard]] static answer until(const std::string& name, std::chrono::milliseconds timeout,
                                    std::function<answer()> ask);
  /// The lookups running now.
  [[nodiscard]] static std::size_t count() noexcept;
};

}  // namespace RDMAXX_NAMESPACE::detail
