package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Ask writes a question and returns the line that answers it, without spaces
// around it. An interrupt ends the wait; the read itself ends with the process.
func Ask(ctx context.Context, in io.Reader, out io.Writer, prompt string) (string, error) {
	fmt.Fprint(out, prompt)
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := readLine(in)
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		return strings.TrimSpace(a.line), a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4096

// readLine reads up to a line break, and no byte of what follows.
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
