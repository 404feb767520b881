package mqtt

import (
	"log/slog"
	"sync"
	"time"
)

// quiet is the least time between two log lines with the same message.
const quiet = time.Minute

// sparseLog logs each message, a fixed text, at most once a minute.
type sparseLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last map[string]time.Time // by message
}

func newSparseLog(log *slog.Logger) *sparseLog {
	return &sparseLog{log: log, now: time.Now, last: map[string]time.Time{}}
}

func (l *sparseLog) info(message string, args ...any) {
	if l.due(message) {
		l.log.Info(message, args...)
	}
}

func (l *sparseLog) warn(message string, args ...any) {
	if l.due(message) {
		l.log.Warn(message, args...)
	}
}

func (l *sparseLog) due(message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if last, ok := l.last[message]; ok && now.Sub(last) < quiet {
		return false
	}
	l.last[message] = now
	return true
}
