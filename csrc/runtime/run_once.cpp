#include "runtime/run_once.hpp"

#include "abi/error.hpp"
#include "record/recording.hpp"
#include "runtime/device.hpp"
#include "runtime/timeline.hpp"
#include "stream/stream.hpp"
#include "stream/watchdog.hpp"

namespace kpx {

namespace {

// Submits value 1 of a timeline.
void submit(Device &device, Queue &queue, vk::CommandBuffer commands, Timeline &done) {
    const vk::Semaphore signal = done.semaphore();
    const uint64_t value = done.semaphore_value(1);
    const vk::TimelineSemaphoreSubmitInfo timeline({}, value);
    vk::SubmitInfo info({}, {}, commands, signal);
    info.pNext = &timeline;
    {
        std::lock_guard<std::mutex> lock(queue.mutex);
        device.check(queue.handle->submit(1, &info, nullptr), "vkQueueSubmit");
    }
    done.set_submitted(1);
}

// How many submissions of all streams are done.
uint64_t finished(Device &device) {
    uint64_t all = 0;
    for (const std::shared_ptr<Stream> &stream : device.streams()) {
        all += stream->timeline()->completed();
    }
    return all;
}

// Waits for value 1. The queue may have much to do before it, so the limit starts again whenever a stream has finished
// work meanwhile.
void await(Device &device, const Timeline &done) {
    for (uint64_t before = finished(device);;) {
        try {
            done.wait(1, device.watchdog().limit_ns());
            return;
        } catch (const Error &e) {
            const uint64_t now = e.code == KPX_TIMEOUT ? finished(device) : before;
            if (now == before) {
                throw;
            }
            before = now;
        }
    }
}

// Nothing may be freed while the device still uses it.
void leave(Device &device, Queue &queue, const std::shared_ptr<const void> &work) {
    device.drain(queue);
    if (device.hung()) {
        device.keep_forever(work);
    }
}

} // namespace

void run_once(Device &device, Program program, const char *what) {
    struct Work {
        Work(const std::shared_ptr<Device> &on, const Queue &queue, Program what_to_do)
            : program(std::move(what_to_do)), recording(on, queue, program, Recording::Runs::once), done(on) {}
        Program program; // it keeps the memory
        Recording recording;
        Timeline done;
    };
    Queue &queue = device.next_queue();
    program.plan();
    const auto work = std::make_shared<Work>(device.shared_from_this(), queue, std::move(program));
    submit(device, queue, work->recording.commands(), work->done);
    try {
        await(device, work->done);
    } catch (const Error &e) {
        if (e.code == KPX_TIMEOUT) {
            device.mark_hung(what);
        }
        leave(device, queue, work);
        device.check_alive();
        throw;
    } catch (...) { // host memory
        leave(device, queue, work);
        throw;
    }
}

} // namespace kpx
