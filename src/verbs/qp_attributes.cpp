#include <rdmaxx/verbs/qp_attributes.hpp>

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace RDMAXX_NAMESPACE {

namespace {

ibv_qp_cap native_capabilities(const qp_capabilities& capabilities) noexcept {
  return {.max_send_wr = capabilities.max_send_wr,
          .max_recv_wr = capabilities.max_recv_wr,
          .max_send_sge = capabilities.max_send_sge,
          .max_recv_sge = capabilities.max_recv_sge,
          .max_inline_data = capabilities.max_inline};
}

/// One line per attribute, so that mask(), native(), from_native() and describe() cannot disagree.
///
/// Calls visit(bit, optional member, "name", member of ibv_qp_attr by reference, to native, from
/// native).
template <class Attributes, class Native, class Visit>
void for_each_attribute(Attributes& a, Native& n, Visit visit) {
  const auto plain = [](auto value) { return value; };
  const auto strong = [](auto value) { return value.value(); };
  const auto state_in = [](qp_state state) { return static_cast<ibv_qp_state>(state); };
  const auto state_out = [](ibv_qp_state state) { return qp_state(state); };
  visit(qp_attribute::state, a.state, "state", n.qp_state, state_in, state_out);
  visit(qp_attribute::current_state, a.current_state, "current_state", n.cur_qp_state, state_in,
        state_out);
  visit(
      qp_attribute::sqd_async_notify, a.sqd_async_notify, "sqd_async_notify", n.en_sqd_async_notify,
      [](bool on) { return static_cast<std::uint8_t>(on); },
      [](std::uint8_t on) { return on != 0; });
  visit(
      qp_attribute::access, a.access, "access", n.qp_access_flags,
      [](access_flags set) { return set.bits(); },
      [](unsigned bits) { return access_flags::from_bits(bits); });
  visit(qp_attribute::pkey_index, a.pkey_index, "pkey_index", n.pkey_index, plain, plain);
  visit(qp_attribute::port, a.port, "port", n.port_num, plain, plain);
  visit(qp_attribute::queue_key, a.queue_key, "queue_key", n.qkey, strong,
        [](std::uint32_t key) { return qkey(key); });
  visit(
      qp_attribute::path, a.path, "path", n.ah_attr,
      [](const address_vector& way) { return way.native(); },
      [](const ibv_ah_attr& way) { return address_vector::from_native(way); });
  visit(
      qp_attribute::path_mtu, a.path_mtu, "path_mtu", n.path_mtu,
      [](mtu size) { return static_cast<ibv_mtu>(size); }, [](ibv_mtu size) { return mtu(size); });
  visit(
      qp_attribute::ack_timeout, a.ack_timeout, "ack_timeout", n.timeout,
      [](ack_timeout timeout) { return timeout.exponent(); },
      [](std::uint8_t exponent) { return ack_timeout::from_exponent(exponent); });
  visit(qp_attribute::retry_count, a.retry_count, "retry_count", n.retry_cnt, plain, plain);
  visit(qp_attribute::rnr_retry, a.rnr_retry, "rnr_retry", n.rnr_retry, plain, plain);
  visit(qp_attribute::rq_psn, a.rq_psn, "rq_psn", n.rq_psn, strong,
        [](std::uint32_t number) { return psn(number); });
  visit(qp_attribute::max_rd_atomic, a.max_rd_atomic, "max_rd_atomic", n.max_rd_atomic, plain,
        plain);
  visit(
      qp_attribute::min_rnr_timer, a.min_rnr_timer, "min_rnr_timer", n.min_rnr_timer,
      [](rnr_timer timer) { return timer.code(); },
      [](std::uint8_t code) { return rnr_timer::from_code(code); });
  visit(qp_attribute::sq_psn, a.sq_psn, "sq_psn", n.sq_psn, strong,
        [](std::uint32_t number) { return psn(number); });
  visit(qp_attribute::max_dest_rd_atomic, a.max_dest_rd_atomic, "max_dest_rd_atomic",
        n.max_dest_rd_atomic, plain, plain);
  visit(
      qp_attribute::path_migration, a.path_migration, "path_migration", n.path_mig_state,
      [](migration_state state) { return static_cast<ibv_mig_state>(state); },
      [](ibv_mig_state state) { return migration_state(state); });
  visit(qp_attribute::capabilities, a.capabilities, "capabilities", n.cap, native_capabilities,
        [](const ibv_qp_cap& cap) {
          return qp_capabilities{.max_send_wr = cap.max_send_wr,
                                 .max_recv_wr = cap.max_recv_wr,
                                 .max_send_sge = cap.max_send_sge,
                                 .max_recv_sge = cap.max_recv_sge,
                                 .max_inline = cap.max_inline_data};
        });
  visit(qp_attribute::destination, a.destination, "destination", n.dest_qp_num, strong,
        [](std::uint32_t number) { return qpn(number); });
  visit(qp_attribute::rate_limit, a.rate_limit_kbps, "rate_limit_kbps", n.rate_limit, plain, plain);
}

template <class T>
std::string value_text(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{}", value);
  } else {
    return std::string(describe(value));
  }
}

using mask = qp_attribute_mask;
using enum qp_attribute;

/// The table of IBTA volume 1, 11.2.5.2, for connected and datagram queue pairs.
qp_transition connected_transition(bool reliable, qp_state from, qp_state to) noexcept {
  const auto if_reliable = [&](mask set) { return reliable ? set : mask{}; };
  const mask running = mask{current_state, access, alternate_path, path_migration, rate_limit} |
                       if_reliable(min_rnr_timer);
  using enum qp_state;
  if (from == reset && to == init) return {true, {pkey_index, port, qp_attribute::access}, {}};
  if (from == init && to == init) return {true, {}, {pkey_index, port, qp_attribute::access}};
  if (from == init && to == rtr) {
    return {
        true,
        mask{path, path_mtu, destination, rq_psn} | if_reliable(max_dest_rd_atomic | min_rnr_timer),
        {alternate_path, qp_attribute::access, pkey_index}};
  }
  if (from == rtr && to == rts) {
    return {true, mask{sq_psn} | if_reliable({ack_timeout, retry_count, rnr_retry, max_rd_atomic}),
            running};
  }
  if ((from == rts || from == sqd) && to == rts) return {true, {}, running};
  if (from == rts && to == sqd) return {true, {}, sqd_async_notify};
  if (from == sqd && to == sqd) {
    return {true,
            {},
            mask{path, alternate_path, qp_attribute::access, pkey_index, path_migration} |
                if_reliable({port, ack_timeout, retry_count, rnr_retry, max_rd_atomic,
                             max_dest_rd_atomic, min_rnr_timer})};
  }
  if (from == sqe && to == rts && !reliable)
    return {true, {}, {current_state, qp_attribute::access}};
  return {};
}

qp_transition datagram_transition(qp_state from, qp_state to) noexcept {
  using enum qp_state;
  if (from == reset && to == init) return {true, {pkey_index, port, queue_key}, {}};
  if (from == init && to == init) return {true, {}, {pkey_index, port, queue_key}};
  if (from == init && to == rtr) return {true, {}, {pkey_index, queue_key}};
  if (from == rtr && to == rts) return {true, sq_psn, {current_state, queue_key, rate_limit}};
  if ((from == rts || from == sqd || from == sqe) && to == rts)
    return {true, {}, {current_state, queue_key, rate_limit}};
  if (from == rts && to == sqd) return {true, {}, sqd_async_notify};
  if (from == sqd && to == sqd) return {true, {}, {pkey_index, queue_key}};
  return {};
}

}  // namespace

