// Ownership, and so what may be copied: a compile-time test.

#include <concepts>
#include <type_traits>

#include <rdmaxx/rdmaxx.hpp>

using namespace rdmaxx;

namespace {

/// Inner nodes: cheap copies that share one object.
template <class T>
concept shared_node =
    std::is_nothrow_default_constructible_v<T> && std::is_nothrow_copy_constructible_v<T> &&
    std::is_nothrow_copy_assignable_v<T> && std::is_nothrow_move_constructible_v<T> &&
    std::is_nothrow_move_assignable_v<T> && std::equality_comparable<T>;

/// Leaves: one owner.
template <class T>
concept unique_leaf =
    std::is_nothrow_default_constructible_v<T> && !std::is_copy_constructible_v<T> &&
    !std::is_copy_assignable_v<T> && std::is_nothrow_move_constructible_v<T> &&
    std::is_nothrow_move_assignable_v<T>;

/// Events: one owner, who acknowledges; there is none without something that happened.
template <class T>
concept event = !std::is_default_constructible_v<T> && !std::is_copy_constructible_v<T> &&
                !std::is_copy_assignable_v<T> && std::is_nothrow_move_constructible_v<T> &&
                std::is_nothrow_move_assignable_v<T>;

/// What the data path hands around: it owns nothing.
template <class T>
concept plain = std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>;

/// Descriptions: every member has a default, so an empty one is made by writing {}.
template <class T>
concept description =
    std::is_aggregate_v<T> && std::is_default_constructible_v<T> && std::is_copy_constructible_v<T>;

}  // namespace

static_assert(shared_node<context> && shared_node<protection_domain>);
static_assert(shared_node<completion_channel> && shared_node<completion_queue>);
static_assert(std::is_nothrow_default_constructible_v<async_event_queue> &&
              std::is_copy_constructible_v<async_event_queue>);

static_assert(unique_leaf<queue_pair> && unique_leaf<memory_region> && unique_leaf<owned_region> &&
              unique_leaf<address_handle> && unique_leaf<cq_consumer>);

static_assert(event<cq_event> && event<async_event>);

static_assert(!std::is_default_constructible_v<device> && std::is_copy_constructible_v<device>);

static_assert(plain<work_completion> && plain<gather_element> && plain<scatter_element> &&
              plain<remote_address>);
static_assert(plain<send_slot> && plain<recv_slot> && plain<gid> && plain<qp_endpoint>);
static_assert(plain<send_wr> && plain<write_wr> && plain<read_wr> && plain<cas_wr> &&
              plain<faa_wr> && plain<recv_wr>);

static_assert(description<send_wr> && description<write_wr> && description<read_wr> &&
              description<cas_wr> && description<faa_wr> && description<recv_wr>);
static_assert(description<address_vector> && description<qp_attributes> &&
              description<qp_capabilities> && description<queue_pair_config> &&
              description<completion_queue_config> && description<qp_connect_options> &&
              description<endpoint_options> && description<owned_region_config> &&
              description<device_query> && description<adoption> && description<error_parts>);

// Handles of different things are not comparable, and none is a number or a bool by itself.
static_assert(!std::equality_comparable_with<context, protection_domain>);
static_assert(!std::is_convertible_v<queue_pair, bool> && !std::is_convertible_v<context, bool>);

// A handle is made by the library, not from a C pointer in passing.
static_assert(!std::is_constructible_v<context, ibv_context*> &&
              !std::is_constructible_v<queue_pair, ibv_qp*>);

// The tag must be written out: nothing converts to it.
static_assert(!std::is_convertible_v<int, unsafe_t> && !std::is_default_constructible_v<unsafe_t>);

// Handles hold the native pointer and the reference, and little else.
static_assert(sizeof(context) == 2 * sizeof(void*) && sizeof(queue_pair) <= 3 * sizeof(void*));

// Everything a person may have to read in a log can be printed.
template <class... T>
concept all_describable = (describable<T> && ...);

static_assert(all_describable<context, protection_domain, completion_channel, completion_queue,
                              queue_pair, memory_region, owned_region, address_handle, cq_event,
                              async_event, async_event_queue, device>);
static_assert(all_describable<error, gid, gid_entry, subnet, qp_endpoint, address_vector,
                              qp_attributes, qp_capabilities, alternate_path, port_attributes,
                              device_attributes, extended_device_attributes, on_demand_paging,
                              remote_address, gather_element, scatter_element, work_completion>);
static_assert(
    all_describable<send_wr, ud_send_wr, write_wr, read_wr, cas_wr, faa_wr, recv_wr, send_list,
                    recv_list, queue_pair_config, completion_queue_config, qp_connect_options,
                    endpoint_options, owned_region_config, device_query, device_choice>);
static_assert(all_describable<cq_consumer, queue_drain, shared_receive_queue>);
static_assert(all_describable<access_flags, send_flags, qp_attribute_mask, flags<device_capability>,
                              flags<wc_flag>>);
