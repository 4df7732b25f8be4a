package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAsUint32(t *testing.T) {
	require.Equal(t, []uint32{0x3f800000, 0xc0000000}, AsUint32[float32](1, -2))
	require.Equal(t, []uint32{0xffffffff}, AsUint32[int32](-1))
	require.Equal(t, []uint32{7}, AsUint32[uint32](7))
}

func TestManagerOnTheCPU(t *testing.T) {
	mgr, err := NewManager("cpu")
	require.NoError(t, err)
	defer mgr.Close()
	x := tensor(t, mgr.Device(), upTo(4))
	_, err = mgr.Algorithm([]AnyTensor{x}, []uint32{1})
	require.ErrorIs(t, err, ErrUnsupported)
	require.NoError(t, mgr.Sequence().Record(SyncDevice(x), SyncLocal(x)).Eval(bg), "nothing to do")
	require.Equal(t, upTo(4), read(t, x))

	_, err = NewManager("nonsense")
	require.ErrorIs(t, err, ErrNoDevice)
}

func TestSequenceCollectsErrors(t *testing.T) {
	mgr, err := NewManager("cpu")
	require.NoError(t, err)
	defer mgr.Close()
	require.NoError(t, mgr.Sequence().EvalAwait(bg), "nothing was started")
	for _, op := range []Operation{{}, Dispatch(nil), SyncDevice(nil), SyncLocal(Failed[float32](nil, ErrInvalid))} {
		seq := mgr.Sequence().Record(SyncDevice()).Record(op, op)
		require.ErrorIs(t, seq.Eval(bg), ErrInvalid)
		require.ErrorContains(t, seq.Eval(bg), "operation 1 of a sequence")
		require.NoError(t, seq.Clear().Eval(bg))
	}
}
