#pragma once

// completion_source: where completions come from, so that drivers, scopes and coroutines are
// written once for ordinary completion queues, for extended ones and for rings that are read
// directly.
//
//   template <completion_source Source>
//   result<void> serve(const Source& source) {
//     RDMAXX_TRY(source.req_notify());                     // arm, *then* poll: nothing is missed
//     return source.poll_each(16, [](const auto& c) { use(c.id(), c.byte_len()); });
//   }
//
// An ordinary queue copies completions out; an extended one and a ring show them in place, one at a
// time. A visitor suits all of them: its argument is completion_like and valid until it returns.
//
// Exactly one consumer drains a source. The role is a cq_consumer (cq_consumer.hpp), which claims
// the source.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <rdmaxx/core/error.hpp>
#include <rdmaxx/core/identifiers.hpp>
#include <rdmaxx/core/result.hpp>
#include <rdmaxx/verbs/completion_channel.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

namespace RDMAXX_NAMESPACE {

/// Which completions raise an event.
enum class notify : std::uint8_t { any, solicited };
[[nodiscard]] std::string_view describe(notify kind) noexcept;

/// The report on a finished work request, wherever it is stored. On failure only id(), status(),
/// vendor_code(), queue_pair() and error() are meaningful.
template <class T>
concept completion_like = requires(const T& completion) {
  { completion.id() } -> std::same_as<wr_id>;
  { completion.status() } -> std::same_as<wc_status>;
  { completion.is_success() } -> std::same_as<bool>;
  { completion.opcode() } -> std::same_as<wc_opcode>;
  { completion.is_receive() } -> std::same_as<bool>;
  { completion.byte_len() } -> std::same_as<std::uint32_t>;
  { completion.imm_data() } -> std::same_as<std::optional<std::uint32_t>>;
  { completion.queue_pair() } -> std::same_as<qpn>;
  { completion.source_queue_pair() } -> std::same_as<qpn>;
  { completion.vendor_code() } -> std::same_as<std::uint32_t>;
  { completion.error() } -> std::same_as<error>;
};
static_assert(completion_like<work_completion>);

/// poll_each() shows at most that many completions and never waits; it returns how many there were.
/// req_notify() arms: the next completion raises one event on channel(), which is empty for a
/// source that is only polled. claim_consumer() is true for the first caller, until
/// release_consumer().
template <class T>
concept completion_source =
    completion_like<typename T::completion_type> &&
    requires(const T& source, std::size_t most, void (&visit)(const typename T::completion_type&),
             notify kind) {
      { source.poll_each(most, visit) } -> std::same_as<result<std::size_t>>;
      { source.req_notify(kind) } -> std::same_as<result<void>>;
      { source.channel() } -> std::convertible_to<const completion_channel&>;
      { source.claim_consumer() } noexcept -> std::same_as<bool>;
      { source.release_consumer() } noexcept;
    };

}  // namespace RDMAXX_NAMESPACE
