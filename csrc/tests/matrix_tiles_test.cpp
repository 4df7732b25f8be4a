// Tiles of products on cooperative matrices, for devices that this machine does not have.
#include "ops/matrix_tiles.hpp"
#include "test.hpp"

using kpx::MatrixTiles;

static kpx::DeviceTraits device_of(uint32_t subgroup_size, uint32_t invocations, uint32_t shared_bytes) {
    kpx::DeviceTraits device{};
    device.subgroup_size = subgroup_size;
    device.max_workgroup_invocations = invocations;
    device.max_shared_bytes = shared_bytes;
    return device;
}

TEST(matrix_tiles_fit_the_device) {
    for (const auto &device : {device_of(32, 1024, 49152), device_of(64, 1024, 32768), device_of(32, 256, 32768)}) {
        for (int64_t m : {17, 33, 65, 4096}) {
            for (uint32_t a : {1u, 2u}) {
                for (uint32_t b : {1u, 2u}) {
                    for (bool decodes : {false, true}) {
                        const MatrixTiles t = MatrixTiles::plan(device, m, a, b, decodes);
                        CHECK(t.fits(device, a, b));
                        CHECK(t.shared_bytes(a, b) <= device.max_shared_bytes);
                        CHECK(t.padded(100) % t.depth == 0 && t.padded(100) >= 100);
                    }
                }
            }
        }
    }
    CHECK(MatrixTiles::plan(device_of(32, 1024, 49152), 512, 2, 1, true).tile_m() == 128);
    CHECK(MatrixTiles::plan(device_of(32, 1024, 49152), 17, 2, 1, true).tile_m() == 32);
}

TEST(matrix_tiles_split_into_ranges_that_are_not_empty) {
    const MatrixTiles t = MatrixTiles::plan(device_of(32, 1024, 49152), 512, 2, 1, true);
    for (int64_t m : {17, 512, 4096}) {
        for (int64_t n = 64; n <= 16384; n = n * 3 / 2) {
            for (int64_t k = 64; k <= 32768; k += k / 3) {
                const int64_t padded = t.padded(k), steps = padded / t.depth;
                const int64_t splits = t.splits(m, n, padded);
                CHECK(splits >= 1 && (splits - 1) * ((steps + splits - 1) / splits) < steps);
            }
        }
    }
    CHECK(t.splits(512, 2560, 9728) > 1);    // few tiles, many columns
    CHECK(t.splits(4096, 12288, 4096) == 1); // enough tiles
}
