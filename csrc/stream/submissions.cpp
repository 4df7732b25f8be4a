#include "stream/submissions.hpp"

#include <algorithm>
#include <new>

#include "abi/text.hpp"
#include "record/recording.hpp"
#include "record/region.hpp"
#include "runtime/device.hpp"
#include "stream/gate.hpp"
#include "stream/op_times.hpp"

namespace kpx {

namespace {

// Describes a submission, for messages.
std::string describe(const Submission &work) {
    std::string text = formatted("submission {}", work.value);
    if (work.recording) {
        text += ", " + work.recording->describe();
    }
    if (work.times > 0) {
        text += formatted(", {} times a region of {}", work.times, work.region->recording().describe());
    }
    return text;
}

} // namespace

Submissions::Submissions(std::shared_ptr<Device> device, Queue &queue, std::shared_ptr<Timeline> timeline,
                         OpTimes &times)
    : device_(std::move(device)), queue_(queue), timeline_(std::move(timeline)), times_(times) {}

vk::Result Submissions::launch(Submission &work) {
    std::vector<vk::Semaphore> semaphores;
    std::vector<uint64_t> values;
    for (const Wait &wait : work.waits) {
        if (wait.timeline) {
            semaphores.push_back(wait.timeline->semaphore());
            values.push_back(wait.timeline->semaphore_value(wait.value));
        }
    }
    const std::vector<vk::PipelineStageFlags> stages(values.size(), vk::PipelineStageFlagBits::eAllCommands);
    const vk::Semaphore signal = timeline_->semaphore();
    const uint64_t signal_value = timeline_->semaphore_value(work.value);
    const vk::TimelineSemaphoreSubmitInfo timeline(values, signal_value);
    commands_.clear();
    if (work.recording) {
        commands_.push_back(work.recording->commands());
    }
    if (work.region) {
        commands_.insert(commands_.end(), work.times, work.region->recording().commands());
    }
    vk::SubmitInfo info(semaphores, stages, commands_, signal);
    info.pNext = &timeline;
    const uint64_t value = work.value; // work may be done and freed once it is submitted
    {
        std::lock_guard<std::mutex> lock(mutex_);
        work.launched_ns = host_clock_ns();
    }
    std::lock_guard<std::mutex> lock(queue_.mutex);
    const vk::Result result = queue_.handle->submit(1, &info, nullptr);
    if (result == vk::Result::eSuccess) {
        timeline_->set_queued(value);
    }
    return result;
}

void Submissions::submit(Submission work) {
    const uint64_t value = work.value;
    work.submitted_ns = work.timing == KPX_TIME_NOTHING ? 0 : host_clock_ns();
    Submission *listed;
    {
        // Listed before submitting: nothing may fail between the submission and its entry here.
        std::lock_guard<std::mutex> lock(mutex_);
        in_flight_.push_back(std::move(work));
        listed = &in_flight_.back();
    }
    const auto take_back = [&] {
        std::lock_guard<std::mutex> lock(mutex_);
        Submission failed = std::move(in_flight_.back());
        in_flight_.pop_back();
        return failed;
    };
    vk::Result result;
    try {
        result = launch_or_hold(*listed);
    } catch (...) {
        const Submission failed = take_back();
        throw;
    }
    if (result != vk::Result::eSuccess) {
        const Submission failed = take_back();
        device_->check(result, "vkQueueSubmit");
    }
    timeline_->set_submitted(value);
}

bool Submissions::ready(const Submission &work) {
    return std::all_of(work.waits.begin(), work.waits.end(), [](const Wait &wait) {
        return wait.gate ? wait.gate->is_open() : wait.timeline->queued() >= wait.value;
    });
}

vk::Result Submissions::launch_or_hold(Submission &work) {
    const bool gated = std::any_of(work.waits.begin(), work.waits.end(), [](const Wait &w) { return bool(w.gate); });
    if ((!gated && device_->held == 0) || (held_.empty() && ready(work))) {
        return launch(work);
    }
    held_.push_back(&work);
    device_->held++;
    return vk::Result::eSuccess;
}

bool Submissions::launch_held() {
    bool progress = false;
    while (!held_.empty() && (device_->lost() || ready(*held_.front()))) {
        // No caller can receive an error here; all waits report a lost device.
        try {
            if (!device_->lost() && launch(*held_.front()) != vk::Result::eSuccess) {
                device_->mark_lost();
            }
        } catch (const std::bad_alloc &) {
            device_->mark_lost();
        }
        held_.pop_front();
        device_->held--;
        progress = true;
    }
    return progress;
}

uint64_t Submissions::in_the_way() {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t staged = 0;
    for (const Submission &work : in_flight_) {
        staged += work.staged;
    }
    if (in_flight_.size() < kMostInFlight && staged <= kMostStaged) {
        return 0;
    }
    const uint64_t oldest = in_flight_.front().value;
    return oldest > timeline_->queued() ? 0 : oldest; // work behind a gate may be held back for long
}

// Limits the work that a caller can enqueue ahead of the device.
void Submissions::throttle(uint64_t timeout_ns) {
    const uint64_t began = timeout_ns == UINT64_MAX ? 0 : host_clock_ns();
    while (const uint64_t oldest = in_the_way()) {
        const uint64_t waited = timeout_ns == UINT64_MAX ? 0 : host_clock_ns() - began;
        timeline_->wait(oldest, timeout_ns - std::min(timeout_ns, waited));
        collect();
    }
}

Submissions::Oldest Submissions::oldest() {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t completed = timeline_->seen();
    for (const Submission &work : in_flight_) {
        if (work.value > completed && work.launched_ns != 0) {
            return {work.launched_ns, describe(work)};
        }
    }
    return {};
}

void Submissions::collect() {
    std::vector<Submission> done;
    std::unique_lock<std::mutex> lock(mutex_);
    if (in_flight_.empty() || device_->lost()) {
        return;
    }
    // Only work whose submitting call has returned: until then that call still reads it.
    const uint64_t completed = std::min(timeline_->completed(), timeline_->queued());
    while (!in_flight_.empty() && in_flight_.front().value <= completed) {
        done.push_back(std::move(in_flight_.front()));
        in_flight_.pop_front();
    }
    lock.unlock();
    for (const Submission &work : done) {
        if (work.timing != KPX_TIME_NOTHING && work.recording) {
            times_.add(work);
        }
    }
}

void Submissions::drop() {
    {
        std::lock_guard<std::mutex> lock(device_->mutex());
        device_->held -= held_.size();
        held_.clear();
    }
    if (device_->hung()) {
        keep();
        return;
    }
    for (;;) { // one by one, which takes no memory
        std::unique_lock<std::mutex> lock(mutex_);
        if (in_flight_.empty()) {
            return;
        }
        const Submission dropped = std::move(in_flight_.front());
        in_flight_.pop_front();
        lock.unlock();
    }
}

void Submissions::keep() {
    struct Kept {
        std::deque<Submission> work;
        std::shared_ptr<Timeline> timeline; // its semaphore, too, is not another stream's while the work may signal it
    };
    const auto kept = std::make_shared<Kept>();
    kept->timeline = timeline_;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        std::swap(kept->work, in_flight_);
    }
    device_->keep_forever(kept);
}

} // namespace kpx
