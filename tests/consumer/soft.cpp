// Finds the soft device of the loopback, which every machine has.
#include <cstdio>

#include <softverbs/softverbs.h>

#include <rdmaxx/rdmaxx.hpp>

int main() {
  const auto opened = rdmaxx::open_device("soft0");
  std::printf("softverbs %s: %s\n", softverbs_version(),
              opened ? "soft0 is there" : opened.error().message().c_str());
  return opened ? 0 : 1;
}
