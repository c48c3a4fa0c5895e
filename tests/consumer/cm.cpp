// Calls into the connection manager's layer, on a machine that may have no RDMA device.
#include <cstdio>
#include <string>

#include <rdmaxx/cm/connect.hpp>

int main() {
  const auto connected = rdmaxx::cm::connect("[no address");
  if (connected) return 1;
  const std::string message = connected.error().message();
  std::printf("%s\n", message.c_str());
  return message.empty() ? 1 : 0;
}
