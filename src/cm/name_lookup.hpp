#pragma once

// name_lookup: asks the system's resolver, which blocks for as long as it likes, within a time.
//
// The question is asked in a thread of its own. If the answer comes in time, the thread has ended
// when the caller gets it. Otherwise nobody waits for it any more: it cannot be stopped, and ends
// when the resolver gives up. How many there are at once is bounded, so that a resolver that hangs
// does not fill the process with threads.
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

  /// Questions that are under way at once, in the whole process.
  static constexpr std::size_t most = 16;

  /// What `ask` answers; ETIMEDOUT when it has not in time, EAGAIN when too many are under way.
  [[nodiscard]] static answer until(const std::string& name, std::chrono::milliseconds timeout,
                                    std::function<answer()> ask);
  /// Those that are under way now.
  [[nodiscard]] static std::size_t count() noexcept;
};

}  // namespace RDMAXX_NAMESPACE::detail
