// The pipeline cache on disk: it is kept, and never trusted.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "failing.hpp"
#include "shaders.hpp"
#include "test.hpp"

namespace {

// A separate folder for the cache while a test runs.
class CacheDir {
  public:
    CacheDir() {
        char name[] = "/tmp/kpx-cache-XXXXXX";
        CHECK(mkdtemp(name) != nullptr);
        path_ = name;
        setenv("KOMPUTE_GO_CACHE_DIR", (path_ + "/a/b").c_str(), 1);
    }
    ~CacheDir() {
        setenv("KOMPUTE_GO_CACHE_DIR", "off", 1);
        for (const std::string &file : files()) {
            unlink(file.c_str());
        }
        rmdir((path_ + "/a/b").c_str());
        rmdir((path_ + "/a").c_str());
        rmdir(path_.c_str());
    }
    const std::string &path() const { return path_; }
    std::vector<std::string> files() const {
        std::vector<std::string> found;
        const std::string dir = path_ + "/a/b/";
        if (DIR *handle = opendir(dir.c_str())) {
            while (const dirent *entry = readdir(handle)) {
                if (entry->d_name[0] != '.') {
                    found.push_back(dir + entry->d_name);
                }
            }
            closedir(handle);
        }
        return found;
    }

  private:
    std::string path_;
};

std::string read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string &path, const std::string &data) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << data;
}

PFN_vkCreateComputePipelines create;
PFN_vkGetPipelineCacheData get_data;
std::atomic<bool> created, saved; // whether a pipeline was built, and then whether the cache was saved

VkResult create_slowly(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
                       const VkAllocationCallbacks *callbacks, VkPipeline *out) {
    usleep(1'500'000); // longer than the shim waits for more of them
    const VkResult result = create(device, cache, n, infos, callbacks, out);
    created = true;
    return result;
}
VkResult watch_data(VkDevice device, VkPipelineCache cache, size_t *bytes, void *data) {
    saved = saved || created;
    return get_data(device, cache, bytes, data);
}

// Opens a device, builds a pipeline, uses it, closes.
void run_once() {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {2}, 4);
    Storage buffer = new_storage(device, 256);
    upload(stream, buffer, std::vector<uint32_t>(64, 20));
    const kpx_array array = words_of(buffer, 64, KPX_READ_WRITE);
    const uint32_t grid[3] = {1, 1, 1}, n = 64;
    REQUIRE_OK(kpx_dispatch(stream.get(), add.get(), &array, 1, grid, &n, 4, &err));
    CHECK(download(stream, buffer, 64)[63] == 41);
}

} // namespace

TEST(pipelines_are_kept_between_runs) {
    CacheDir cache;
    run_once();
    CHECK(cache.files().size() == 1);
    CHECK(read_file(cache.files()[0]).size() > 32);
    run_once();
    CHECK(cache.files().size() == 1); // no temporary file is left
}

TEST(a_damaged_cache_counts_as_none) {
    CacheDir cache;
    run_once();
    const std::string path = cache.files().at(0), good = read_file(path);
    std::string flipped = good;
    flipped[good.size() / 2] = char(flipped[good.size() / 2] ^ 0x40);
    for (const std::string &bad : {std::string(), std::string("short"), good.substr(0, 30),
                                   good.substr(0, good.size() - 1), good + "x", flipped, std::string(5000, '\xff')}) {
        write_file(path, bad);
        run_once();
        CHECK(read_file(path) != bad); // and it is replaced
    }
}

TEST(a_cache_that_is_not_a_file_of_ours_counts_as_none) {
    CacheDir cache;
    run_once();
    const std::string path = cache.files().at(0), good = read_file(path);
    struct stat info;

    unlink(path.c_str());
    CHECK(mkfifo(path.c_str(), 0600) == 0);
    run_once(); // opening does not wait for a writer
    CHECK(lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode));

    const std::string elsewhere = cache.path() + "/elsewhere";
    write_file(elsewhere, "of somebody else");
    unlink(path.c_str());
    CHECK(symlink(elsewhere.c_str(), path.c_str()) == 0);
    run_once();
    CHECK(lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode));
    CHECK(read_file(elsewhere) == "of somebody else");
    unlink(elsewhere.c_str());

    CHECK(chmod(path.c_str(), 0666) == 0); // anyone could have written it
    run_once();
    CHECK(lstat(path.c_str(), &info) == 0 && (info.st_mode & 0777) == 0600);

    if (geteuid() == 0) {
        CHECK(chown(path.c_str(), 12345, 12345) == 0);
        run_once();
        CHECK(lstat(path.c_str(), &info) == 0 && info.st_uid == 0);
    }
}

TEST(pipelines_are_saved_while_the_device_is_open) {
    CacheDir cache;
    Device device = open_device();
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {2}, 4);
    for (int i = 0; i < 600 && cache.files().empty(); i++) {
        usleep(50'000);
    }
    CHECK(cache.files().size() == 1);
}

TEST(a_pipeline_that_takes_long_to_compile_is_saved) {
    CacheDir cache;
    create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateComputePipelines;
    get_data = VULKAN_HPP_DEFAULT_DISPATCHER.vkGetPipelineCacheData;
    {
        FAILING(vkCreateComputePipelines, create_slowly);
        FAILING(vkGetPipelineCacheData, watch_data);
        created = saved = false;
        run_once();
    }
    CHECK(created && saved);
}

TEST(a_cache_that_cannot_be_written_is_no_error) {
    CacheDir cache;
    write_file(cache.path() + "/a", "a file where a folder is wanted");
    run_once();
    unlink((cache.path() + "/a").c_str());
    setenv("KOMPUTE_GO_CACHE_DIR", "off", 1);
    run_once();
    CHECK(cache.files().empty());
}
