package testmodel

import (
	"fmt"
	"math"
)

// Logits computes the logits [T][Vocab] of a sequence in float64, straight from
// the formulas: no cache, no batching, one vector at a time.
func (s Spec) Logits(w Weights, tokens []uint32) [][]float64 {
	r, out := reference{s, w}, s.States(w, tokens)
	head := "lm_head"
	if s.Tied {
		head = "model.embed_tokens"
	}
	for t := range out {
		out[t] = r.project(head, out[t])
	}
	return out
}

// States computes the states [T][Hidden] after the final norm in the same way.
func (s Spec) States(w Weights, tokens []uint32) [][]float64 {
	r := reference{s, w}
	x := make([][]float64, len(tokens))
	for t, id := range tokens {
		x[t] = widen(w["model.embed_tokens.weight"][int(id)*s.Hidden:][:s.Hidden])
	}
	for i := range s.Layers {
		r.layer(x, fmt.Sprintf("model.layers.%d.", i))
	}
	for t := range x {
		x[t] = r.norm("model.norm", x[t])
	}
	return x
}

type reference struct {
	Spec
	w Weights
}

func (r reference) layer(x [][]float64, path string) {
	q, k, v := make([][][]float64, len(x)), make([][][]float64, len(x)), make([][][]float64, len(x))
	for t := range x {
		n := r.norm(path+"input_layernorm", x[t])
		q[t] = r.rotated(path+"self_attn.q", n, t)
		k[t] = r.rotated(path+"self_attn.k", n, t)
		v[t] = split(r.project(path+"self_attn.v_proj", n), r.HeadDim)
	}
	for t := range x {
		var joined []float64
		for h := range r.Heads {
			joined = append(joined, r.attend(q[t][h], k[:t+1], v[:t+1], h/(r.Heads/r.KVHeads))...)
		}
		add(x[t], r.project(path+"self_attn.o_proj", joined))
	}
	for t := range x {
		n := r.norm(path+"post_attention_layernorm", x[t])
		gate, up := r.project(path+"mlp.gate_proj", n), r.project(path+"mlp.up_proj", n)
		for i, g := range gate {
			gate[i] = g / (1 + math.Exp(-g)) * up[i]
		}
		add(x[t], r.project(path+"mlp.down_proj", gate))
	}
}

// rotated projects, norms each head and applies RoPE at position t.
func (r reference) rotated(path string, x []float64, t int) [][]float64 {
	heads := split(r.project(path+"_proj", x), r.HeadDim)
	for h := range heads {
		y := heads[h]
		if r.headNorms() {
			y = r.norm(path+"_norm", y)
		}
		half := r.HeadDim / 2
		for i := range half {
			angle, magnitude := float64(t)*math.Pow(1e4, -2*float64(i)/float64(r.HeadDim)), 1.0
			if r.Scaling != nil {
				angle, magnitude = float64(t)/float64(r.Scaling.Wavelengths(1e4, r.HeadDim)[i]), r.Scaling.Magnitude()
			}
			sin, cos := math.Sincos(angle)
			first, second := i, i+half
			if r.Traditional {
				first, second = 2*i, 2*i+1
			}
			a, b := y[first]*magnitude, y[second]*magnitude
			y[first], y[second] = a*cos-b*sin, a*sin+b*cos
		}
		heads[h] = y
	}
	return heads
}

// attend reads key-value head g of every position so far.
func (r reference) attend(q []float64, k, v [][][]float64, g int) []float64 {
	score, largest := make([]float64, len(k)), math.Inf(-1)
	for j := range k {
		score[j] = dot(q, k[j][g]) / math.Sqrt(float64(r.HeadDim))
		largest = max(largest, score[j])
	}
	sum, out := 0.0, make([]float64, r.HeadDim)
	for j := range k {
		p := math.Exp(score[j] - largest)
		sum += p
		for i := range out {
			out[i] += p * v[j][g][i]
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

func (r reference) norm(path string, x []float64) []float64 {
	w, out := r.w[path+".weight"], make([]float64, len(x))
	scale := 1 / math.Sqrt(dot(x, x)/float64(len(x))+1e-6)
	for i := range x {
		out[i] = x[i] * scale * float64(w[i])
	}
	return out
}

func (r reference) project(path string, x []float64) []float64 {
	w := r.w[path+".weight"]
	out := make([]float64, len(w)/len(x))
	for o := range out {
		for i, v := range w[o*len(x):][:len(x)] {
			out[o] += float64(v) * x[i]
		}
	}
	for o, b := range r.w[path+".bias"] {
		out[o] += float64(b)
	}
	return out
}

func split(x []float64, n int) (out [][]float64) {
	for ; len(x) > 0; x = x[n:] {
		out = append(out, x[:n])
	}
	return out
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func add(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}
