#pragma once

// with_address_fallback: tries the addresses of a name one after the other until an attempt
// succeeds. The timeout of the options covers all of them: once it has expired, no further address
// is tried.

#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>

#include <rdmaxx/cm/socket_address.hpp>
#include <rdmaxx/core/clock.hpp>
#include <rdmaxx/core/readiness.hpp>
#include <rdmaxx/core/result.hpp>

#include "cm/time_until.hpp"

namespace RDMAXX_NAMESPACE::detail {

/// `attempt` gets an address and options with the remaining time; the last failure is returned.
template <class Options, class Attempt>
auto with_address_fallback(std::span<const socket_address> addresses, library_clock::time_point end,
                           Options options, std::chrono::milliseconds Options::* timeout,
                           Attempt attempt) -> decltype(attempt(socket_address(), options)) {
  auto outcome = attempt(addresses.front(), options);
  for (std::size_t next = 1; next < addresses.size() && !outcome; ++next) {
    options.*timeout = time_until(end);
    if ((options.*timeout).count() == 0) break;
    outcome = attempt(addresses[next], options);
  }
  return outcome;
}

/// The same for a name; the lookup counts towards the timeout.
template <class Options, class Attempt>
auto with_address_fallback(std::string_view peer, const Options& options,
                           std::chrono::milliseconds Options::* timeout, Attempt attempt)
    -> decltype(attempt(socket_address(), options)) {
  const auto end = deadline_after(options.*timeout);
  RDMAXX_TRY(const auto addresses, socket_address::lookup(peer, options.*timeout));
  auto rest = options;
  rest.*timeout = time_until(end);
  return with_address_fallback(addresses, end, rest, timeout, attempt);
}

}  // namespace RDMAXX_NAMESPACE::detail
