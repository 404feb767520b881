package cli

import (
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows the progress of a command until it prints its result: a bar on a terminal, or
// else a line for each step and each finished file. With --quiet it shows nothing.
type Progress struct {
	app   *App
	verb  string // past participle for finished files, such as read
	mu    sync.Mutex
	seen  map[string]int64 // bytes by verb and file
	total int64
	bar   *progressbar.ProgressBar // nil: lines
}

// NewProgress returns a Progress whose lines begin with verb, such as "read".
func (a *App) NewProgress(verb string) *Progress {
	p := &Progress{app: a, verb: verb, seen: map[string]int64{}}
	if !a.Quiet && IsTerminal(a.Stderr) {
		p.bar = progressbar.NewOptions64(1,
			progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowBytes(true), progressbar.OptionFullWidth(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	a.progress = p
	return p
}

// Step announces a step of the work.
func (p *Progress) Step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Describe(text)
		return
	}
	p.app.Say("%s", text)
}

// Transferred counts n more bytes of a file of total bytes.
func (p *Progress) Transferred(file string, n int, total int64) {
	p.count(p.verb+" "+file, n, total)
}

// Uploaded is like Transferred for a file that is uploaded after it was read.
func (p *Progress) Uploaded(file string, n int, total int64) {
	p.count("uploaded "+file, n, total)
}

func (p *Progress) count(what string, n int, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.seen[what]
	p.seen[what] = before + int64(n)
	if p.bar == nil {
		if before < total && p.seen[what] >= total {
			p.app.Say("%s (%s)", what, Size(total))
		}
		return
	}
	if !known {
		p.total += total
		p.bar.ChangeMax64(p.total)
	}
	_ = p.bar.Add(n) // only the drawing can fail
}

// EndProgress removes the bar, if there is one.
func (a *App) EndProgress() {
	if a.progress != nil && a.progress.bar != nil {
		_ = a.progress.bar.Finish() // only the drawing can fail
	}
	a.progress = nil
}
