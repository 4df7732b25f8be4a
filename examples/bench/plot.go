package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kompute-go/kompute-go/internal/cli"
)

// plotter is the program that draws results. It is a separate module, in plot/, so
// that this one needs no plotting library.
const plotter = "benchplot"

// checkPlot checks, before a long measurement, whether it can be drawn.
func (o *options) checkPlot() error {
	if o.plot == "" {
		return nil
	}
	if o.ops == "" && len(o.threads) > 0 {
		return errors.New("--plot: the results of --threads cannot be drawn")
	}
	if ext := strings.ToLower(filepath.Ext(o.plot)); ext != ".svg" && ext != ".png" {
		return fmt.Errorf("--plot: %s ends neither in .svg nor in .png", o.plot)
	}
	if _, err := findPlotter(); err != nil {
		return err
	}
	return cli.CheckOutput("plot", o.plot)
}

// findPlotter looks beside this program, then on PATH.
func findPlotter() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), plotter)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(plotter)
	if err != nil {
		return "", fmt.Errorf("--plot: %s is neither beside this program nor on PATH; build it in examples/bench/plot, or run ./build.sh bench --plot FILE", plotter)
	}
	return path, nil
}

// draw hands the results to the plotter.
func draw(ctx context.Context, file string, results any) error {
	path, err := findPlotter()
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil { // so that a name with a dash in front is not a flag
		return fmt.Errorf("--plot: %w", err)
	}
	data, err := json.Marshal(results)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, file)
	cmd.Stdin = bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("--plot: %s: %w: %s", plotter, err, bytes.TrimSpace(out))
	}
	return nil
}
