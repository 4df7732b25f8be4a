package kompute

import (
	"log/slog"
	"time"
)

// Option changes how Open opens a device.
type Option func(*options)

type options struct {
	budget       int64
	windowOps    int
	windowBytes  int64
	logger       *slog.Logger
	strict       bool
	disabled     map[string]bool // names as given; resolveDisabled leaves those of ops
	opTimes      bool
	trace        *Trace
	noPasses     []string      // of fusion
	masked       []string      // features
	features     []string      // to enable
	hangLimit    time.Duration // 0: none
	overlap      bool
	batchVariant bool
}

// The window within which a stream collects ops before it starts them.
const (
	defaultWindowOps   = 100
	defaultWindowBytes = 50 << 20
)

// WithMemoryBudget limits the bytes of live tensors, in the same way on every
// backend. A tensor is live until it is closed or collected, whether or not it
// is on the device yet. It counts once; its host copy, staging memory and the
// memory of a region's transients do not count, except that transients count
// one by one while their region is being captured. Before a tensor is refused with
// a *MemoryError, unreachable tensors are collected. On a Vulkan device, memory
// allocated from the driver stays within the budget as well, but for that of Mapped,
// which is the host's. 0, the default, or less means the device's memory, and so does
// more than the machine has on the CPU.
func WithMemoryBudget(bytes int64) Option {
	return func(o *options) { o.budget = max(bytes, 0) }
}

// WithWindow sets after how many ops, or how many bytes of operands, a stream
// submits the work that it has collected. A value below 1 means the default:
// 100 ops, 50 MiB.
func WithWindow(ops int, bytes int64) Option {
	return func(o *options) {
		if ops > 0 {
			o.windowOps = ops
		}
		if bytes > 0 {
			o.windowBytes = bytes
		}
	}
}

// defaultHangLimit is longer than any work that a driver lets run.
const defaultHangLimit = 10 * time.Minute

// WithHangLimit sets how long a Vulkan device may work without finishing anything; the
// default is ten minutes. A device that exceeds the limit counts as hung, and therefore as
// lost: every call that waits for it returns ErrDeviceLost; the error, the log and DeviceStats.Hang name the work
// that does not end; and everything that this work uses is kept until the program ends.
// The calls that wait detect this: nothing runs in the background. A value below 1 means
// no limit: calls without a context then wait for ever.
//
// One submission, which may be a ReplayN of many replays, must be able to end within
// the limit, also on a CPU driver of Vulkan.
func WithHangLimit(limit time.Duration) Option {
	return func(o *options) { o.hangLimit = max(limit, 0) }
}

// WithOverlap lets dispatches of a region begin before those that they depend on have
// ended, where their kernels can wait for single results by themselves. Results are the
// same. On an H200, a token of a model of Qwen3's shapes takes 14 to 24 % less time, or 9
// to 20 % less with 1,000 tokens in the cache, and an engine's step of 3 to 8 tokens 2 to
// 11 % less. Kernels that wait are compiled beside their other forms.
//
// It relies on the device starting the workgroups of one dispatch before those of the
// next. The GPU that it was measured on does so, but Vulkan does not promise it. So it is
// off by default, and Open first tries it out: on a device that fails, barriers stay,
// DeviceStats.Overlap is false, and a warning is logged. If a device passes and later
// starts workgroups in another order, it hangs (WithHangLimit). The CPU backend ignores
// this option.
func WithOverlap() Option {
	return func(o *options) { o.overlap = true }
}

// WithoutBatchInvariance lets products of several rows with quantized weights be computed
// by kernels for which the last bits of a row's result depend on how many rows there are.
// Without it, on GPUs with fast dot products of bytes, a row with affine or mxfp4 weights
// has the same bits alone and among up to 63 others (15 without tensor cores for bytes),
// so a request to an engine has the same tokens whatever else runs (see
// [DeviceStats].InvariantRows). With it, products of more than 8 rows with affine weights of
// 4 bits, whose scales have 16 bits, are faster if groups have 64 or 32 columns or
// activations have 16 bits (docs/performance/rows.md).
// Nothing else changes. Results are about as accurate, but added up in another order.
// Activations of 16 bits keep their bits, or 11 where the gain of a norm multiplies them,
// and their products are summed in float32.
//
// It relies on a layout of matrices in tensor cores that Vulkan does not promise. Open tries
// that out: on a device that fails, such as a CPU driver, rows keep their bits,
// [DeviceStats].BatchVariant is false, and a warning is logged. The CPU backend ignores it.
func WithoutBatchInvariance() Option {
	return func(o *options) { o.batchVariant = true }
}

// WithLogger sets the logger for ops that fall back to the CPU, once for each op and
// reason, kernels that the driver refuses, the loss of the device, and what other
// packages log to [Device.Logger]. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.logger = l }
}

// WithStrict makes it an error, ErrUnsupported, when a Vulkan device cannot run
// an op, instead of running it on the CPU.
func WithStrict() Option {
	return func(o *options) { o.strict = true }
}

func makeOptions(opts []Option) options {
	o := options{windowOps: defaultWindowOps, windowBytes: defaultWindowBytes, hangLimit: defaultHangLimit}
	o.disableFromEnvironment()
	o.noPasses, o.masked = listVariable(noFusionVariable), listVariable(maskVariable)
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	return o
}
