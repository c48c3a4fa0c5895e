#include <rdmaxx/core/error.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <rdmaxx/core/fork.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/core/text.hpp>

#include "core/fork_hint.hpp"
#include "core/variant_mark.hpp"

namespace RDMAXX_NAMESPACE {

struct error::detail {
  error_parts parts;
  mutable std::atomic<std::uint32_t> references{1};
};

namespace {

// Every program uses errors, so this links the variant mark.
[[gnu::used]] const char* const variant_mark = &rdmaxx_one_variant_per_program;

// What error objects refer to when there is no memory to describe a failure.
const error_parts out_of_memory{
    .operation = "allocating an error description",
    .code = std::make_error_code(std::errc::not_enough_memory),
    .category = error_category::resources,
};

struct errno_knowledge {
  int value;
  error_category category;
  std::string_view hint;
};

constexpr std::array known_errnos{
    errno_knowledge{EAGAIN, error_category::retryable,
                    "nothing is available yet, or a limit was reached for the moment: try again"},
    errno_knowledge{EINTR, error_category::retryable, "a signal interrupted the call: try again"},
    errno_knowledge{ETIMEDOUT, error_category::retryable,
                    "no answer in time: check that the peer is reachable, or wait longer"},
    errno_knowledge{
        ENOMEM, error_category::resources,
        "out of memory or over a device limit; if memory is being registered, check `ulimit -l`"},
    errno_knowledge{EMFILE, error_category::resources, "too many open files: raise `ulimit -n`"},
    errno_knowledge{ENFILE, error_category::resources, "the system has too many open files"},
    errno_knowledge{ENOSPC, error_category::resources,
                    "the device has no more objects of this kind"},
    errno_knowledge{EBUSY, error_category::resources, "something still refers to the object"},
    errno_knowledge{EINVAL, error_category::misuse,
                    "an argument is not valid for this device or this state"},
    errno_knowledge{EFAULT, error_category::misuse,
                    "the memory is not mapped, or not with the access that was asked for"},
    errno_knowledge{EPERM, error_category::misuse, "not permitted for this user or this object"},
    errno_knowledge{
        EACCES, error_category::misuse,
        "no permission: check the access of /dev/infiniband/* and of the memory's mapping"},
    errno_knowledge{ENODEV, error_category::gone, "the device does not exist, or no longer exists"},
    errno_knowledge{ENXIO, error_category::gone, "the device does not exist, or no longer exists"},
    errno_knowledge{EIO, error_category::gone, "the device failed or was removed"},
    errno_knowledge{EBADF, error_category::gone, "the descriptor was closed"},
    errno_knowledge{ENOTCONN, error_category::gone,
                    "the connection does not exist, or no longer exists"},
    errno_knowledge{ECONNABORTED, error_category::gone,
                    "this side ended the connection: open a new one"},
    errno_knowledge{EPIPE, error_category::gone, "the peer no longer reads what is written here"},
    errno_knowledge{
        ENODATA, error_category::peer,
        "the peer ended the stream earlier than expected: there is nothing more to read"},
    errno_knowledge{EADDRINUSE, error_category::resources,
                    "another program uses that address and port: use another port"},
    errno_knowledge{EADDRNOTAVAIL, error_category::misuse, "this host does not have that address"},
    errno_knowledge{EISCONN, error_category::misuse,
                    "it is already connected: disconnect first, or use another one"},
    errno_knowledge{ECONNRESET, error_category::peer, "the peer ended the connection"},
    errno_knowledge{ECONNREFUSED, error_category::peer, "nothing listens there"},
    errno_knowledge{EHOSTUNREACH, error_category::peer, "there is no route to that address"},
    errno_knowledge{ENETUNREACH, error_category::peer, "there is no route to that network"},
    errno_knowledge{EOPNOTSUPP, error_category::unsupported,
                    "this device or kernel does not support it"},
    errno_knowledge{ENOSYS, error_category::unsupported,
                    "this device or kernel does not support it"},
    errno_knowledge{EPROTONOSUPPORT, error_category::unsupported,
                    "this device or kernel does not support it"},
};

const errno_knowledge* find_errno(std::error_code code) noexcept {
  if (code.category() != std::generic_category() && code.category() != std::system_category())
    return nullptr;
  for (const auto& known : known_errnos) {
    if (known.value == code.value()) return &known;
  }
  return nullptr;
}

}  // namespace

std::string_view describe(error_category category) noexcept {
  switch (category) {
    case error_category::retryable:
      return "retryable";
    case error_category::peer:
      return "peer";
    case error_category::misuse:
      return "misuse";
    case error_category::resources:
      return "resources";
    case error_category::gone:
      return "gone";
    case error_category::unsupported:
      return "unsupported";
    case error_category::unknown:
      break;
  }
  return "unknown";
}

std::string describe(const completion_origin& origin) {
  return fmt::format("queue pair {:#x}, request {}, vendor code {:#x}", origin.queue_pair.value(),
                     origin.request.value(), origin.vendor_code);
}

error::error(error_parts parts) noexcept
    : detail_(new(std::nothrow) detail{.parts = std::move(parts)}) {}

error::error(const error& other) noexcept : detail_(other.detail_) {
  if (detail_ != nullptr) detail_->references.fetch_add(1, std::memory_order_relaxed);
}

error& error::operator=(const error& other) noexcept {
  error copy(other);
  std::swap(detail_, copy.detail_);
  return *this;
}

void error::release(const detail* shared) noexcept {
  if (shared->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
}

// A null detail means that its allocation failed (or that the error was moved from).
#define RDMAXX_ERROR_PART(member) \
  (detail_ != nullptr ? detail_->parts.member : out_of_memory.member)

std::string_view error::operation() const noexcept { return RDMAXX_ERROR_PART(operation); }
std::error_code error::code() const noexcept { return RDMAXX_ERROR_PART(code); }
error_category error::category() const noexcept { return RDMAXX_ERROR_PART(category); }
std::string_view error::problem() const noexcept { return RDMAXX_ERROR_PART(problem); }
std::string_view error::hint() const noexcept { return RDMAXX_ERROR_PART(hint); }
std::optional<completion_origin> error::completion() const noexcept {
  return RDMAXX_ERROR_PART(completion);
}
std::optional<std::size_t> error::first_not_posted() const noexcept {
  return RDMAXX_ERROR_PART(first_not_posted);
}
std::span<const std::byte> error::peer_data() const noexcept {
  return RDMAXX_ERROR_PART(peer_data);
}

#undef RDMAXX_ERROR_PART

std::string error::message() const {
  std::string text = fmt::format("{} failed: {}", operation(), code().message());
  if (code().category() == std::generic_category() || code().category() == std::system_category()) {
    text += fmt::format(" [errno {}]", code().value());
  }
  if (!problem().empty()) text += fmt::format(": {}", problem());
  if (const auto origin = completion()) {
    text += fmt::format(" ({})", describe(*origin));
  }
  if (const auto position = first_not_posted())
    text += fmt::format(" (first request not posted: {})", *position);
  if (!hint().empty()) text += fmt::format(" [hint: {}]", hint());
  return text;
}

error error::within(std::string_view action) const {
  error_parts parts = detail_ != nullptr ? detail_->parts : out_of_memory;
  parts.operation = fmt::format("{}: {}", action, parts.operation);
  return error(std::move(parts));
}

error error::as(error_category category) const {
  error_parts parts = detail_ != nullptr ? detail_->parts : out_of_memory;
  parts.category = category;
  return error(std::move(parts));
}

std::string describe(const error& failure) { return failure.message(); }

exception::exception(rdmaxx::error failure)
    : std::system_error(failure.code()), error_(std::move(failure)), message_(error_.message()) {}

const char* exception::what() const noexcept { return message_.c_str(); }

error_category category_of(std::error_code code) noexcept {
  const auto* known = find_errno(code);
  return known != nullptr ? known->category : error_category::unknown;
}

error errno_error(std::string_view operation, int errno_value, std::string problem,
                  std::string hint) {
  const std::error_code code(errno_value, std::generic_category());
  const auto* known = find_errno(code);
  if (hint.empty() && known != nullptr) hint = known->hint;
  // Devices also report ENODEV for objects of the parent.
  if (errno_value == ENODEV && detail::fork_generation() != 0 && hint != detail::fork_hint)
    hint += fmt::format("; this process was forked: {}", detail::fork_hint);
  return error({
      .operation = std::string(operation),
      .code = code,
      .category = known != nullptr ? known->category : error_category::unknown,
      .problem = std::move(problem),
      .hint = std::move(hint),
  });
}

error misuse_error(std::string_view operation, std::string problem, std::string hint) {
  return error({
      .operation = std::string(operation),
      .code = std::make_error_code(std::errc::invalid_argument),
      .category = error_category::misuse,
      .problem = std::move(problem),
      .hint = std::move(hint),
  });
}

error timed_out_error(std::string_view operation, std::chrono::milliseconds waited,
                      std::string_view awaited, std::string hint) {
  const auto problem =
      fmt::format("timed out after {} waiting for {}", duration_text(waited), awaited);
  return errno_error(operation, ETIMEDOUT, problem, std::move(hint));
}

void detail::throw_error(const error& failure) { throw exception(failure); }

}  // namespace RDMAXX_NAMESPACE
