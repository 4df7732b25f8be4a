// What a stream has done. Any thread may read it.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi/kpx.h"
#include "record/recording.hpp"
#include "runtime/tally.hpp"

namespace kpx {

struct StreamCounters {
    Tally ops;
    std::atomic<uint64_t> dispatches{0}, barriers{0}, submits{0}, descriptor_writes{0}, commands{0}, uploads{0},
        upload_bytes{0}, waits{0}, record_ns{0}, submit_ns{0}, replays{0};

    // A window's recording is submitted. known: it was recorded before.
    void add_window(const Recording::Counts &counts, bool known) {
        dispatches += counts.dispatches;
        barriers += counts.barriers;
        if (!known) {
            descriptor_writes += counts.descriptor_writes;
            commands += counts.commands;
        }
    }
    void add_replays(const Recording::Counts &each, uint32_t times) {
        replays += times;
        dispatches += times * each.dispatches;
        barriers += times * each.barriers;
    }
    void add_upload(uint64_t bytes) {
        uploads++;
        upload_bytes += bytes;
    }
    // All but repeated_ops.
    kpx_stream_stats stats() const;
};

} // namespace kpx
