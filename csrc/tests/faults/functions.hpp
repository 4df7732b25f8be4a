// The functions that vulkan_core.h declares, by number.
#pragma once

#include <cstdint>

enum Function : uint32_t {
#define FUNCTION(name) k_##name,
#include "functions.inc"
#undef FUNCTION
    kFunctions
};
