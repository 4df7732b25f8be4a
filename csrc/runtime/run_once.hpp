// Work of the device itself, which its caller waits for.
#pragma once

#include "record/program.hpp"

namespace kpx {

class Device;

// Runs the program, and waits until it is done. Throws the driver's errors, and KPX_TIMEOUT if it takes too
// long: then the device is marked as hung, with `what` as the message.
void run_once(Device &device, Program program, const char *what);

} // namespace kpx
