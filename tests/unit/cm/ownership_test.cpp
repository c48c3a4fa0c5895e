// Ownership, and so what may be copied: a compile-time test.

#include <type_traits>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

namespace {

template <class T>
concept movable_only =
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
    std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;

template <class T>
concept description =
    std::is_aggregate_v<T> && std::is_default_constructible_v<T> && std::is_copy_constructible_v<T>;

}  // namespace

static_assert(std::is_nothrow_default_constructible_v<event_channel> &&
              std::is_nothrow_copy_constructible_v<event_channel>);

static_assert(movable_only<cm_id> && std::is_nothrow_default_constructible_v<cm_id>);
static_assert(movable_only<cm::connection> && movable_only<cm::connection_request> &&
              movable_only<cm::listener>);

static_assert(movable_only<cm_event> && !std::is_default_constructible_v<cm_event>);

static_assert(description<connection_parameters> && description<cm_qp_config> &&
              description<cm_id_options> && description<cm::connect_options> &&
              description<cm::resolve_options> && description<cm::accept_options> &&
              description<cm::listen_options> && description<datagram_peer>);

// Everything has words, also as an argument of a stream.
static_assert(describable<cm_id> && describable<cm_event> && describable<event_channel> &&
              describable<cm::connection> && describable<cm::listener> &&
              describable<cm::connection_request> && describable<cm::datagram_destination> &&
              named<port_space> && named<reject_reason> && named<cm_event_type> &&
              named<multicast_membership>);
