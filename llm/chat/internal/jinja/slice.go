package jinja

import (
	"fmt"
	"strings"
)

func (e *slicing) evaluate(r *render) (Value, error) {
	of, err := r.eval(e.of)
	if err != nil {
		return nil, err
	}
	var bounds [3]*int64
	for i, part := range []expression{e.start, e.stop, e.step} {
		if part == nil {
			continue
		}
		v, err := r.eval(part)
		if err != nil {
			return nil, err
		}
		n, ok := integer(v)
		switch {
		case ok:
			bounds[i] = &n
		case v != nil:
			return nil, fmt.Errorf("%s cannot be a bound of a slice", kindOf(v))
		}
	}
	return r.slice(of, bounds)
}

// slice is of[start:stop:step].
func (m *meter) slice(of Value, bounds [3]*int64) (Value, error) {
	switch v := of.(type) {
	case *List:
		picked, err := m.positions(len(v.Items), bounds)
		if err != nil {
			return nil, err
		}
		items, err := m.items(int64(len(picked)))
		if err != nil {
			return nil, err
		}
		for _, at := range picked {
			items = append(items, v.Items[at])
		}
		return &List{Items: items, tuple: v.tuple}, nil
	case string:
		return m.sliceText(v, bounds)
	case Undefined:
		return nil, v.err()
	}
	return nil, fmt.Errorf("%s cannot be sliced", kindOf(of))
}

func (m *meter) sliceText(s string, bounds [3]*int64) (Value, error) {
	starts, err := m.characters(s)
	if err != nil {
		return nil, err
	}
	picked, err := m.positions(len(starts)-1, bounds)
	if err != nil {
		return nil, err
	}
	if n := len(picked); n > 0 && picked[n-1]-picked[0] == n-1 { // they are neighbours
		return s[starts[picked[0]]:starts[picked[n-1]+1]], nil
	}
	if err := m.take(len(s)); err != nil {
		return nil, err
	}
	var out strings.Builder
	out.Grow(len(s))
	for _, at := range picked {
		out.WriteString(s[starts[at]:starts[at+1]])
	}
	return out.String(), nil
}

// positions returns the indices of a slice of n items, as in Python.
func (m *meter) positions(n int, bounds [3]*int64) ([]int, error) {
	length, step := int64(n), int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return nil, fmt.Errorf("slice with step 0")
	}
	low, high := int64(0), length
	if step < 0 {
		low, high = -1, length-1
	}
	clamp := func(bound *int64, absent int64) int64 {
		if bound == nil {
			return absent
		}
		v := *bound
		if v < 0 {
			v += length
		}
		return min(max(v, low), high)
	}
	start, stop := clamp(bounds[0], low), clamp(bounds[1], high)
	if step < 0 {
		start, stop = clamp(bounds[0], high), clamp(bounds[1], low)
	}
	step = min(max(step, -length-1), length+1)
	count := max((stop-start+step-1)/step, 0)
	if step < 0 {
		count = max((stop-start+step+1)/step, 0)
	}
	if err := m.takeMany(8, count); err != nil {
		return nil, err
	}
	out := make([]int, 0, count)
	for i := range count {
		out = append(out, int(start+i*step))
	}
	return out, nil
}
