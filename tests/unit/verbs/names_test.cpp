// Every public enum of this layer: each enumerator has a name of its own.

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include <rdmaxx/verbs/access.hpp>
#include <rdmaxx/verbs/async_event.hpp>
#include <rdmaxx/verbs/completion_queue.hpp>
#include <rdmaxx/verbs/device.hpp>
#include <rdmaxx/verbs/device_attributes.hpp>
#include <rdmaxx/verbs/gid.hpp>
#include <rdmaxx/verbs/port_attributes.hpp>
#include <rdmaxx/verbs/qp_attributes.hpp>
#include <rdmaxx/verbs/work_completion.hpp>
#include <rdmaxx/verbs/work_request.hpp>

#include "unit/core/expect_names.hpp"

using namespace rdmaxx;

TEST(names, of_access) {
  using enum rdmaxx::access;  // bare, the name is also that of access(2)
  expect_names({local_write, remote_write, remote_read, remote_atomic, mw_bind, zero_based,
                on_demand, huge_pages, relaxed_ordering},
               rdmaxx::access(1U << 30));
}

TEST(names, of_async_event_type) {
  using enum async_event_type;
  expect_names({cq_error,
                qp_fatal,
                qp_request_error,
                qp_access_error,
                communication_established,
                send_queue_drained,
                path_migrated,
                path_migration_error,
                device_fatal,
                port_active,
                port_error,
                lid_change,
                pkey_change,
                sm_change,
                srq_error,
                srq_limit_reached,
                qp_last_wqe_reached,
                client_reregister,
                gid_change,
                wq_fatal},
               async_event_type(200));
}

TEST(names, of_notify) { expect_names({notify::any, notify::solicited}, notify(200)); }

TEST(names, of_node_type) {
  using enum node_type;
  expect_names({channel_adapter, network_switch, router, rnic, usnic, usnic_udp, unspecified},
               node_type(100));
  EXPECT_EQ(describe(node_type::unknown), "unknown");
}

TEST(names, of_transport_type) {
  using enum transport_type;
  expect_names({infiniband, iwarp, usnic, usnic_udp, unspecified}, transport_type(100));
  EXPECT_EQ(describe(transport_type::unknown), "unknown");
}

TEST(names, of_device_capability) {
  using enum device_capability;
  expect_names({resize_max_wr,
                bad_pkey_counter,
                bad_qkey_counter,
                raw_multicast,
                auto_path_migration,
                change_physical_port,
                ud_av_port_enforce,
                current_qp_state_modify,
                shutdown_port,
                init_type,
                port_active_event,
                system_image_guid,
                rc_rnr_nak,
                srq_resize,
                n_notify_cq,
                memory_window,
                ud_ip_checksum,
                xrc,
                memory_management_extensions,
                memory_window_type_2a,
                memory_window_type_2b,
                rc_ip_checksum,
                raw_ip_checksum,
                managed_flow_steering,
                raw_scatter_fcs,
                pci_write_end_padding},
               device_capability(std::uint64_t{1} << 63));
}

TEST(names, of_atomic_capability) {
  using enum atomic_capability;
  expect_names({none, device, global}, atomic_capability(200));
}

TEST(names, of_gid_type) {
  using enum gid_type;
  expect_names({infiniband, roce_v1, roce_v2, iwarp}, gid_type(200));
}

TEST(names, of_port_state) {
  using enum port_state;
  expect_names({nop, down, init, armed, active, active_defer}, port_state(200));
}

TEST(names, of_link_layer) {
  using enum link_layer;
  expect_names({unspecified, infiniband, ethernet}, link_layer(200));
}

TEST(names, of_mtu) {
  using enum mtu;
  expect_names({mtu_256, mtu_512, mtu_1024, mtu_2048, mtu_4096}, mtu(0));
  for (const auto size : {mtu_256, mtu_512, mtu_1024, mtu_2048, mtu_4096}) {
    EXPECT_EQ(describe(size), std::to_string(bytes_of(size)));
  }
}

TEST(names, of_qp_type) {
  using enum qp_type;
  expect_names({rc, uc, ud, raw_packet, xrc_send, xrc_recv, driver}, qp_type(200));
}

TEST(names, of_qp_state) {
  using enum qp_state;
  expect_names({reset, init, rtr, rts, sqd, sqe, error}, qp_state(200));
  EXPECT_EQ(describe(qp_state::unknown), "unknown");
}

TEST(names, of_migration_state) {
  using enum migration_state;
  expect_names({migrated, rearm, armed}, migration_state(200));
}

TEST(names, of_qp_attribute) {
  using enum qp_attribute;
  expect_names({state,          current_state, sqd_async_notify,
                access,         pkey_index,    port,
                queue_key,      path,          path_mtu,
                ack_timeout,    retry_count,   rnr_retry,
                rq_psn,         max_rd_atomic, alternate_path,
                min_rnr_timer,  sq_psn,        max_dest_rd_atomic,
                path_migration, capabilities,  destination,
                rate_limit},
               qp_attribute(1U << 21));
}

TEST(names, of_wc_status) {
  using enum wc_status;
  expect_names({success,
                local_length_error,
                local_qp_operation_error,
                local_eec_operation_error,
                local_protection_error,
                flushed,
                memory_window_bind_error,
                bad_response,
                local_access_error,
                remote_invalid_request,
                remote_access_error,
                remote_operation_error,
                retry_exceeded,
                rnr_retry_exceeded,
                local_rdd_violation,
                remote_invalid_rd_request,
                remote_aborted,
                invalid_eec_number,
                invalid_eec_state,
                fatal,
                response_timeout,
                general_error,
                tag_matching_error,
                tag_matching_rendezvous_incomplete},
               wc_status(200));
}

TEST(names, of_wc_opcode) {
  using enum wc_opcode;
  expect_names(
      {send, rdma_write, rdma_read, compare_and_swap, fetch_and_add, bind_mw, local_invalidate, tso,
       atomic_write, recv, recv_rdma_with_imm, tag_matching_add, tag_matching_delete,
       tag_matching_sync, tag_matching_recv, tag_matching_no_tag, driver1, driver2, driver3},
      wc_opcode(100));
}

TEST(names, of_wc_flag) {
  using enum wc_flag;
  expect_names({grh, with_imm, ip_checksum_ok, with_invalidate, tag_matching_sync_request,
                tag_matching_match, tag_matching_data_valid},
               wc_flag(1U << 30));
}

TEST(names, of_send_flag) {
  using enum send_flag;
  expect_names({fence, signaled, solicited, inline_data, ip_checksum, inline_if_fits},
               send_flag(1U << 30));
}
