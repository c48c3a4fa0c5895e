#pragma once

// variant: the namespace of the library, which distinguishes its variants.
//
// Everything is in `namespace rdmaxx`, inside an inline namespace that names the ABI: its version
// and, where there is one, the variant. A variant is the library built from the same sources with
// RDMAXX_VARIANT set to a name, and usually with an observer of its own (verbs/observer.hpp): one
// that checks, one that counts. Users write `rdmaxx::queue_pair` whatever they link.
//
// One program has one variant. Objects of two variants cannot be mixed, because their types have
// different names; a program compiled for one does not link with another, and linking both static
// libraries fails at the symbol `rdmaxx_one_variant_per_program`.

#include <rdmaxx/core/language.hpp>

#define RDMAXX_JOINED(first, second) first##second
#define RDMAXX_JOIN(first, second) RDMAXX_JOINED(first, second)

#ifdef RDMAXX_VARIANT
#define RDMAXX_NAMESPACE rdmaxx::inline RDMAXX_JOIN(v0_, RDMAXX_VARIANT)
#else
#define RDMAXX_NAMESPACE rdmaxx::inline v0
#endif
