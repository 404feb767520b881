package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Stream is an answer that is written piece by piece, with status 200. An error cuts the
// connection, so that nobody takes what came before it for the whole.
type Stream interface {
	// Stream writes the answer, which is JSON, in small pieces.
	Stream(ctx context.Context, w io.Writer) error
}

// pieceSize is how much of an answer is sent at a time, in bytes.
const pieceSize = 32 << 10

// packers are gzip writers of the fastest level, which are costly to create.
var packers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // fails for unknown levels only
	return z
}}

// sendStream writes a stream, compressed if the client accepts gzip.
func sendStream(w http.ResponseWriter, r *http.Request, s Stream) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Add("Vary", "Accept-Encoding")
	write := plain
	if takesGzip(r.Header["Accept-Encoding"]) {
		header.Set("Content-Encoding", "gzip")
		write = packed
	}
	if err := write(r.Context(), patient{w}, s); err != nil {
		NoteOf(r).Fail(fmt.Errorf("the answer was cut: %w", err))
		panic(http.ErrAbortHandler)
	}
}

func plain(ctx context.Context, w io.Writer, s Stream) error {
	b := bufio.NewWriterSize(w, pieceSize)
	if err := s.Stream(ctx, b); err != nil {
		return err
	}
	return b.Flush()
}

func packed(ctx context.Context, w io.Writer, s Stream) error {
	b := bufio.NewWriterSize(w, pieceSize)
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(b)
	if err := plain(ctx, z, s); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return b.Flush()
}

// patient gives the client time for each piece.
type patient struct{ http.ResponseWriter }

func (p patient) Write(piece []byte) (int, error) {
	extendDeadline(p.ResponseWriter, time.Now())
	return p.ResponseWriter.Write(piece)
}
