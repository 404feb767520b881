package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Ask writes a question and returns the answer, a line without the spaces around it. An interrupt
// ends the wait; the read itself ends with the process.
func Ask(ctx context.Context, in io.Reader, out io.Writer, prompt string) (string, error) {
	fmt.Fprint(out, prompt)
	line, err := await(ctx, func() (string, error) { return readLine(in) })
	return strings.TrimSpace(line), err
}

// await returns what f returns, or the error of ctx if that ends first. f itself then ends with
// the process.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var value T
	done := make(chan error, 1)
	go func() {
		var err error
		value, err = f()
		done <- err
	}()
	select {
	case err := <-done:
		return value, err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4096

// readLine reads up to a line break, and nothing after it.
func readLine(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < maxAnswer; {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[:n]...)
		if errors.Is(err, io.EOF) {
			return string(line), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", Usagef("the answer is longer than %d bytes", maxAnswer)
}
