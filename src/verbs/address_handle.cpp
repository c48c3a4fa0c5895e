#include <rdmaxx/verbs/address_handle.hpp>

#include <cerrno>

#include <fmt/format.h>

#include <rdmaxx/core/check.hpp>
#include <rdmaxx/verbs/protection_domain.hpp>
#include <rdmaxx/verbs/work_completion.hpp>

namespace RDMAXX_NAMESPACE {

namespace {

class address_handle_block final : public detail::native_resource<ibv_ah> {
 public:
  explicit address_handle_block(protection_domain pd)
      : native_resource(ibv_destroy_ah, "ibv_destroy_ah"), parent_(std::move(pd)) {}

 private:
  [[nodiscard]] std::string name() const override {
    return "address_handle on " + std::string(parent_.context().device_name());
  }

  const protection_domain parent_;
};

template <class Create>
result<address_handle> make_handle(const protection_domain& pd, std::string_view call,
                                   std::string hint, Create create) {
  auto* const block = new address_handle_block(pd);
  detail::reference reference(block);
  block->native = create();
  if (block->native == nullptr) return errno_error(call, errno, {}, std::move(hint));
  return detail::handle_access::make<address_handle>(block->native, std::move(reference));
}

}  // namespace

ibv_ah_attr address_vector::native() const noexcept {
  ibv_ah_attr native{};
  native.is_global = global ? 1 : 0;
  if (global) {
    native.grh = {.dgid = destination.native(),
                  .flow_label = flow_label,
                  .sgid_index = source_gid_index,
                  .hop_limit = hop_limit,
                  .traffic_class = traffic_class};
  }
  native.dlid = destination_lid.value();
  native.sl = service_level;
  native.src_path_bits = source_path_bits;
  native.static_rate = static_rate;
  native.port_num = port;
  return native;
}

address_vector address_vector::from_native(const ibv_ah_attr& native) noexcept {
  return {.port = native.port_num,
          .global = native.is_global != 0,
          .destination = gid(native.grh.dgid),
          .source_gid_index = native.grh.sgid_index,
          .destination_lid = lid(native.dlid),
          .service_level = native.sl,
          .traffic_class = native.grh.traffic_class,
          .hop_limit = native.grh.hop_limit,
          .flow_label = native.grh.flow_label,
          .source_path_bits = native.src_path_bits,
          .static_rate = native.static_rate};
}

result<address_handle> protection_domain::create_ah(const address_vector& destination) const {
  auto native_vector = destination.native();
  return make_handle(*this, "ibv_create_ah",
                     fmt::format("check port, GID index and that {} is reachable",
                                 describe(destination.destination)),
                     [&] { return ibv_create_ah(live(), &native_vector); });
}

result<address_handle> protection_domain::create_ah(const work_completion& received,
                                                    std::span<const std::byte> grh,
                                                    std::uint8_t port) const {
  if (grh.size() < sizeof(ibv_grh)) {
    return misuse_error("create_ah", fmt::format("{} bytes are too few for a GRH", grh.size()),
                        "pass the first 40 bytes of the receive buffer");
  }
  // The C call takes non-const pointers but only reads them.
  auto* const completion = const_cast<ibv_wc*>(&received.native());
  ibv_grh header{};
  std::memcpy(&header, grh.data(), sizeof header);
  return make_handle(*this, "ibv_create_ah_from_wc",
                     "the completion must be that of a UD receive with its GRH",
                     [&] { return ibv_create_ah_from_wc(live(), completion, &header, port); });
}

std::string describe(const address_vector& way) {
  if (!way.global)
    return fmt::format("port {} lid {:#x} sl {}", way.port, way.destination_lid.value(),
                       way.service_level);
  return fmt::format("port {} gid {} to {} sl {} tc {} hop_limit {}", way.port,
                     way.source_gid_index, describe(way.destination), way.service_level,
                     way.traffic_class, way.hop_limit);
}

std::string describe(const address_handle& ah) {
  if (!ah) return "address_handle (empty)";
  return fmt::format("address_handle {}", ah.native()->handle);
}

}  // namespace RDMAXX_NAMESPACE
