// Half of a program that must not link: this half uses the library that counts.

#include <rdmaxx/core/error.hpp>

int counting_side();

int counting_side() { return rdmaxx::errno_error("ibv_open_device", 1).hint().empty() ? 0 : 1; }
