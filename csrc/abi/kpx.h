/* The whole C ABI between Go and the shim.
 *
 * Rules: every function that can fail returns a kpx_result and fills *err
 * (never NULL, like all places for results) when it is not KPX_OK. No exception crosses this boundary, and
 * memory passed in is copied before the call returns; only kpx_tensor_wrap
 * keeps the pointer that it is given. Every handle is freed once, by its own
 * destroy function; resources that the device still uses are released after
 * their last use. Functions may be called from any thread, also concurrently;
 * the caller only has to order the calls on one KPX_STREAM_COMPUTE stream.
 */
#ifndef KPX_H
#define KPX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KPX_ABI_VERSION 11
#define KPX_MAX_RANK 8
#define KPX_MOST_REPLAYS 65536

typedef enum {
    KPX_OK = 0,
    KPX_UNSUPPORTED = 1, /* this device or these operands: use the CPU */
    KPX_INVALID = 2,     /* the caller's mistake */
    KPX_OUT_OF_MEMORY = 3,
    KPX_DEVICE_LOST = 4,
    KPX_TIMEOUT = 5,
    KPX_NO_VULKAN = 6,   /* no loader, no driver or no device */
    KPX_INTERNAL = 7,    /* a fault of this library */
    KPX_TOO_LARGE = 8,   /* more than one tensor can hold on this device; requested and available are set */
    KPX_STALE = 9,       /* the host's copy is stale and must be up to date */
    KPX_UNREADABLE = 10, /* wrapped memory, such as a mapped file's that has shrunk */
    KPX_DRIVER = 11      /* the driver reported what fits none of these */
} kpx_result;

typedef struct {
    kpx_result code;
    uint32_t of_content; /* 1: the error of the work that should have made a tensor's content, not of this call */
    uint32_t refusals;   /* set by kpx_op and kpx_capture_end, whatever they return: see kpx_device_stats */
    uint32_t of_window;  /* 1: work that the stream had before this call is lost; see kpx_stream_kind */
    uint64_t requested;  /* bytes, with KPX_OUT_OF_MEMORY and KPX_TOO_LARGE */
    uint64_t available;
    char message[512];
} kpx_error;

/* KPX_WRITE: every element of the view is written and none is read; work that writes only some is KPX_READ_WRITE. */
typedef enum { KPX_READ = 1, KPX_WRITE = 2, KPX_READ_WRITE = 3 } kpx_access;

typedef struct kpx_device kpx_device;
typedef struct kpx_tensor kpx_tensor;
typedef struct kpx_stream kpx_stream;
typedef struct kpx_algorithm kpx_algorithm;
typedef struct kpx_region kpx_region;
typedef struct kpx_gate kpx_gate;
typedef struct kpx_read kpx_read;

/* A view of a tensor. Offset and strides count elements. tensor NULL: absent. The element types are those of
 * csrc/ops/ops.def: DT_* in shaders/include/gen_kinds.h. */
typedef struct {
    kpx_tensor *tensor;
    uint32_t dtype;
    uint32_t access;
    uint32_t rank;
    uint32_t create; /* for kpx_op: see there */
    int64_t offset;
    int64_t shape[KPX_MAX_RANK];
    int64_t strides[KPX_MAX_RANK];
} kpx_array;

/* ---- Library ---- */
uint32_t kpx_abi_version(void);
const char *kpx_build_id(void); /* hash over sources and shaders of this archive */

/* ---- Devices ---- */
typedef enum { KPX_DISCRETE = 0, KPX_INTEGRATED = 1, KPX_VIRTUAL = 2, KPX_CPU = 3, KPX_OTHER = 4 } kpx_device_type;

typedef struct {
    char name[256];
    char driver[256];
    char uuid[33];        /* 32 hex digits */
    uint32_t type;        /* kpx_device_type */
    uint32_t api_version; /* as Vulkan packs it */
    uint32_t vendor_id;
    uint32_t subgroup_size;
    uint32_t min_subgroup_size, max_subgroup_size; /* that kpx_algorithm_create takes; 0: none */
    uint64_t memory_total;                         /* bytes of device-local heaps */
    uint64_t memory_available;                     /* by VK_EXT_memory_budget, else memory_total */
    uint64_t max_buffer_bytes; /* the largest single tensor; masks may allow less (kpx_device_stats) */
    uint32_t usable;           /* 0: cannot run the shim, for the reason below */
    char reason[256];
} kpx_device_info;

