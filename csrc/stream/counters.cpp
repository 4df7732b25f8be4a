#include "stream/counters.hpp"

namespace kpx {

kpx_stream_stats StreamCounters::stats() const {
    kpx_stream_stats out{};
    out.ops = ops;
    out.dispatches = dispatches;
    out.barriers = barriers;
    out.submits = submits;
    out.descriptor_writes = descriptor_writes;
    out.recorded_commands = commands;
    out.uploads = uploads;
    out.upload_bytes = upload_bytes;
    out.waits = waits;
    out.record_ns = record_ns;
    out.submit_ns = submit_ns;
    out.replays = replays;
    return out;
}

} // namespace kpx
