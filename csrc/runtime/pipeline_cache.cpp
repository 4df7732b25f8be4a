#include "runtime/pipeline_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "abi/text.hpp"

namespace fs = std::filesystem;

namespace kpx {

namespace {

// Our own header, before Vulkan's: a truncated file must not reach the driver.
struct FileHeader {
    char magic[8];
    uint64_t bytes;
    uint64_t checksum;
};
constexpr char kMagic[8] = {'k', 'p', 'x', 'c', 'a', 'c', 'h', '2'};

// The largest file that is read; real ones have a few megabytes.
constexpr off_t kMostBytes = off_t(1) << 30;

// New pipelines are saved once none has been built for this long.
constexpr std::chrono::seconds kQuiet{1};

// CRC-64 as in the xz format, which detects every change within 64 neighbouring bits.
uint64_t checksum(const uint8_t *data, size_t bytes) {
    static const std::array<uint64_t, 256> table = [] {
        std::array<uint64_t, 256> made;
        for (uint64_t i = 0; i < 256; i++) {
            made[i] = i;
            for (int bit = 0; bit < 8; bit++) {
                made[i] = made[i] >> 1 ^ (made[i] & 1 ? 0xC96C5795D7870F42u : 0);
            }
        }
        return made;
    }();
    uint64_t crc = ~uint64_t(0);
    for (size_t i = 0; i < bytes; i++) {
        crc = table[(crc ^ data[i]) & 0xff] ^ crc >> 8;
    }
    return ~crc;
}

fs::path cache_dir() {
    const char *own = getenv("KOMPUTE_GO_CACHE_DIR");
    if (own != nullptr && *own != 0) {
        return strcmp(own, "off") == 0 ? fs::path() : fs::path(own);
    }
    const char *xdg = getenv("XDG_CACHE_HOME");
    if (xdg != nullptr && *xdg == '/') {
        return fs::path(xdg) / "kompute-go";
    }
    const char *home = getenv("HOME");
    return home != nullptr && *home == '/' ? fs::path(home) / ".cache" / "kompute-go" : fs::path();
}

bool make_dirs(const fs::path &dir) {
    std::error_code failed;
    if (fs::create_directories(dir, failed)) {
        fs::permissions(dir, fs::perms::owner_all,
                        failed); // its content is passed to the driver: only the user may write there
    }
    return access(dir.c_str(), W_OK) == 0;
}

std::string file_name(const vk::PhysicalDeviceProperties &device) {
    return formatted("pipelines-{}-{:08x}-{:08x}-{:08x}.bin",
                     hex(device.pipelineCacheUUID.data(), device.pipelineCacheUUID.size()), device.vendorID,
                     device.deviceID, device.driverVersion);
}

struct Closer {
    void operator()(FILE *file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, Closer>;

// The file, if it is a regular one that only this user can write, since its
// content goes to the driver. If it is a pipe, opening it does not wait.
File open_own(const std::string &path, off_t &bytes) {
    const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return nullptr;
    }
    struct stat info;
    const bool ours = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
                      (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 && info.st_size <= kMostBytes;
    File file(ours ? fdopen(fd, "rb") : nullptr);
    if (file == nullptr) {
        close(fd);
        return nullptr;
    }
    bytes = info.st_size;
    return file;
}

// The cache data of the file, or nothing if anything about it is wrong.
std::vector<uint8_t> load(const std::string &path, const vk::PhysicalDeviceProperties &device) {
    off_t bytes = 0;
    const File file = open_own(path, bytes);
    FileHeader own;
    VkPipelineCacheHeaderVersionOne vulkan;
    if (file == nullptr || fread(&own, sizeof own, 1, file.get()) != 1 ||
        memcmp(own.magic, kMagic, sizeof kMagic) != 0 || own.bytes != uint64_t(bytes) - sizeof own ||
        own.bytes < sizeof vulkan) {
        return {};
    }
    std::vector<uint8_t> data(own.bytes);
    if (fread(data.data(), 1, data.size(), file.get()) != data.size() ||
        checksum(data.data(), data.size()) != own.checksum) {
        return {};
    }
    memcpy(&vulkan, data.data(), sizeof vulkan);
    const bool fits = vulkan.headerSize >= sizeof vulkan &&
                      vulkan.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
                      vulkan.vendorID == device.vendorID && vulkan.deviceID == device.deviceID &&
                      memcmp(vulkan.pipelineCacheUUID, device.pipelineCacheUUID.data(), VK_UUID_SIZE) == 0;
    return fits ? data : std::vector<uint8_t>{};
}

// Writes to another file and renames it, so that a reader sees either the old or the new one.
bool replace(const std::string &path, const FileHeader &header, const std::vector<uint8_t> &data) {
    std::string temporary = path + ".XXXXXX";
    const int fd = mkstemp(&temporary[0]);
    if (fd < 0) {
        return false;
    }
    FILE *file = fdopen(fd, "wb");
    if (file == nullptr) {
        close(fd);
        unlink(temporary.c_str());
        return false;
    }
    bool ok = fwrite(&header, sizeof header, 1, file) == 1 && fwrite(data.data(), 1, data.size(), file) == data.size();
    ok = fclose(file) == 0 && ok;
    if (ok && rename(temporary.c_str(), path.c_str()) == 0) {
        return true;
    }
    unlink(temporary.c_str());
    return false;
}

} // namespace

PipelineCache::PipelineCache(vk::Device device, vk::PhysicalDevice physical) : device_(device) {
    const fs::path dir = cache_dir();
    const vk::PhysicalDeviceProperties properties = physical.getProperties();
    std::vector<uint8_t> data;
    if (!dir.empty()) {
        path_ = (dir / file_name(properties)).string();
        data = load(path_, properties);
    }
    try {
        cache_ = device_.createPipelineCache({{}, data.size(), data.data()});
    } catch (const vk::SystemError &) {
        cache_ = device_.createPipelineCache({}); // the driver's own check rejected it
    }
}

PipelineCache::~PipelineCache() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        closing_ = true;
    }
    changed_.notify_all();
    if (saver_.joinable()) {
        saver_.join();
    }
    device_.destroyPipelineCache(cache_);
}

void PipelineCache::count() {
    std::lock_guard<std::mutex> lock(mutex_);
    built_++;
    if (path_.empty()) {
        return;
    }
    if (!saver_.joinable()) {
        try {
            saver_ = std::thread([this] { save_when_quiet(); });
        } catch (const std::system_error &) {
            // then they are saved only when the device is closed
        }
    }
    changed_.notify_all();
}

uint64_t PipelineCache::built() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return built_;
}

// A program may be killed at any time, so pipelines are saved soon after they were
// built: in the background, once for each series of them.
void PipelineCache::save_when_quiet() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!closing_) {
        if (built_ == saved_) {
            changed_.wait(lock);
            continue;
        }
        const uint64_t seen = built_;
        const auto busy = [&] { return closing_ || built_ != seen; };
        if (changed_.wait_for(lock, kQuiet, busy)) {
            continue;
        }
        lock.unlock();
        save();
        lock.lock();
    }
}

void PipelineCache::save() noexcept {
    try {
        std::lock_guard<std::mutex> one(saving_);
        uint64_t now;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            now = built_;
            if (now == saved_) {
                return;
            }
            saved_ = now; // also if it fails: it would fail again
        }
        if (path_.empty() || !make_dirs(fs::path(path_).parent_path())) {
            return;
        }
        const std::vector<uint8_t> data = device_.getPipelineCacheData(cache_);
        FileHeader header;
        memcpy(header.magic, kMagic, sizeof kMagic);
        header.bytes = data.size();
        header.checksum = checksum(data.data(), data.size());
        replace(path_, header, data);
    } catch (const std::exception &) {
        // the next run will build its pipelines again
    }
}

} // namespace kpx