/* Number of devices in *count, ranked discrete, integrated, virtual, CPU (within a rank in the driver's order). */
kpx_result kpx_device_count(uint32_t *count, kpx_error *err);
kpx_result kpx_device_describe(uint32_t index, kpx_device_info *info, kpx_error *err);
/* All zero: no budget of its own, no limit for hangs, nothing disabled. */
typedef struct {
    uint64_t memory_budget; /* bytes; 0: the device's memory */
    /* How long the device may have work without finishing any of it; 0: no limit. After that it hangs and counts as
     * lost: all waits end with KPX_DEVICE_LOST and a message that names the work, and everything that the work uses is
     * kept until the process ends, since the work may still be running. Calls that wait detect this. */
    uint64_t hang_ns;
    uint32_t overlaps; /* 1: regions as in overlap.hpp, if the device passes its check */
    /* 1 (kompute.WithoutBatchInvariance): last bits of a row's products may depend on how many rows there are, where
     * that is faster and the device passes its check (fragment_check.hpp) */
    uint32_t batch_variant;
    /* Names separated by commas; NULL: none. Unknown ones are KPX_INVALID. */
    const char *disabled;        /* kernel variants to do without, each as kernel.variant */
    const char *disabled_passes; /* of fusion; also memory_plan and all */
    const char *features;        /* to enable for callers' own SPIR-V: those of runtime/features.cpp; KPX_UNSUPPORTED
                                  * if the device lacks one */
    const char *masked;          /* features to do without, which are not enabled either: those of runtime/mask.def */
} kpx_device_options;
/* options NULL: the defaults. */
kpx_result kpx_device_open(uint32_t index, const kpx_device_options *options, kpx_device **out, kpx_error *err);
/* Waits for all work, then frees the device. Tensors and streams still alive keep it alive until they are destroyed. */
void kpx_device_close(kpx_device *device);

typedef struct {
    uint64_t live_tensors, live_bytes, peak_bytes; /* of open tensors */
    uint64_t reserved_bytes;                       /* allocated from the driver */
    uint64_t host_bytes;                           /* of host copies, wrapped memory not counted */
    uint64_t uploads, upload_bytes;                /* of all streams */
    uint64_t cache_hits, cache_misses; /* operands whose content was already where it was needed, and others */
    uint64_t pipelines_built;
    uint64_t refusals;            /* kernel variants that the driver refused, for some calls or all */
    uint64_t allocations;         /* so far: tensors, scratch, staging blocks, command and descriptor pools */
    uint64_t max_tensor_bytes;    /* max_buffer_bytes, or less where that is masked */
    uint64_t overlaps;            /* 1: it was opened for that and passed the check */
    uint64_t batch_variant;       /* the same */
    uint64_t invariant_rows;      /* the most rows of x of which each has the same bits as alone (invariant_rows) */
    uint64_t validation_messages; /* with KOMPUTE_GO_VALIDATION=1 */
} kpx_device_stats;
void kpx_device_get_stats(kpx_device *device, kpx_device_stats *out);
/* Which work hangs, if the device counts as lost for that; else an empty text. It lives as long as the handle. */
const char *kpx_device_hang(kpx_device *device);

typedef enum {
    KPX_VARIANT_USABLE = 0,
    KPX_VARIANT_MISSING = 1,  /* the device lacks a feature that it needs; reason lists all of them */
    KPX_VARIANT_DISABLED = 2, /* by kpx_device_open */
    KPX_VARIANT_REFUSED = 3 /* by the driver, for some calls or all, which other variants serve; reason is its error */
} kpx_variant_state;
typedef struct {
    char kernel[40], variant[40];
    char reason[128]; /* why it is not usable; empty if it is */
    uint32_t state;   /* kpx_variant_state */
    uint32_t reserved;
    uint64_t calls; /* dispatches submitted so far */
} kpx_variant;
/* Writes at most n of the kernels' variants, of each kernel the best first, and returns their total number. device
 * NULL: those of this library, on no device. */
uint64_t kpx_list_variants(kpx_device *device, kpx_variant *out, uint64_t n);
/* The SPIR-V of a kernel's best variant that is usable on the device, for kpx_algorithm_create; it is valid until the
 * program ends. NULL if there is none. Meant for kernels that no op runs: probes that measure a device's peak rates. */
const uint32_t *kpx_kernel_code(kpx_device *device, const char *kernel, uint64_t *words);

/* ---- Tensors: storage with a host copy and a device copy ----
 * A tensor is bytes that views share. It records which of its two copies are up to date, its last writer and its
 * readers. Ops, dispatches and replays upload operands, order work across streams and update this state by themselves.
 * Each copy is allocated when it is first needed; a tensor without content reads as undefined bytes. */