std::string_view describe(qp_type type) noexcept {
  switch (type) {
    case qp_type::rc:
      return "rc";
    case qp_type::uc:
      return "uc";
    case qp_type::ud:
      return "ud";
    case qp_type::raw_packet:
      return "raw_packet";
    case qp_type::xrc_send:
      return "xrc_send";
    case qp_type::xrc_recv:
      return "xrc_recv";
    case qp_type::driver:
      return "driver";
  }
  return "unknown";
}

std::string_view describe(qp_state state) noexcept {
  switch (state) {
    case qp_state::reset:
      return "reset";
    case qp_state::init:
      return "init";
    case qp_state::rtr:
      return "rtr";
    case qp_state::rts:
      return "rts";
    case qp_state::sqd:
      return "sqd";
    case qp_state::sqe:
      return "sqe";
    case qp_state::error:
      return "error";
    case qp_state::unknown:
      break;
  }
  return "unknown";
}

std::string_view describe(migration_state state) noexcept {
  switch (state) {
    case migration_state::migrated:
      return "migrated";
    case migration_state::rearm:
      return "rearm";
    case migration_state::armed:
      return "armed";
  }
  return "unknown";
}

std::string_view describe(qp_attribute attribute) noexcept {
  switch (attribute) {
    case qp_attribute::state:
      return "state";
    case qp_attribute::current_state:
      return "current_state";
    case qp_attribute::sqd_async_notify:
      return "sqd_async_notify";
    case qp_attribute::access:
      return "access";
    case qp_attribute::pkey_index:
      return "pkey_index";
    case qp_attribute::port:
      return "port";
    case qp_attribute::queue_key:
      return "queue_key";
    case qp_attribute::path:
      return "path";
    case qp_attribute::path_mtu:
      return "path_mtu";
    case qp_attribute::ack_timeout:
      return "ack_timeout";
    case qp_attribute::retry_count:
      return "retry_count";
    case qp_attribute::rnr_retry:
      return "rnr_retry";
    case qp_attribute::rq_psn:
      return "rq_psn";
    case qp_attribute::max_rd_atomic:
      return "max_rd_atomic";
    case qp_attribute::alternate_path:
      return "alternate_path";
    case qp_attribute::min_rnr_timer:
      return "min_rnr_timer";
    case qp_attribute::sq_psn:
      return "sq_psn";
    case qp_attribute::max_dest_rd_atomic:
      return "max_dest_rd_atomic";
    case qp_attribute::path_migration:
      return "path_migration";
    case qp_attribute::capabilities:
      return "capabilities";
    case qp_attribute::destination:
      return "destination";
    case qp_attribute::rate_limit:
      return "rate_limit";
  }
  return "unknown";
}

