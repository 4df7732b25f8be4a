package optest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/ops"
)

// Report gathers what [Run] sees, by op and element type. It is safe for
// concurrent use; the zero value is ready.
type Report struct {
	mu    sync.Mutex
	lines map[lineKey]*Line
}

type lineKey struct {
	op    string
	dtype array.DType
}

// Line is what was seen of an op at one element type: that of its first operand.
type Line struct {
	Op     string      `json:"op"` // its basename, its kind if it has several, and a mode of quantization other than affine
	DType  array.DType `json:"dtype"`
	Passed int         `json:"passed"` // results within their bound
	Failed int         `json:"failed"` // and outside of it
	// Worst is the largest error as a multiple of its bound: 0 is exact, above 1 a failure.
	Worst float64 `json:"worst"`
	// Kernels are the dispatches of the large case, in order, and Time is what they
	// took together; Copy is the time of a copy that reads and writes as many bytes.
	// All three are empty for an op without a large case.
	Kernels []string      `json:"kernels,omitempty"`
	Time    time.Duration `json:"time_ns,omitempty"`
	Copy    time.Duration `json:"copy_ns,omitempty"`
}

// Lines returns copies of the lines, by op and element type.
func (r *Report) Lines() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Line, 0, len(r.lines))
	for _, l := range r.lines {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.DType, b.DType))
	})
	return out
}

// WriteTable writes one row per line, and then the sums.
func (r *Report) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "op\ttype\tpassed\tfailed\terror/bound\ttime\tof a copy\tkernels")
	passed, failed := 0, 0
	for _, l := range r.Lines() {
		fmt.Fprintf(table, "%s\t%v\t%d\t%d\t%.2g\t%s\t%s\n", l.Op, l.DType, l.Passed, l.Failed, l.Worst, l.speed(), strings.Join(l.Kernels, " "))
		passed, failed = passed+l.Passed, failed+l.Failed
	}
	fmt.Fprintf(table, "all\t\t%d\t%d\n", passed, failed)
	return table.Flush()
}

// op is the basename, and kind the rest: of the quantized ops the mode as well.
func (l *Line) op() string { op, _, _ := strings.Cut(l.Op, " "); return op }

func (l *Line) kind() string { _, kind, _ := strings.Cut(l.Op, " "); return kind }

// speed is the time of the large case, and how many copies it takes.
func (l *Line) speed() string {
	if l.Copy == 0 {
		return "-\t-"
	}
	return fmt.Sprintf("%v\t%.2f", l.Time.Round(100*time.Nanosecond), float64(l.Time)/float64(l.Copy))
}

// note adds a result. A nil report keeps nothing.
func (r *Report) note(op string, dtype array.DType, found comparison) {
	r.update(op, dtype, func(l *Line) {
		if found.why == "" {
			l.Passed++
		} else {
			l.Failed++
		}
		l.Worst = max(l.Worst, found.worst)
	})
}

// update changes the line of an op and element type.
func (r *Report) update(op string, dtype array.DType, change func(*Line)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := lineKey{op, dtype}
	if r.lines == nil {
		r.lines = make(map[lineKey]*Line)
	}
	if r.lines[key] == nil {
		r.lines[key] = &Line{Op: op, DType: dtype}
	}
	change(r.lines[key])
}

// label returns how a case's op is called in a report.
func (c *Case) label(op string) string {
	if c.Params.Kind != "" {
		op += " " + c.Params.Kind
	}
	if mode := c.Params.mode(); mode != ops.ModeAffine {
		op += " " + mode.String()
	}
	return op
}

// principal returns the element type by which a case is reported: that of the
// operand that the op is about, or of the result if there is none.
func (c *Case) principal(result array.DType) array.DType {
	for _, name := range []string{"x", "a", "q", "logits", "gate", "dst", "condition"} {
		if a, ok := c.In[name]; ok {
			return a.DType
		}
	}
	return result
}
