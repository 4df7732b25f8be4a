#include "record/pipelines.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/device.hpp"
#include "runtime/kernels.hpp"

namespace kpx {

namespace {

class Builds {
  public:
    Builds(Device &device, Program &program) : device_(device), program_(program) {
        for (const Node &node : program.nodes()) {
            if (!node.pipeline.handle) {
                const PipelineKey key = key_of(node);
                if (index_.emplace(key, wanted_.size()).second) {
                    wanted_.push_back({key, program.takes_part(node), {}});
                }
            }
        }
    }

    // The caller's thread works, too, so it does not matter if there are no others.
    void run() {
        std::vector<std::thread> others;
        const size_t most = std::min<size_t>(wanted_.size(), std::thread::hardware_concurrency());
        try {
            for (size_t i = 1; i < most; i++) {
                others.emplace_back([this] { work(); });
            }
        } catch (const std::exception &) { // no thread or no memory for one
        }
        work();
        for (std::thread &other : others) {
            other.join();
        }
        if (failed_) {
            std::rethrow_exception(failed_);
        }
    }

    bool refused() const { return refused_ || overlap_refused_; }
    bool overlap_refused() const { return overlap_refused_; }

    void finish() {
        for (Node &node : program_.all_nodes()) {
            if (!node.pipeline.handle) {
                node.pipeline = wanted_[index_.at(key_of(node))].made;
            }
        }
    }

  private:
    struct Wanted {
        PipelineKey key;
        bool overlaps;
        Numbered<vk::Pipeline> made;
    };

    static PipelineKey key_of(const Node &node) { return {node.variant, node.layout.bindings, *node.constants}; }

    void work() noexcept {
        for (size_t i; (i = next_++) < wanted_.size();) {
            Wanted &one = wanted_[i];
            try {
                one.made = device_.kernels().build(one.key, one.overlaps).handle;
            } catch (const KernelRefused &) {
                (one.overlaps ? overlap_refused_ : refused_) = true;
            } catch (...) {
                next_ = wanted_.size(); // the others would fail, too
                const std::lock_guard<std::mutex> lock(mutex_);
                failed_ = std::current_exception();
            }
        }
    }

    Device &device_;
    Program &program_;
    std::vector<Wanted> wanted_;
    std::unordered_map<PipelineKey, size_t, PipelineKey::Hash> index_; // of wanted_
    std::atomic<size_t> next_{0};
    std::atomic<bool> refused_{false}, overlap_refused_{false};
    std::mutex mutex_;
    std::exception_ptr failed_; // guarded by mutex_ until all threads have ended
};

} // namespace

bool build_pipelines(Device &device, Program &program) {
    Builds builds(device, program);
    builds.run();
    if (builds.overlap_refused()) {
        device.keep_barriers();
    }
    if (builds.refused()) {
        return false;
    }
    builds.finish();
    return true;
}

} // namespace kpx
