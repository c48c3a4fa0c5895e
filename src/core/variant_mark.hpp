// variant_mark: a symbol that every variant defines under one name, so that the linker refuses a
// program with two of them (core/variant.hpp). Code that every program needs refers to it, so the
// linker takes it from a static library.
#pragma once

extern "C" const char rdmaxx_one_variant_per_program;
