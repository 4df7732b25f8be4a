package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kompute-go/kompute-go/kompute"
)

// listDevices prints a table of the devices, best first, with what --device
// takes to choose each, or the same as a JSON array.
func listDevices(out io.Writer, asJSON bool) error {
	devices, why := kompute.Devices()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(devices)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEVICE\tNAME\tTYPE\tMEMORY\tDRIVER\tUSABLE")
	for _, d := range devices {
		choice := d.Backend
		if d.Backend == "vulkan" {
			choice = fmt.Sprintf("vulkan:%d", d.Index)
		}
		usable := "yes"
		if !d.Usable {
			usable = "no: " + d.Why
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f GiB\t%s\t%s\n", choice, d.Name, d.Type, float64(d.MemoryTotal)/(1<<30), d.Driver, usable)
	}
	var note error
	if why != nil {
		_, note = fmt.Fprintf(w, "\nNo Vulkan device: %s\n", oneLine(why))
	}
	return errors.Join(note, w.Flush())
}