kpx_result kpx_tensor_create(kpx_device *device, uint64_t bytes, kpx_tensor **out, kpx_error *err);
/* Wraps the caller's memory, which must stay readable, unchanged and in place until kpx_tensor_destroy returns. The
 * tensor is read-only. */
kpx_result kpx_tensor_wrap(kpx_device *device, const void *memory, uint64_t bytes, kpx_tensor **out, kpx_error *err);
/* Both copies are the same zeroed memory, which host and device see, at *memory until the handle is destroyed. Meant
 * for a few bytes that a region writes in every replay: once kpx_wait has returned for a value, what the work up to
 * that value wrote is visible. */
kpx_result kpx_tensor_create_mapped(kpx_device *device, uint64_t bytes, kpx_tensor **out, void **memory,
                                    kpx_error *err);
/* The memory is freed at once, or after its last use on the device. */
void kpx_tensor_destroy(kpx_tensor *tensor);
/* The same for several at once. */
void kpx_tensors_destroy(kpx_tensor *const *tensors, uint64_t n);

/* Writes the elements of a view, in the order of the stream: after work appended so far to this and other streams, and
 * before work appended from now on. data holds the elements in row-major order, as many bytes as they have together,
 * and is read before the call returns; NULL means zeros. If the host's copy is up to date, or all of the tensor is
 * written, only the host's copy changes, and it is uploaded when the device needs it. If only the device's copy is up
 * to date and the view consists of many pieces, nothing is written and the result is KPX_STALE: read all of the tensor
 * first. view->access is ignored. */
kpx_result kpx_tensor_write(const kpx_array *view, kpx_stream *stream, const void *data, uint64_t bytes,
                            kpx_error *err);

/* Starts to read bytes. If the host's copy is up to date, the bytes are available at once, and later writes do not
 * change them; otherwise a copy is appended to the stream, after all that was appended there and after the tensor's
 * writer. With KPX_READ_SOON the copy is submitted, together with the work that makes the content if that is still
 * pending, so that it waits for nothing else. */
typedef enum { KPX_READ_APPEND = 0, KPX_READ_SOON = 1 } kpx_read_when;
kpx_result kpx_read_create(kpx_tensor *tensor, kpx_stream *stream, kpx_read_when when, uint64_t offset, uint64_t bytes,
                           kpx_read **out, kpx_error *err);
/* Waits until the bytes are available at *data, which is valid as long as the handle lives. Submits the work that the
 * copy was appended to. If all of the tensor was read and has not been written since, the host's copy is then up to
 * date. Returns KPX_TIMEOUT after timeout_ns and may be called again. The handle may outlive stream, tensor and
 * device. */
kpx_result kpx_read_wait(kpx_read *read, uint64_t timeout_ns, const void **data, kpx_error *err);
/* Whether the bytes had to be copied from the device. */
uint32_t kpx_read_moved(const kpx_read *read);
void kpx_read_destroy(kpx_read *read); /* at once, or after its last use on the device */

/* ---- Streams: in order, recorded lazily ---- */
/* Nothing in a window that the driver refuses counts as done: its uploads are repeated, and the tensors that its ops
 * should have written, or kpx_tensor_write only in part, carry the error until they are written again. The error is
 * reported once, with of_window: by the call on the stream that submitted the window, or, if that was another stream's
 * or kpx_read_wait, by the stream's own next call, which then does nothing (kpx_capture_end discards the capture).
 * Without such work in the window, of_window is 0: only its reads have failed, each of which reports it, and the call
 * may be repeated. A KPX_STREAM_TRANSFERS stream is for calls that need not be ordered: several threads may read and
 * write by it, a write submits what nobody could repeat, and errors are reported by reads and writes alone. */
typedef enum { KPX_STREAM_COMPUTE = 0, KPX_STREAM_TRANSFERS = 1 } kpx_stream_kind;
kpx_result kpx_stream_create(kpx_device *device, kpx_stream_kind kind, kpx_stream **out, kpx_error *err);
void kpx_stream_destroy(kpx_stream *stream); /* discards pending work, waits for submitted work */

/* Index of the op with this basename, or -1. */
int32_t kpx_op_find(const char *name);
/* Appends one op. KPX_UNSUPPORTED: nothing was appended; err->message gives the reason. For an array that is only
 * written and whose `create` is not 0, it first makes a tensor with room for the array's elements and sets
 * array->tensor, as kpx_tensor_create does; if the call fails, there is no tensor. */
