package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
)

// The error of a load from a checkpoint that was closed says so: its tensors are not missing from the folder.
func TestLoadOfAClosedCheckpoint(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, c.Close())
	_, err = model.Load(t.Context(), d, c, model.Options{})
	require.ErrorIs(t, err, checkpoint.ErrMissing)
	require.ErrorContains(t, err, "the checkpoint is closed")
}
