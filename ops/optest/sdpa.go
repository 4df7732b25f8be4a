package optest

import (
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runSDPAOf[T kompute.Float](c *call) *kompute.View {
	p := ops.SDPAParams[T]{Scale: c.Params.Scale, Causal: c.Params.Causal, KeyLength: tensor[int32](c, "key_length")}
	if mask, given := c.In["mask"]; given && mask.DType == array.Bool {
		p.Mask = tensor[bool](c, "mask")
	} else if given {
		p.Bias = tensor[T](c, "mask")
	}
	q := tensor[T](c, "q")
	switch c.dtype("k") {
	case array.Float16:
		return ops.SDPA(c.s, q, tensor[array.F16](c, "k"), tensor[array.F16](c, "v"), p).View()
	case array.BFloat16:
		return ops.SDPA(c.s, q, tensor[array.BF16](c, "k"), tensor[array.BF16](c, "v"), p).View()
	}
	return ops.SDPA(c.s, q, tensor[float32](c, "k"), tensor[float32](c, "v"), p).View()
}

func runSDPA(c *call) *kompute.View {
	return byFloat(c.dtype("q"), runSDPAOf[float32], runSDPAOf[array.F16], runSDPAOf[array.BF16])(c)
}

// sees holds what decides whether a query sees a key.
type sees struct {
	mask          []float64 // nil: none
	isBool        bool
	length        int
	causal        bool
	queries, keys int
}

// score adds the mask to the score of key j for query i of head row, -Inf if it is hidden.
func (s *sees) score(raw float64, head, i, j int) float64 {
	if j >= s.length || s.causal && j > s.length-s.queries+i {
		return math.Inf(-1)
	}
	if s.mask == nil {
		return raw
	}
	m := s.mask[(head*s.queries+i)*s.keys+j]
	switch {
	case s.isBool && m == 0, !s.isBool && math.IsInf(m, -1):
		return math.Inf(-1)
	case s.isBool:
		return raw
	}
	return raw + m
}

func newSees(c *Case) *sees {
	q, k := c.In["q"], c.In["k"]
	s := &sees{length: k.Dim(2), causal: c.Params.Causal, queries: q.Dim(2), keys: k.Dim(2)}
	if a, given := c.In["key_length"]; given {
		s.length = min(max(int(floats(a)[0]), 0), s.length)
	}
	if a, given := c.In["mask"]; given {
		a.Layout = must(a.Broadcast(q.Dim(0), q.Dim(1), q.Dim(2), k.Dim(2)))
		s.mask, s.isBool = floats(a), a.DType == array.Bool
	}
	return s
}

func referenceSDPA(c *Case) []float64 {
	q, k, v := c.In["q"], c.In["k"], c.In["v"]
	hq, hkv, d, dv := q.Dim(1), k.Dim(1), q.Dim(3), v.Dim(3)
	scale, see := float64(c.Params.Scale), newSees(c)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(max(d, 1)))
	}
	fq, fk, fv := floats(q), floats(k), floats(v)
	out := make([]float64, q.Dim(0)*hq*see.queries*dv)
	for head := range q.Dim(0) * hq {
		kv := head/hq*hkv + head%hq/(hq/hkv)
		for i := range see.queries {
			row := (head*see.queries + i)
			scores, largest := make([]float64, see.keys), math.Inf(-1)
			for j := range scores {
				raw := 0.0
				for l := range d {
					raw += fq[row*d+l] * fk[(kv*see.keys+j)*d+l]
				}
				scores[j] = see.score(raw*scale, head, i, j)
				largest = math.Max(largest, scores[j])
			}
			if math.IsInf(largest, -1) {
				continue // sees no key: zeros
			}
			for j, w := range softmax(scores) {
				if math.IsInf(scores[j], -1) {
					continue // whatever its value is
				}
				for l := range dv {
					out[row*dv+l] += w * fv[(kv*see.keys+j)*dv+l]
				}
			}
		}
	}
	return round(q.DType, out)
}

// sdpaAlong: batches, heads with keys of their own, and queries that see every
// key are independent.
func sdpaAlong(c *Case, axis int) map[string]int {
	axes := map[string]int{"q": axis}
	switch {
	case axis == 3 || axis == 2 && c.Params.Causal || axis == 1 && c.In["q"].Dim(1) != c.In["k"].Dim(1):
		return nil
	case axis < 2:
		axes["k"], axes["v"] = axis, axis
	}
	if mask, given := c.In["mask"]; given && axis-4+mask.Rank() >= 0 {
		axes["mask"] = axis - 4 + mask.Rank()
	}
	return axes
}

