// Package optest is the conformance suite of the ops: what any backend must
// pass. Run it from a test on a device of your own:
//
//	func TestConformance(t *testing.T) {
//		dev, err := kompute.Open("vulkan")
//		require.NoError(t, err)
//		defer dev.Close()
//		optest.Run(t, dev)
//	}
//
// Three oracles stand behind it: vectors that MLX computed (testdata, made by
// scripts/mlx_vectors.py), for every device; formulas in float64 in this
// package, for the CPU device; and the CPU device, for the others. Cases come from
// tables and, by rapid, at random: shapes, element types, and layouts such as
// transposed, sliced, broadcast and oddly placed views. It also checks that a
// view and its copy give the same bits, that an op on a slice gives the slice of its
// result, that bad calls are refused with the right error before they reach the
// device, that nothing falls back to the CPU, and that no tensor is left behind.
package optest

import (
	"context"
	"flag"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// suite is what there is to test of one op.
type suite struct {
	op        string                     // its basename
	run       func(*call) *kompute.View  // enqueues a case
	reference func(c *Case) []float64    // its formula, in float64
	exact     func(c *Case) bool         // whether results are exact
	bound     func(c *Case) bound        // the error allowed, else defaultBound
	zeros     func(c *Case) bool         // whether zeros have the right sign
	cases     func() []Case              // the table
	draw      func(t *rapid.T) Case      // one at random
	valid     func() Case                // one that is refused once something is changed
	optional  []string                   // operands that may be absent
	reorders  func(*kompute.Device) bool // whether the order of its sums depends on layouts
	regroups  bool                       // whether it depends on other axes' lengths
	along     along                      // which axes can be sliced before the op or after it
	rejects   []reject
	extra     func(*testing.T, *kompute.Device) // what fits no case
	thin      int                               // on slow devices, one case out of that many is run; 0: all
	// large is a case to measure, of about size elements. kinds are what Measure asks for, one by one; nil: it has one.
	large func(dtype array.DType, kind string, size int) Case
	kinds []string
	// withRows gives a product's case that many rows of x; flop counts multiplications and additions of a product.
	withRows func(c *Case, rows int)
	flop     func(c *Case) float64
}

// suites lists all ops; each is in the file of its op's basename.
func suites() []suite {
	return []suite{
		arangeSuite(), binarySuite(), castSuite(), concatSuite(), copySuite(), dequantizeSuite(), fillSuite(),
		gatherAxisSuite(), gatherSuite(), layerNormSuite(), maskSuite(), matMulSuite(), padSuite(), pagedSDPASuite(), pagedUpdateSuite(), penalizeSuite(), quantizedGatherSuite(),
		quantizedMatMulSuite(), quantizeSuite(), randomSuite(), reduceSuite(), repeatSuite(), rmsNormSuite(), ropeSuite(),
		sampleSuite(), scanSuite(), scatterSuite(), sdpaSuite(), siLUMulSuite(), sliceSuite(), sliceUpdateSuite(), softmaxSuite(), tallySuite(), unarySuite(),
		whereSuite(),
	}
}

// Option changes what [Run] does.
type Option func(*runner)

// WithReport makes Run note what it sees in r, and measure the ops that have a
// large case.
func WithReport(r *Report) Option { return func(u *runner) { u.report = r } }

// WithEveryCase makes Run test as much on a Vulkan driver that runs on the CPU as on
// a GPU: there it takes several times as long.
func WithEveryCase() Option { return func(u *runner) { u.every = true } }

// Run tests every op on dev. The device stays open.
func Run(t *testing.T, dev *kompute.Device, options ...Option) {
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cpu.Close()) })
	live := dev.Stats().LiveTensors
	for _, u := range suites() {
		t.Run(u.op, func(t *testing.T) {
			r := &runner{suite: u, dev: dev, cpu: cpu}
			for _, o := range options {
				o(r)
			}
			built := dev.Stats().PipelinesBuilt
			defer func() { t.Logf("%d pipelines built", dev.Stats().PipelinesBuilt-built) }()
			t.Run("mlx", r.vectors)
			t.Run("table", r.table)
			t.Run("random", r.random)
			t.Run("rejects", r.rejected)
			if u.large != nil && r.report != nil {
				t.Run("large", r.measure)
			}
			if u.extra != nil {
				t.Run("extra", func(t *testing.T) { u.extra(t, dev) })
			}
		})
	}
	require.Equal(t, live, dev.Stats().LiveTensors, "tensors left behind")
}

// WithPart makes RunShare run one part of the cases, counted from 0, so that as many processes as
// there are parts can run side by side.
func WithPart(part, parts int) Option { return func(u *runner) { u.part, u.parts = part, parts } }

// WithFallbacks names ops that the device may have no kernel for: RunShare skips what falls back to the CPU
// because of them.
func WithFallbacks(ops ...string) Option { return func(u *runner) { u.mayFallBack = ops } }

// RunShare runs one out of `of` cases of each op's table on dev, which stays open. It is for devices with disabled kernels (see kompute.WithDisabled).
func RunShare(t *testing.T, dev *kompute.Device, of int, options ...Option) {
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, cpu.Close()) }()
	for _, u := range suites() {
		u.thin = of
		r := &runner{suite: u, dev: dev, cpu: cpu}
		for _, o := range options {
			o(r)
		}
		t.Run(u.op, r.table)
	}
}

