#include "runtime/pool.hpp"

// A variable, not a constant of the header: tests that are compiled without the sanitizer are linked with code that is
// compiled with it.
#if defined(__SANITIZE_ADDRESS__)
const size_t kpx::most_spare_objects = 0; // so that it detects use after free
#else
const size_t kpx::most_spare_objects = 4096;
#endif
