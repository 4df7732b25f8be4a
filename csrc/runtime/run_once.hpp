// Work of the device itself, which its caller waits for.
#pragma once

#include "record/program.hpp"

namespace kpx {

class Device;

// Runs the program, and waits until it is done. Throws the driver's errors; if it takes too long, KPX_TIMEOUT, and
// marks the device as hung in `what`.
void run_once(Device &device, Program program, const char *what);

} // namespace kpx
