// What every program begins with.
#include <rdmaxx/rdmaxx.hpp>
