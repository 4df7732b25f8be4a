package clients

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "a folder for pictures of the page")

// browser is the first Chromium that is installed.
func browser(t *testing.T) string {
	t.Helper()
	names := []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.Fail(t, "no browser", "install Debian's %s", names[0])
	return ""
}

// tab is the chat page in a browser. Errors that the page logs fail the test.
type tab struct {
	*testing.T
	ctx      context.Context
	mu       sync.Mutex
	messages []string
}

func open(t *testing.T) *tab {
	t.Helper()
	url := server(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser(t)), chromedp.NoSandbox) // tests may run as root
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	b := &tab{T: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	b.run(chromedp.Navigate(url), chromedp.WaitVisible(css("#prompt")))
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.messages = append(b.messages, e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
	case *log.EventEntryAdded: // including violations of the content security policy
		b.messages = append(b.messages, e.Entry.Text)
	}
}

// complaints returns the errors that the page has logged since the last call.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.messages
	b.messages = nil
	return out
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.ctx, actions...))
}

// result runs an action that has one.
func result[T any](b *tab, a chromedp.Action[T]) T {
	b.Helper()
	out, err := chromedp.Run(b.ctx, a)
	require.NoError(b, err)
	return out
}

// css is a selector of elements.
type css = chromedp.CSS

func (b *tab) text(selector css) string {
	b.Helper()
	return result(b, chromedp.TextContent(selector))
}

// eventually waits until a JavaScript expression is true.
func (b *tab) eventually(expression string) {
	b.Helper()
	b.run(chromedp.Poll[chromedp.Void](expression))
}

func (b *tab) is(expression string) {
	b.Helper()
	require.True(b, result(b, chromedp.Evaluate[bool](expression)), expression)
}

// set fills in a field of the settings, as typing and leaving it does.
func (b *tab) set(id, value string) {
	b.Helper()
	b.run(chromedp.Evaluate[chromedp.Void](`{ const e = document.getElementById("` + id + `"); e.value = "` + value + `"; e.dispatchEvent(new Event("change")); }`))
}

func (b *tab) picture(name string) {
	b.Helper()
	if *screenshots == "" {
		return
	}
	require.NoError(b, os.WriteFile(filepath.Join(*screenshots, name+".png"), result(b, chromedp.CaptureScreenshot()), 0o644))
}

// ask types a question and Enter.
func (b *tab) ask(question string) {
	b.Helper()
	b.run(chromedp.SendKeys(css("#prompt"), question))
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13})
		require.NoError(b, err)
	}
	b.is(`document.getElementById("prompt").value === ""`)
}

func TestPage(t *testing.T) {
	b := open(t)
	// Without the key, the page reports that, and shows where to enter it.
	b.eventually(`document.getElementById("model").textContent.includes("API key")`)
	b.is(`document.getElementById("settings").open`)
	require.Len(t, b.complaints(), 1, "the browser's own line about 401")
	b.picture("key")
	b.set("key", key)
	b.eventually(`document.title === "` + model + `"`)
	b.set("temperature", "0")
	b.run(chromedp.Click(css("#settings summary")))

	b.ask("Hi what is your name")
	b.run(chromedp.WaitVisible(css(".rate")))
	require.Equal(t, name, b.text(".answer .text"))
	require.Equal(t, "Hi what is your name", b.text(".user"))
	require.Regexp(t, `^\d+ tokens · [\d.]+ tokens/s · first after [\d.]+ s$`, b.text(".rate"))
	require.Contains(t, b.text(".thoughts"), "asked for my name")
	b.is(`!document.querySelector(".thoughts").open`)
	b.run(chromedp.Click(css(".thoughts summary")), chromedp.WaitVisible(css(".thoughts > div")))
	b.picture("light")

	// A second question, which the model sees together with the first; then a phone in dark
	// mode.
	b.ask("What is 17 plus 25?")
	b.eventually(`document.querySelectorAll(".rate").length === 2`)
	b.run(chromedp.EmulateViewport(360, 640, chromedp.EmulateMobile, chromedp.EmulateTouch))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	require.NoError(t, err)
	b.is(`document.documentElement.scrollWidth <= innerWidth`)
	b.is(`document.getElementById("send").getBoundingClientRect().bottom <= innerHeight`)
	b.is(`getComputedStyle(document.body).backgroundColor === "rgb(22, 22, 24)"`)
	b.picture("phone")

	// An answer that comes slowly and is stopped early.
	b.run(chromedp.Click(css("#new")))
	_, err = chromedp.Call(b.ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{DownloadThroughput: 2000, UploadThroughput: -1}},
	})
	require.NoError(t, err)
	b.ask("Hi what is your name")
	b.eventually(`document.querySelector(".thoughts > div")?.textContent.length > 3`)
	require.Equal(t, "Stop", b.text("#send"))
	b.picture("busy")
	b.run(chromedp.Click(css("#send")), chromedp.WaitVisible(css(".rate")))
	require.True(t, strings.HasSuffix(b.text(".rate"), "stopped"), b.text(".rate"))
	require.Equal(t, "Send", b.text("#send"))
	b.run(chromedp.Click(css("#new")))
	b.is(`document.getElementById("messages").children.length === 0`)

	// A question that the server rejects.
	b.set("limit", "0")
	b.ask("Hi")
	b.run(chromedp.WaitVisible(css(".error")))
	require.Contains(t, b.text(".error"), "max_tokens")
	require.Len(t, b.complaints(), 1, "the browser's own line about 400")
}
