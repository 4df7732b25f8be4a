// The order between streams. Work that is pending is submitted first, so that only
// what comes next waits.
#pragma once

#include <cstdint>
#include <memory>

#include "stream/gate.hpp"
#include "stream/point.hpp"

namespace kpx {

class Stream;

// Work appended to the stream from now on starts after value of the other one.
void depend(Stream &stream, const Stream &other, uint64_t value);
// Work appended to the stream from now on starts after the gate is opened.
std::shared_ptr<Gate> hold(Stream &stream);
// Work appended to the stream from now on comes after the point. False if the point's window was refused: then the
// caller checks the tensor again. The caller holds the device's mutex.
bool follow(Stream &stream, const std::shared_ptr<Point> &point);

} // namespace kpx
