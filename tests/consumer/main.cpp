// Calls into the library, on a machine that may have no RDMA device.
#include <cstdio>
#include <string>

#include <rdmaxx/rdmaxx.hpp>

int main() {
  auto opened = rdmaxx::open_device("no such device");
  if (opened) return 1;
  const std::string message = opened.error().message();
  std::printf("%s\n", message.c_str());
  return message.empty() ? 1 : 0;
}
