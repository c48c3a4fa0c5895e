// Half of a program that must not link: this half uses the plain library.

#include <rdmaxx/core/error.hpp>

int counting_side();

int main() {
  return rdmaxx::errno_error("ibv_open_device", 1).hint().empty() ? counting_side() : 1;
}