func sdpaSuite() suite {
	shapes := func(q, k, v []int) func(e *env) error {
		return func(e *env) error {
			return ops.SDPA(e.s, e.f32(q...), e.f32(k...), e.f32(v...), ops.SDPAParams[float32]{}).Err()
		}
	}
	with := func(p func(e *env) ops.SDPAParams[float32]) func(e *env) error {
		return func(e *env) error {
			return ops.SDPA(e.s, e.f32(1, 4, 3, 8), e.f32(1, 2, 5, 8), e.f32(1, 2, 5, 8), p(e)).Err()
		}
	}
	type params = ops.SDPAParams[float32]
	return suite{
		op: "sdpa", run: runSDPA, reference: referenceSDPA, cases: sdpaCases, draw: randomSDPA, thin: 20,
		optional: []string{"mask", "key_length"}, along: sdpaAlong, regroups: true,
		bound: func(c *Case) bound { return sumBound(c.dtype("q"), 16*c.In["q"].Dim(3), largest(floats(c.In["v"]))) },
		flop: func(c *Case) float64 { // causal: half of the scores
			q, k := c.In["q"].Shape, c.In["k"].Shape
			return 2 * float64(size(q)) * float64(k[2])
		},
		large: func(dtype array.DType, _ string, size int) Case {
			kv := func() array.Array { return blank(dtype, 1, 8, size/8192, 128) }
			return Case{In: map[string]array.Array{"q": blank(dtype, 1, 16, size/8192, 128), "k": kv(), "v": kv()}, Params: Params{Scale: 0.1, Causal: true}}
		},
		valid: func() Case {
			c := attention(newSource(1), array.Float32, 1, 2, 1, 3, 4, 8)
			c.In["mask"], c.In["key_length"] = dense(array.Bool, []float64{1, 1, 1, 0}, 4), dense(array.Int32, []float64{3}, 1)
			return c
		},
		rejects: []reject{
			{"rank", kompute.ErrShape, shapes([]int{4, 3, 8}, []int{4, 3, 8}, []int{4, 3, 8})},
			{"rank of k", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{4, 3, 8}, []int{1, 4, 3, 8})},
			{"batch", kompute.ErrShape, shapes([]int{2, 4, 3, 8}, []int{1, 4, 3, 8}, []int{1, 4, 3, 8})},
			{"head size", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{1, 4, 3, 9}, []int{1, 4, 3, 9})},
			{"keys and values", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{1, 4, 3, 8}, []int{1, 4, 2, 8})},
			{"heads of v", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{1, 4, 3, 8}, []int{1, 2, 3, 8})},
			{"group", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{1, 3, 3, 8}, []int{1, 3, 3, 8})},
			{"more key heads", kompute.ErrShape, shapes([]int{1, 2, 3, 8}, []int{1, 4, 3, 8}, []int{1, 4, 3, 8})},
			{"no key heads", kompute.ErrShape, shapes([]int{1, 2, 3, 8}, []int{1, 0, 3, 8}, []int{1, 0, 3, 8})},
			{"mask", kompute.ErrShape, with(func(e *env) params { return params{Mask: e.boolean(3, 4)} })},
			{"mask rank", kompute.ErrShape, with(func(e *env) params { return params{Mask: e.boolean(1, 1, 1, 3, 5)} })},
			{"bias", kompute.ErrShape, with(func(e *env) params { return params{Bias: e.f32(2, 3, 5)} })},
			{"two masks", kompute.ErrInvalid, with(func(e *env) params { return params{Mask: e.boolean(3, 5), Bias: e.f32(3, 5)} })},
			{"key lengths", kompute.ErrShape, with(func(e *env) params { return params{KeyLength: e.i32(2)} })},
			{"NaN scale", kompute.ErrInvalid, with(func(*env) params { return params{Scale: float32(math.NaN())} })},
			{"infinite scale", kompute.ErrInvalid, with(func(*env) params { return params{Scale: float32(math.Inf(-1))} })},
		},
	}
}
