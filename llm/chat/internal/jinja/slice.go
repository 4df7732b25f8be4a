package jinja

import "fmt"

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
		if err := m.takeMany(4, int64(len(v))); err != nil {
			return nil, err
		}
		runes := []rune(v)
		picked, err := m.positions(len(runes), bounds)
		if err != nil {
			return nil, err
		}
		if err := m.takeMany(2*4, int64(len(picked))); err != nil {
			return nil, err
		}
		out := make([]rune, 0, len(picked))
		for i, at := range picked {
			if at > 0 && runes[at-1] == Mark && (i == 0 || picked[i-1] != at-1) { // it belongs to what follows
				if err := m.take(2 * 4); err != nil {
					return nil, err
				}
				out = append(out, Mark)
			}
			out = append(out, runes[at])
		}
		return string(out), nil
	case Undefined:
		return nil, v.err()
	}
	return nil, fmt.Errorf("%s cannot be sliced", kindOf(of))
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