kpx_result kpx_op(kpx_stream *stream, int32_t op, kpx_array *arrays, uint32_t n, const void *params, uint32_t size,
                  kpx_error *err);
/* Uploads a tensor if the device's copy is stale, as the first op that needs it would. */
kpx_result kpx_upload(kpx_stream *stream, kpx_tensor *tensor, kpx_error *err);
/* Work appended from now on starts after value of the other stream, which must have been submitted. */
kpx_result kpx_stream_depend(kpx_stream *stream, kpx_stream *other, uint64_t value, kpx_error *err);
/* Work appended from now on, and work that depends on it, is held back until the gate is opened. Timeline values are
 * assigned as usual; only calls that wait for a value wait for the gate. */
kpx_result kpx_stream_hold(kpx_stream *stream, kpx_gate **out, kpx_error *err);
/* Submits the work that the gate held back, and frees the gate: every gate must be opened. If the driver refuses that
 * work, the device counts as lost. */
void kpx_gate_open(kpx_gate *gate);
/* Submits pending work. *value: the timeline value that this stream reaches when all work appended so far is done. If
 * too much of the stream's work is under way, it waits first: KPX_TIMEOUT, and nothing was submitted, after
 * timeout_ns. */
kpx_result kpx_flush(kpx_stream *stream, uint64_t timeout_ns, uint64_t *value, kpx_error *err);
/* Waits until kpx_flush and kpx_replay need not wait; KPX_TIMEOUT after timeout_ns. */
kpx_result kpx_wait_for_room(kpx_stream *stream, uint64_t timeout_ns, kpx_error *err);
/* Waits until the stream has reached value; KPX_TIMEOUT after timeout_ns. */
kpx_result kpx_wait(kpx_stream *stream, uint64_t value, uint64_t timeout_ns, kpx_error *err);

typedef struct {
    uint64_t ops, dispatches, barriers, submits, descriptor_writes, recorded_commands;
    uint64_t uploads, upload_bytes, waits;
    uint64_t record_ns, submit_ns; /* host time */
    uint64_t replays;              /* of regions; their work counts as dispatches and barriers */
    uint64_t repeated_ops;         /* those that came as in a window that is recorded, and were not lowered */
} kpx_stream_stats;
void kpx_stream_get_stats(kpx_stream *stream, kpx_stream_stats *out);

/* Nanoseconds of the host's steady clock, which spans use. */
uint64_t kpx_clock_ns(void);
/* When something ran on the device. The offset between its clock and the host's is accurate to some microseconds;
 * differences are exact. */
typedef struct {
    uint64_t start_ns, end_ns;
} kpx_span;
typedef enum {
    KPX_TIME_NOTHING = 0,
    KPX_TIME_SUMS = 1, /* for kpx_stream_get_op_times */
    KPX_TIME_SPANS = 2 /* and for kpx_stream_take_spans */
} kpx_timing;
/* Starts or stops timing, by the device's clock, of ops and transfers submitted from now on (not of replays). While it
 * is on, each dispatch waits for the one before. KPX_UNSUPPORTED if the device does not support timestamps. */
kpx_result kpx_stream_time_ops(kpx_stream *stream, kpx_timing timing, kpx_error *err);
typedef struct {
    char op[32];                /* its basename, "custom" or "transfer" */
    uint64_t calls, dispatches; /* calls without a dispatch do not count */
    uint64_t device_ns;
} kpx_op_time;
/* Writes at most n entries, for timed work that is done, and returns the total number of entries. */
uint64_t kpx_stream_get_op_times(kpx_stream *stream, kpx_op_time *out, uint64_t n);
typedef struct {
    char op[32], kernel[32];
    kpx_span span;
} kpx_op_span;
/* Writes and removes at most n of the timed dispatches that are done, oldest first, and returns their number. */
uint64_t kpx_stream_take_spans(kpx_stream *stream, kpx_op_span *out, uint64_t n);

/* ---- Regions: ops recorded once, submitted again and again ---- */
/* Until kpx_capture_end, ops and dispatches appended to the stream are recorded, not run. Uploads are not captured:
 * they run before the region as ordinary work. kpx_flush, reads and kpx_stream_depend submit only ordinary work
 * meanwhile. KPX_INVALID if the stream is capturing already. */
kpx_result kpx_capture_begin(kpx_stream *stream, kpx_error *err);
/* Ends the capture, even on failure, and submits ordinary work. Tensors that were created and destroyed during the
 * capture are the region's own: those that it writes before it reads them are planned by lifetime into memory that
 * the regions of a stream share, and have no content between replays. */
