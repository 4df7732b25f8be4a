// The pipelines of a region, which are built when all dispatches are known.
#pragma once

#include "record/program.hpp"

namespace kpx {

class Device;

// Builds the pipelines that the program lacks, on several threads: a driver may take seconds for one. Returns false if
// the driver refuses one of them; then lowering again chooses others, without overlap if that was refused. Throws if
// memory is short or the device is lost. The caller does not hold the device's mutex.
bool build_pipelines(Device &device, Program &program);

} // namespace kpx
