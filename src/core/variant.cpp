#include "core/variant_mark.hpp"

const char rdmaxx_one_variant_per_program = 0;
