// The C ABI of streams: ops, order, waiting and measuring.
#include "abi/kpx.h"

#include <algorithm>

#include "abi/created_tensors.hpp"
#include "abi/guard.hpp"
#include "abi/handles.hpp"
#include "abi/note_refusals.hpp"
#include "cache/cache.hpp"
#include "ops/op_table.hpp"
#include "runtime/algorithm.hpp"
#include "stream/order.hpp"
#include "stream/stream.hpp"

using namespace kpx;

extern "C" {

kpx_result kpx_stream_create(kpx_device *device, kpx_stream_kind kind, kpx_stream **out, kpx_error *err) {
    return guarded(err, [&] { *out = new kpx_stream{Stream::create(device_of(device), kind)}; });
}

void kpx_stream_destroy(kpx_stream *stream) {
    if (stream != nullptr) {
        stream->object->finish();
        delete stream;
    }
}

int32_t kpx_op_find(const char *name) {
    return find_op(name);
}

kpx_result kpx_op(kpx_stream *stream, int32_t op, kpx_array *arrays, uint32_t n, const void *params, uint32_t size,
                  kpx_error *err) {
    return guarded(err, [&] {
        Stream &target = *stream_of(stream);
        if (n > 0) {
            require(arrays, "arrays are");
        }
        const NoteRefusals note(target, err);
        CreatedTensors created(target.device(), arrays, n);
        target.op({op, arrays, n, params, size});
        created.keep();
    });
}

kpx_result kpx_upload(kpx_stream *stream, kpx_tensor *tensor, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        target->device()->check_alive();
        Lock lock(target->device()->mutex());
        target->report_refused();
        make_ready(lock, *target, tensor_of(tensor), {true, false}, target->capturing());
    });
}

kpx_result kpx_stream_depend(kpx_stream *stream, kpx_stream *other, uint64_t value, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const std::shared_ptr<Stream> source = stream_of(other);
        depend(*target, *source, value);
    });
}

kpx_result kpx_stream_hold(kpx_stream *stream, kpx_gate **out, kpx_error *err) {
    return guarded(err, [&] { *out = new kpx_gate{hold(*stream_of(stream))}; });
}

void kpx_gate_open(kpx_gate *gate) {
    if (gate != nullptr) {
        gate->object->open();
        delete gate;
    }
}

kpx_result kpx_flush(kpx_stream *stream, uint64_t timeout_ns, uint64_t *value, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        *value = target->flush(timeout_ns);
    });
}

kpx_result kpx_wait_for_room(kpx_stream *stream, uint64_t timeout_ns, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream); // outlives a concurrent destroy
        target->throttle(timeout_ns);
    });
}

kpx_result kpx_wait(kpx_stream *stream, uint64_t value, uint64_t timeout_ns, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream); // outlives a concurrent destroy
        target->wait(value, timeout_ns);
    });
}

void kpx_stream_get_stats(kpx_stream *stream, kpx_stream_stats *out) {
    *out = kpx_stream_stats{};
    (void)guarded(nullptr, [&] { *out = stream_of(stream)->stats(); });
}

uint64_t kpx_clock_ns(void) {
    return kpx::host_clock_ns();
}

kpx_result kpx_stream_time_ops(kpx_stream *stream, kpx_timing timing, kpx_error *err) {
    return guarded(err, [&] { stream_of(stream)->time_ops(timing); });
}

uint64_t kpx_stream_take_spans(kpx_stream *stream, kpx_op_span *out, uint64_t n) {
    uint64_t taken = 0;
    (void)guarded(nullptr, [&] { taken = stream_of(stream)->take_spans(out, n); });
    return taken;
}

uint64_t kpx_stream_get_op_times(kpx_stream *stream, kpx_op_time *out, uint64_t n) {
    uint64_t known = 0;
    (void)guarded(nullptr, [&] {
        const std::vector<kpx_op_time> all = stream_of(stream)->op_times();
        known = all.size();
        std::copy_n(all.begin(), std::min<uint64_t>(n, known), out);
    });
    return known;
}

kpx_result kpx_dispatch(kpx_stream *stream, kpx_algorithm *algorithm, const kpx_array *arrays, uint32_t n,
                        const uint32_t groups[3], const void *push, uint32_t push_bytes, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        require(arrays, "arrays are"); // an algorithm binds some
        require(groups, "number of workgroups is");
        target->dispatch({algorithm_of(algorithm), arrays, n, {groups[0], groups[1], groups[2]}, push, push_bytes});
    });
}

} // extern "C"
