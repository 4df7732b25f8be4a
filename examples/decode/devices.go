package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kompute-go/kompute-go/kompute"
)

// listDevices prints a table of the devices, best first, with the value of --device
// that selects each, or the same as a JSON array.
func listDevices(out io.Writer, asJSON bool) error {
	devices, why := kompute.Devices()
	if asJSON {
		return writeDevices(out, devices)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEVICE\tNAME\tTYPE\tMEMORY\tDRIVER\tUSABLE")
	for _, d := range devices {
		usable := "yes"
		if !d.Usable {
			usable = "no: " + d.UnusableReason
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f GiB\t%s\t%s\n", deviceSpec(d), d.Name, d.Type, float64(d.MemoryTotal)/(1<<30), d.Driver, usable)
	}
	if err := w.Flush(); err != nil || why == nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nNo Vulkan device: %s\n", oneLine(why))
	return err
}

// deviceSpec is the value of --device that selects a device.
func deviceSpec(d kompute.DeviceInfo) string {
	if d.Backend == "vulkan" {
		return fmt.Sprintf("vulkan:%d", d.Index)
	}
	return d.Backend
}

// deviceReport is a device as --json prints it.
type deviceReport struct {
	Backend         string `json:"backend"`
	Index           int    `json:"index"`
	Name            string `json:"name"`
	Driver          string `json:"driver"`
	UUID            string `json:"uuid"`
	Type            string `json:"type"`
	APIVersion      string `json:"api_version"`
	SubgroupSize    int    `json:"subgroup_size"`
	MemoryTotal     int64  `json:"memory_total_bytes"`
	MemoryAvailable int64  `json:"memory_available_bytes"`
	MaxTensorBytes  int64  `json:"max_tensor_bytes"`
	Usable          bool   `json:"usable"`
	UnusableReason  string `json:"unusable_reason"`
}

func writeDevices(out io.Writer, devices []kompute.DeviceInfo) error {
	reports := []deviceReport{}
	for _, d := range devices {
		reports = append(reports, deviceReport{
			Backend: d.Backend, Index: d.Index, Name: d.Name, Driver: d.Driver, UUID: d.UUID, Type: d.Type,
			APIVersion: d.APIVersion, SubgroupSize: d.SubgroupSize, MemoryTotal: d.MemoryTotal,
			MemoryAvailable: d.MemoryAvailable, MaxTensorBytes: d.MaxTensorBytes, Usable: d.Usable, UnusableReason: d.UnusableReason,
		})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(reports)
}
