package kompute

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// nothings are nil and zero values of all types with methods that can be made
// without their constructors.
func nothings() map[string]any {
	return map[string]any{
		"nil tensor": (*Tensor[float32])(nil), "zero tensor": &Tensor[float32]{},
		"nil view": (*View)(nil), "zero view": &View{},
		"nil stream": (*Stream)(nil), "zero stream": &Stream{},
		"nil device": (*Device)(nil), "zero device": &Device{},
		"nil region": (*Region)(nil), "zero region": &Region{},
		"nil event": (*Event)(nil), "zero event": &Event{},
		"nil scope": (*Scope)(nil), "zero scope": &Scope{},
		"nil reading": (*Reading[float32])(nil), "zero reading": &Reading[float32]{},
		"nil sequence": (*Sequence)(nil), "zero sequence": &Sequence{},
		"nil algorithm": (*Algorithm)(nil), "zero algorithm": &Algorithm{},
		"nil manager": (*Manager)(nil), "zero manager": &Manager{},
		"nil mapped": (*Mapped[float32])(nil), "zero mapped": &Mapped[float32]{},
		"nil trace": (*Trace)(nil),
	}
}

// No method of a nil or zero value panics. Closing it succeeds; everything else that
// can fail fails with ErrInvalid.
func TestMethodsOfNothing(t *testing.T) {
	noError := map[string]bool{
		"zero sequence.EvalAwait": true, // nothing was started
		"zero event.Done":         true,
	}
	closes := map[string]bool{"Close": true, "Shutdown": true}
	for name, value := range nothings() {
		v := reflect.ValueOf(value)
		for i := range v.NumMethod() {
			method := v.Type().Method(i)
			what := name + "." + method.Name
			var out []reflect.Value
			require.NotPanics(t, func() { out = v.Method(i).Call(argumentsFor(v.Method(i).Type())) }, what)
			for _, result := range out {
				switch got := result.Interface().(type) {
				case error:
					require.False(t, closes[method.Name], "%s: %v", what, got)
					require.ErrorIs(t, got, ErrInvalid, what)
				case *Tensor[float32]:
					require.ErrorIs(t, got.Err(), ErrInvalid, what)
				case *Reading[float32]:
					_, err := got.Wait(bg)
					require.ErrorIs(t, err, ErrInvalid, what)
				case *Event:
					require.ErrorIs(t, got.Wait(bg), ErrInvalid, what)
				case bool:
					require.Contains(t, []string{"Done", "Closed", "SameStorage", "ReadOnly"}, method.Name, what)
				case nil:
					if method.Type.NumOut() == 1 && method.Type.Out(0).Implements(reflect.TypeFor[error]()) && !closes[method.Name] {
						require.True(t, noError[what], "%s gives no error", what)
					}
				case *Scope:
					got.Close()
				case *Sequence:
					require.NoError(t, got.Close(), what)
				}
			}
		}
	}
	require.Nil(t, (*Stream)(nil).Device())
	require.Nil(t, (&Stream{}).Device())
	require.Empty(t, noDevice.streams, "and nothing is left of it")
	require.Equal(t, errNilStream, noStream.err)
	require.Zero(t, noStream.Stats().Ops)
}

// argumentsFor are the arguments of a method: a context, and zeros.
func argumentsFor(method reflect.Type) []reflect.Value {
	var in []reflect.Value
	for i := range method.NumIn() {
		switch at := method.In(i); {
		case method.IsVariadic() && i == method.NumIn()-1:
		case at == reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(bg))
		default:
			in = append(in, reflect.Zero(at))
		}
	}
	return in
}

// Functions that take streams, devices and tensors reject nil in the same way.
func TestFunctionsOfNothing(t *testing.T) {
	for _, s := range []*Stream{nil, {}} {
		require.ErrorIs(t, Output[float32](s, 1).Err(), ErrInvalid)
		require.ErrorIs(t, Constant(s, upTo(1)).Err(), ErrInvalid)
		require.ErrorIs(t, Failed[float32](s, errTest).Err(), errTest)
		require.ErrorIs(t, Result(s, (*Tensor[float32])(nil)).Err(), ErrInvalid)
	}
	for _, d := range []*Device{nil, {}} {
		_, err := New(d, upTo(1))
		require.ErrorIs(t, err, ErrInvalid)
		_, err = NewMapped[float32](d, 1)
		require.ErrorIs(t, err, ErrInvalid)
		_, err = Wrap(d, array.Float32, make([]byte, 4), nil, 1)
		require.ErrorIs(t, err, ErrInvalid)
	}
	for _, sc := range []*Scope{nil, {}} {
		require.ErrorIs(t, Keep(sc, (*Tensor[float32])(nil)).Err(), ErrInvalid)
	}
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(2))
		require.Same(t, x, Keep(nil, x))
		require.Same(t, x, Keep(&Scope{}, x))
		require.Same(t, x, Result(nil, x))
		_, err := x.ReadAsync(&Stream{}).Wait(bg)
		require.ErrorIs(t, err, ErrInvalid)
		q := new(Sequence).Record(SyncDevice(x), Dispatch(nil), Dispatch(&Algorithm{}))
		require.ErrorIs(t, q.Eval(bg), ErrInvalid)
		require.False(t, x.View().SameStorage(nil))
		for _, use := range []func(s *Stream){
			func(s *Stream) { s.RecordInto(nil) },
			func(s *Stream) { s.Upload((*Tensor[float32])(nil)) },
			func(s *Stream) { s.Wait(&Event{}) },
			func(s *Stream) { s.Wait((*Stream)(nil).Record()) },
		} {
			s := newStream(t, d)
			use(s)
			require.ErrorIs(t, s.Err(), ErrInvalid)
		}
		var none Stream
		none.Enqueue(makeOp("neg", In(x.View()), InOut(x.View())))
		require.Equal(t, upTo(2), read(t, x), "nothing has happened to it")
		require.NoError(t, s.Err())
	})
}
