// The C ABI of captures, replays and profiles.
#include "abi/kpx.h"

#include <algorithm>
#include <cstring>

#include "abi/guard.hpp"
#include "abi/handles.hpp"
#include "abi/note_refusals.hpp"
#include "record/region_json.hpp"
#include "stream/replay.hpp"

using namespace kpx;

extern "C" {

kpx_result kpx_capture_begin(kpx_stream *stream, kpx_error *err) {
    return guarded(err, [&] { stream_of(stream)->begin_capture(); });
}

kpx_result kpx_capture_end(kpx_stream *stream, kpx_region **out, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const NoteRefusals note(*target, err);
        std::shared_ptr<Region> made = end_capture(*target); // first: it ends the capture even without host memory
        *out = new kpx_region{std::move(made)};
    });
}

void kpx_capture_abort(kpx_stream *stream) {
    (void)guarded(nullptr, [&] { stream_of(stream)->abort_capture(); });
}

kpx_result kpx_replay(kpx_stream *stream, kpx_region *region, uint32_t times, uint64_t timeout_ns, uint64_t *value,
                      kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const std::shared_ptr<Region> replayed = region_of(region);
        *value = replay(*target, replayed, times, timeout_ns);
    });
}

void kpx_region_get_stats(kpx_region *region, kpx_region_stats *out) {
    *out = kpx_region_stats{};
    (void)guarded(nullptr, [&] { *out = region_of(region)->stats(); });
}

uint64_t kpx_region_describe(kpx_region *region, char *text, uint64_t size) {
    uint64_t length = 0;
    (void)guarded(nullptr, [&] {
        const std::string description = as_json(*region_of(region));
        length = description.size();
        if (size > 0) {
            memcpy(text, description.data(), std::min<uint64_t>(size, length));
        }
    });
    return length;
}

kpx_result kpx_profile_start(kpx_stream *stream, kpx_region *region, kpx_profiled what, uint64_t *value,
                             kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const std::shared_ptr<Region> profiled = region_of(region);
        const auto timed = what == KPX_PROFILE_EACH ? Recording::Timed::each : Recording::Timed::whole;
        *value = profile(*target, profiled, timed);
    });
}

kpx_result kpx_profile_times(kpx_region *region, kpx_span *spans, uint64_t n, kpx_span *whole, kpx_error *err) {
    return guarded(err, [&] { *whole = region_of(region)->times(spans, n); });
}

void kpx_region_destroy(kpx_region *region) {
    delete region;
}

} // extern "C"
