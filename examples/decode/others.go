package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/kompute-go/kompute-go/kompute"
)

// compareDevices answers a prompt on every other device that can be used, one
// after the other, and prints how fast each was in a line, or why it failed.
// Ctrl-C ends that.
func (a *app) compareDevices(ctx context.Context, prompt []int) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	devices, _ := kompute.Devices() // the error is why there is no Vulkan; the list is valid even then
	for _, d := range otherDevices(devices, a.device.Info()) {
		line, err := a.timeDevice(ctx, d, prompt)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			line = oneLine(err)
		}
		if err := a.print(fmt.Sprintf("%s (%s): %s\n", d.Name, d.Backend, line)); err != nil {
			return err
		}
	}
	return nil
}

// otherDevices returns the usable ones of devices, without the one in use.
func otherDevices(devices []kompute.DeviceInfo, used kompute.DeviceInfo) []kompute.DeviceInfo {
	return slices.DeleteFunc(slices.Clone(devices), func(d kompute.DeviceInfo) bool {
		return !d.Usable || d.Backend == used.Backend && d.Index == used.Index
	})
}

// timeDevice answers a prompt on a device and reports how fast that was.
func (a *app) timeDevice(ctx context.Context, d kompute.DeviceInfo, prompt []int) (line string, err error) {
	device, err := kompute.Open(deviceSpec(d), a.options.computing()...)
	if err != nil {
		return "", err
	}
	defer closeInto(&err, device)
	o := *a.options
	o.quiet = true // no bars
	o.replace = 0
	one := &app{options: &o, folder: a.folder, device: device, stdout: io.Discard, stderr: a.stderr}
	if err := one.load(ctx, [][]int{prompt}); err != nil {
		return "", err
	}
	defer closeInto(&err, one)
	if _, err := one.generate(ctx, prompt, func(string) error { return nil }); err != nil {
		return "", err
	}
	return one.speed(), nil
}