kpx_result kpx_capture_end(kpx_stream *stream, kpx_region **out, kpx_error *err);
void kpx_capture_abort(kpx_stream *stream); /* discards captured work, if any; ordinary work stays */
/* Submits the region times times in a row, in one submission, after all work of the stream (pending work is part of the
 * same submission); times is 1 to KPX_MOST_REPLAYS. Any stream of the region's device may replay it; replays of several
 * streams run one after the other, in the order of these calls. timeout_ns and *value as in kpx_flush; what the host
 * has written since the last replay is uploaded first, for which it waits if that is much. Nothing is
 * recorded, written to a descriptor or allocated, and tensors are checked only if something else used them since the
 * last replay. KPX_INVALID on a capturing stream. */
kpx_result kpx_replay(kpx_stream *stream, kpx_region *region, uint32_t times, uint64_t timeout_ns, uint64_t *value,
                      kpx_error *err);

typedef struct {
    uint64_t ops, fused_ops;       /* as appended; as recorded, after the passes of csrc/fusion */
    uint64_t dispatches, barriers; /* of one replay */
    uint64_t overlaps;             /* dispatches that wait for results themselves instead of at a barrier */
    uint64_t descriptor_writes, recorded_commands; /* done once */
    uint64_t transient_bytes_unplanned,
        transient_bytes; /* memory of the region's own tensors without and with planning */
    uint64_t record_ns;  /* host time of kpx_capture_end */
} kpx_region_stats;
void kpx_region_get_stats(kpx_region *region, kpx_region_stats *out);
/* Writes a JSON description, at most size bytes and not NUL-terminated, and returns its full length: ops with their
 * operands' dtypes, shapes and strides and the ops that they were fused from; dispatches with kernel, grid, reads,
 * writes and barriers; memory. kompute.RegionDescription documents its fields. text may be NULL if size is 0. */
uint64_t kpx_region_describe(kpx_region *region, char *text, uint64_t size);
/* Replays the region once, as kpx_replay does, from a separate recording with timestamps: of start and end, or with
 * KPX_PROFILE_EACH also of every dispatch, which then waits for the one before, and the timestamps themselves take
 * time. *value as in kpx_flush. KPX_UNSUPPORTED, without running anything, if the device does not support timestamps.
 */
typedef enum { KPX_PROFILE_WHOLE = 0, KPX_PROFILE_EACH = 1 } kpx_profiled;
kpx_result kpx_profile_start(kpx_stream *stream, kpx_region *region, kpx_profiled what, uint64_t *value,
                             kpx_error *err);
/* When the last profiled replay ran, whose value has been waited for. spans is NULL, or has n entries, one for each
 * dispatch in the order of kpx_region_describe. */
kpx_result kpx_profile_times(kpx_region *region, kpx_span *spans, uint64_t n, kpx_span *whole, kpx_error *err);
void kpx_region_destroy(kpx_region *region); /* at once, or after the last replay in flight */

/* ---- Algorithms: the caller's own SPIR-V (set 0, binding i = tensor i, entry point "main") ---- */
/* subgroup_size is what its subgroups must have, 0: the device's own choice. KPX_UNSUPPORTED if the device does not
 * take it, or lacks something else that the shader asks for; KPX_INVALID for what check_spirv of runtime/spirv.hpp
 * refuses. */
kpx_result kpx_algorithm_create(kpx_device *device, const uint32_t *spirv, uint64_t words, uint32_t bindings,
                                const uint32_t *spec, uint32_t n_spec, uint32_t push_bytes, uint32_t subgroup_size,
                                kpx_algorithm **out, kpx_error *err);
void kpx_algorithm_destroy(kpx_algorithm *algorithm); /* at once, or after the last use on the device */
/* Bit i: the shader may write binding i, since it does not declare everything there as NonWritable. */
uint64_t kpx_algorithm_writes(const kpx_algorithm *algorithm);
/* Returns the error that kpx_dispatch would return for these arrays and groups, and appends nothing. */
kpx_result kpx_algorithm_check(const kpx_algorithm *algorithm, const kpx_array *arrays, uint32_t n,
                               const uint32_t groups[3], kpx_error *err);
/* Appends one dispatch of groups workgroups. Every array must be contiguous and start at an offset that the device
 * allows for bindings. */
kpx_result kpx_dispatch(kpx_stream *stream, kpx_algorithm *algorithm, const kpx_array *arrays, uint32_t n,
                        const uint32_t groups[3], const void *push, uint32_t push_bytes, kpx_error *err);

#ifdef __cplusplus
}
#endif
#endif