std::string describe(const qp_capabilities& capabilities) {
  return fmt::format("max_send_wr {} max_recv_wr {} max_send_sge {} max_recv_sge {} max_inline {}",
                     capabilities.max_send_wr, capabilities.max_recv_wr, capabilities.max_send_sge,
                     capabilities.max_recv_sge, capabilities.max_inline);
}

std::string describe(const rdmaxx::alternate_path& path) {
  return fmt::format("{} pkey_index {} ack_timeout {}", describe(path.path), path.pkey_index,
                     describe(path.ack_timeout));
}

qp_attribute_mask qp_attributes::mask() const noexcept {
  qp_attribute_mask set;
  ibv_qp_attr unused{};
  for_each_attribute(*this, unused, [&](qp_attribute bit, const auto& member, auto&&...) {
    if (member) set |= bit;
  });
  if (alternate_path) set |= qp_attribute::alternate_path;
  return set;
}

ibv_qp_attr qp_attributes::native() const noexcept {
  ibv_qp_attr native{};
  for_each_attribute(
      *this, native,
      [](qp_attribute, const auto& member, const char*, auto& field, auto to_native, auto) {
        if (member) field = to_native(*member);
      });
  if (alternate_path) {
    native.alt_ah_attr = alternate_path->path.native();
    native.alt_port_num = alternate_path->path.port;
    native.alt_pkey_index = alternate_path->pkey_index;
    native.alt_timeout = alternate_path->ack_timeout.exponent();
  }
  return native;
}

qp_attributes qp_attributes::from_native(const ibv_qp_attr& native, qp_attribute_mask mask) {
  qp_attributes attributes;
  for_each_attribute(
      attributes, native,
      [&](qp_attribute bit, auto& member, const char*, const auto& field, auto, auto from_native) {
        if (mask.has(bit)) member = from_native(field);
      });
  if (mask.has(qp_attribute::alternate_path)) {
    attributes.alternate_path = {.path = address_vector::from_native(native.alt_ah_attr),
                                 .pkey_index = native.alt_pkey_index,
                                 .ack_timeout = ack_timeout::from_exponent(native.alt_timeout)};
  }
  return attributes;
}

std::string describe(const qp_attributes& attributes) {
  std::vector<std::string> parts;
  ibv_qp_attr unused{};
  for_each_attribute(attributes, unused,
                     [&](qp_attribute, const auto& member, const char* name, auto&&...) {
                       if (member) parts.push_back(fmt::format("{}={}", name, value_text(*member)));
                     });
  if (attributes.alternate_path)
    parts.push_back(fmt::format("alternate_path={}", describe(*attributes.alternate_path)));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, " "));
}

std::string describe(const qp_transition& rule) {
  if (!rule.legal) return "illegal";
  return fmt::format("required {}, optional {}", describe(rule.required), describe(rule.optional));
}

qp_transition transition(qp_type type, qp_state from, qp_state to) noexcept {
  qp_transition rule;
  if (to == qp_state::reset || to == qp_state::error) {
    rule.legal = true;
  } else if (type == qp_type::ud) {
    rule = datagram_transition(from, to);
  } else if (type == qp_type::rc || type == qp_type::uc) {
    rule = connected_transition(type == qp_type::rc, from, to);
  }
  return rule;
}

std::string explain_transition(qp_type type, qp_state from, qp_state to, qp_attribute_mask given) {
  const auto rule = transition(type, from, to);
  if (!rule.legal) {
    return fmt::format("a {} queue pair does not go from {} to {}", describe(type), describe(from),
                       describe(to));
  }
  const auto missing = rule.required - given;
  const auto excess =
      given - rule.required - rule.optional - qp_attribute_mask(qp_attribute::state);
  if (missing.empty() && excess.empty()) return {};
  std::string text = fmt::format("{} from {} to {}", describe(type), describe(from), describe(to));
  if (!missing.empty()) text += fmt::format(" lacks {}", describe(missing));
  if (!excess.empty())
    text += fmt::format("{} must not have {}", missing.empty() ? "" : " and", describe(excess));
  return text;
}

}  // namespace RDMAXX_NAMESPACE