// runner tests one op on one device.
type runner struct {
	suite
	dev, cpu *kompute.Device
	report   *Report // may be nil
	// Ops that may run on the CPU instead; their cases are skipped then.
	mayFallBack []string
	// Which part of the cases runs, and of how many parts; parts 0: all.
	part, parts int
	every       bool // slow devices run every case too
}

// Case is one call of an op on host data.
type Case struct {
	Name   string
	In     map[string]array.Array // operands by name, in any layout
	Params Params
	To     array.DType // the result's type where operands do not tell
}

// dtype returns the element type of an operand.
func (c *Case) dtype(name string) array.DType { return c.In[name].DType }

// Params are the parameters of all ops; the JSON names are those of the vectors.
type Params struct {
	Kind        string    `json:"kind"`
	Eps         float32   `json:"eps"`
	Axis        int       `json:"axis"`
	Axes        []int     `json:"axes"` // nil: all
	Keep        bool      `json:"keepdims"`
	GroupSize   int       `json:"group_size"`
	Bits        int       `json:"bits"`
	Mode        string    `json:"mode"`
	Transpose   bool      `json:"transpose"`
	Dims        int       `json:"dims"`
	Traditional bool      `json:"traditional"`
	Base        float32   `json:"base"`
	Scale       float32   `json:"scale"`
	Offset      int       `json:"offset"`
	Causal      bool      `json:"causal"`
	Start       []int     `json:"start"`
	Shape       []int     `json:"shape"`
	Value       float64   `json:"value"`
	Range       []float64 `json:"range"`
	Widths      [][2]int  `json:"widths"`
	Reps        []int     `json:"reps"`
	Along       bool      `json:"along"`
	Exclusive   bool      `json:"exclusive"`
	Reverse     bool      `json:"reverse"`

	Sampling sample.Params `json:"sampling"`
	First    int           `json:"first"`
	Low      float32       `json:"low"` // or the mean
	High     float32       `json:"high"`
}

// tester is what rapid.T and testing.T share.
type tester interface {
	require.TestingT
	Helper()
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Logf(format string, args ...any)
}

// table runs the fixed cases against the oracle.
func (r *runner) table(t *testing.T) {
	for _, c := range r.cases() {
		if r.skip(c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) { r.against(t, &c, r.oracle(t, &c)) })
	}
}

// vectors runs MLX's cases.
func (r *runner) vectors(t *testing.T) {
	for _, v := range readVectors(t, r.op) {
		if r.skip(v.Name) {
			continue
		}
		t.Run(v.Name, func(t *testing.T) { r.against(t, &v.Case, v.want) })
	}
}

// random runs cases at random: fewer where the suite is thinned.
func (r *runner) random(t *testing.T) {
	if r.slow() && r.thin > 0 {
		checks := flag.Lookup("rapid.checks")
		all := checks.Value.String()
		n, err := strconv.Atoi(all)
		require.NoError(t, err)
		require.NoError(t, checks.Value.Set(strconv.Itoa(max(1, n/slowChecks))))
		defer func() { require.NoError(t, checks.Value.Set(all)) }()
	}
	rapid.Check(t, r.property)
}

// property checks a random case against the oracle, and the algebra of views.
func (r *runner) property(t *rapid.T) {
	c := r.draw(t)
	got := r.against(t, &c, r.oracle(t, &c))
	r.copies(t, &c, got)
	r.slices(t, &c, got)
}

// oracle returns what the case should give.
func (r *runner) oracle(t tester, c *Case) []float64 {
	t.Helper()
	if r.dev.Backend() == "cpu" {
		return r.reference(c)
	}
	return floats(r.result(t, r.cpu, c))
}

// against runs the case on the device and compares.
func (r *runner) against(t tester, c *Case, want []float64) array.Array {
	t.Helper()
	got := r.result(t, r.dev, c)
	exact := r.exact != nil && r.exact(c)
	b := defaultBound(got.DType)
	if r.bound != nil {
		b = r.bound(c)
	}
	found := compare(floats(got), want, exact, b)
	if r.zeros != nil && r.zeros(c) {
		found = found.withZeros(floats(got), want)
	}
	r.report.note(c.label(r.op), c.principal(got.DType), found)
	if found.why != "" {
		t.Fatalf("%s %s: %s", r.op, describe(c, got), found.why)
	}
	return got
}

// result runs the case on a device and reads what came out.
func (r *runner) result(t tester, dev *kompute.Device, c *Case) array.Array {
	t.Helper()
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	scope := s.Scope()
	defer scope.Close()
	in := upload(t, dev, c.In)
	defer in.close()
	got, err := download(context.Background(), r.run(&call{Case: c, s: s, in: in.views}))
	require.NoErrorf(t, err, "%s %s", r.op, describe(c, array.Array{}))
	fallbacks := s.Stats().Fallbacks
	for op := range fallbacks {
		require.Containsf(t, r.mayFallBack, op, "%s %s fell back to the CPU: %v", r.op, describe(c, got), fallbacks)
	}
	if len(fallbacks) > 0 {
		t.Skip(fallbacks)
	}
	return got
}
