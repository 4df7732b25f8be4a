#include "stream/pending.hpp"

#include <utility>

#include "cache/tensor.hpp"
#include "record/transfer.hpp"
#include "runtime/device.hpp"
#include "stream/submissions.hpp"

namespace kpx {

// Appends the op call if it is the next one of a window that was recorded: then its dispatches are known. Otherwise
// call_ becomes the call.
bool PendingWork::repeat(const RawCall &call, bool &has_dispatch) {
    if (window_.empty() && !window_.follows()) {
        call_.describe(call);
        window_.follow(recordings_.find(call_));
    }
    if (!window_.follows() || !window_.repeat(call, device_.memory(), has_dispatch)) {
        call_.describe(call);
        return false;
    }
    for (uint32_t i = 0; i < call.n; i++) {
        if (call.arrays[i].tensor != nullptr) {
            window_.keep(tensor_of(call.arrays[i].tensor)->buffer);
        }
    }
    repeated_ops_++;
    return true;
}

bool PendingWork::append(const RawCall &call) {
    bool has_dispatch = false;
    return repeat(call, has_dispatch) ? has_dispatch : append_call(device_, window_, call, &call_);
}

void PendingWork::upload(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const void *data, uint64_t bytes,
                         bool wrapped) {
    const uint64_t to = buffer->offset() + offset;
    const UploadStaging::Place staged = uploads_.put(data, bytes, to % 4, wrapped);
    const auto fill = [&](OpNode &node) { fill_transfer(node, buffer, offset, bytes, KPX_WRITE); };
    window_.append(fill, [&](const OpNode &, Program &program) {
        append_transfer(device_, program, {staged.block->buffer, staged.offset, staged.block},
                        {buffer->handle(), to, buffer, buffer.get()}, bytes);
    });
    uploads_.appended(bytes);
}

void PendingWork::read(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const std::shared_ptr<HostBlock> &block,
                       uint64_t block_offset, uint64_t bytes) {
    const auto fill = [&](OpNode &node) { fill_transfer(node, buffer, offset, bytes, KPX_READ); };
    window_.append(fill, [&](const OpNode &, Program &program) {
        append_transfer(device_, program, {buffer->handle(), buffer->offset() + offset, buffer, buffer.get()},
                        {block->buffer, block_offset, block}, bytes);
    });
    window_.read_by_host();
}

bool PendingWork::record(const std::shared_ptr<Device> &device, const Queue &queue, Submission &work) {
    struct Emptied {
        Window &window;
        ~Emptied() { window.clear(); } // also if recording fails
    } const emptied{window_};
    if (work.timing != KPX_TIME_NOTHING) {
        work.program = window_.take();
        work.program.plan();
        work.recording =
            std::make_shared<Recording>(device, queue, work.program, Recording::Runs::once, Recording::Timed::each);
        return false;
    }
    if (const KnownWindow *repeated = window_.repeated()) {
        work.recording = recordings_.repeat(*repeated);
    }
    bool known = work.recording != nullptr;
    if (known) {
        work.program = window_.take_kept();
    } else {
        work.program = window_.take();
        work.recording = recordings_.get(device, queue, work.program, known, &window_.log());
    }
    return known;
}

void PendingWork::clear() {
    window_.clear();
    uploads_.taken();
}

Window PendingWork::discard() {
    uploads_.taken();
    return std::exchange(window_, Window(device_, false));
}

} // namespace kpx
