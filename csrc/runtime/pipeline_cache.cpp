#include "runtime/pipeline_cache.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

namespace fs = std::filesystem;

namespace kpx {

namespace {

// Ours, in front of Vulkan's own header: a truncated file must not reach the driver.
struct FileHeader {
    char magic[8];
    uint64_t bytes;
    uint64_t checksum;
};
constexpr char kMagic[8] = {'k', 'p', 'x', 'c', 'a', 'c', 'h', '1'};

uint64_t checksum(const uint8_t *data, size_t bytes) {
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ data[i]) * 1099511628211u;
    }
    return hash;
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
    return fmt::format("pipelines-{:02x}-{:08x}-{:08x}-{:08x}.bin", fmt::join(device.pipelineCacheUUID, ""),
                       device.vendorID, device.deviceID, device.driverVersion);
}

// The cache data of the file, or nothing if anything about it is wrong.
std::vector<uint8_t> load(const std::string &path, const vk::PhysicalDeviceProperties &device) {
    std::ifstream file(path, std::ios::binary);
    FileHeader own;
    if (!file.read(reinterpret_cast<char *>(&own), sizeof own) || memcmp(own.magic, kMagic, sizeof kMagic) != 0) {
        return {};
    }
    std::vector<uint8_t> data{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    VkPipelineCacheHeaderVersionOne vulkan;
    if (data.size() != own.bytes || data.size() < sizeof vulkan || checksum(data.data(), data.size()) != own.checksum) {
        return {};
    }
    memcpy(&vulkan, data.data(), sizeof vulkan);
    const bool fits = vulkan.headerSize >= sizeof vulkan &&
                      vulkan.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
                      vulkan.vendorID == device.vendorID && vulkan.deviceID == device.deviceID &&
                      memcmp(vulkan.pipelineCacheUUID, device.pipelineCacheUUID.data(), VK_UUID_SIZE) == 0;
    return fits ? data : std::vector<uint8_t>{};
}

// Writes beside the file and renames, so that a reader sees the old or the new one.
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
        cache_ = device_.createPipelineCache({}); // the driver's own check said no
    }
}

PipelineCache::~PipelineCache() {
    device_.destroyPipelineCache(cache_);
}

void PipelineCache::save() noexcept {
    try {
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
        // the next run builds its pipelines again
    }
}

} // namespace kpx
