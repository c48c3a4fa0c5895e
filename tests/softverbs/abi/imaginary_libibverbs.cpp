#include "imaginary_libibverbs.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr

namespace imaginary {

state& now() {
  static state only;
  return only;
}

namespace {

/// What the real library keeps behind a device, and looks at without asking.
struct device {
  ibv_device base{};
  int secret = 42;
};

device* devices() {
  static std::array<device, 2> all = [] {
    std::array<device, 2> made{};
    std::strcpy(&made[0].base.name[0], "imaginary0");  // NOLINT(*-strcpy)
    std::strcpy(&made[1].base.name[0], "imaginary1");  // NOLINT(*-strcpy)
    return made;
  }();
  return all.data();
}

ibv_context context;
ibv_pd pd;
ibv_mr mr;

}  // namespace

}  // namespace imaginary

using namespace imaginary;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  if (now().error != 0) {
    errno = now().error;
    return nullptr;
  }
  const auto size = static_cast<std::size_t>(now().device_count);
  auto** const list = static_cast<ibv_device**>(std::calloc(size + 1, sizeof(ibv_device*)));
  for (std::size_t i = 0; i < size; ++i) list[i] = &devices()[i].base;
  if (count != nullptr) *count = now().device_count;
  ++now().lists_out;
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  --now().lists_out;
  std::free(static_cast<void*>(list));
}

// As the real one does, it looks through its own list, and behind every device of it.
ibv_context* ibv_import_device(int /*file*/) {
  auto** const list = ibv_get_device_list(nullptr);
  bool all_ours = true;
  for (auto** one = list; *one != nullptr; ++one) {
    all_ours = all_ours && (*one == &devices()[0].base || *one == &devices()[1].base);
  }
  ibv_free_device_list(list);
  context.device = &devices()[0].base;
  return all_ours ? &context : nullptr;
}

__be64 ibv_get_device_guid(ibv_device* /*device*/) { return 7; }

ibv_context* ibv_open_device(ibv_device* device) {
  now().calls.emplace_back("open");
  context.device = device;
  return &context;
}

int ibv_close_device(ibv_context* /*context*/) {
  now().calls.emplace_back("close");
  return 0;
}

int ibv_query_port(ibv_context* /*context*/, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  now().calls.push_back("query_port " + std::to_string(port));
  std::memset(attributes, 0xab, 48);
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* of) {
  now().calls.emplace_back("alloc_pd");
  pd.context = of;
  return &pd;
}

int ibv_dealloc_pd(ibv_pd* /*pd*/) {
  now().calls.emplace_back("dealloc_pd");
  return EBUSY;
}

ibv_mr* ibv_reg_mr(ibv_pd* of, void* /*address*/, std::size_t bytes, int access) {
  now().calls.push_back("reg_mr " + std::to_string(bytes) + ' ' + std::to_string(access));
  mr.context = of->context;
  return &mr;
}

int ibv_fork_init(void) {
  now().calls.emplace_back("fork_init");
  return ENOSYS;
}

int ibv_read_sysfs_file(const char* folder, const char* file, char* /*buffer*/,
                        std::size_t /*bytes*/) {
  now().calls.push_back(std::string("read ") + folder + '/' + file);
  return -1;
}

}  // extern "C"
