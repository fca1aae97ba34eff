// Package poll follows files that change, by a look every second. Polling also sees a file behind a link, in a folder
// that is replaced as a whole (as Kubernetes does), and on a network file system. Notices of the kernel miss those.
package poll

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// Every is the time between two looks. Only tests change Every, before the first look.
var Every = time.Second

// settle is the time after which a changed file is read again. If the file has changed again, its writer may not have
// finished.
const settle = 20 * time.Millisecond

// maxSettling bounds the reads of a file that never stops changing.
const maxSettling = 50

// Changes calls look every second until ctx ends. Changes calls report with nil after each change, and with the error
// of look, but only once if the error stays the same.
func Changes(ctx context.Context, report func(error), look func() (changed bool, err error)) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := look()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if changed || text != "" && text != reported {
			report(err)
		}
		reported = text
	}
}

// File is a file to be read whole, again and again. One goroutine at a time may use a File.
type File struct {
	Name  string
	text  []byte
	state fileState
	pause func() // waits for a writer; for tests. Nil: for the time of settle
}

type fileState int

const (
	neverRead fileState = iota
	wasRead
	couldNotRead
)

// readRegular is os.ReadFile for regular files. A pipe is an error: a read would wait for a writer, perhaps for ever.
func readRegular(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is open at once
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, and cannot be read again and again", name)
	}
	return io.ReadAll(file)
}

// Read reads the file, which must be a regular file. changed means that the file has no error, and differs from the
// text of the last Read. Read reads a changed file until the writer has finished.
func (f *File) Read() (text []byte, changed bool, err error) {
	last := f.state
	f.state = couldNotRead
	if text, err = readRegular(f.Name); err != nil {
		return nil, false, err
	}
	for n := 0; last != neverRead && !bytes.Equal(text, f.text) && n < maxSettling; n++ {
		if f.pause != nil {
			f.pause()
		} else {
			time.Sleep(settle)
		}
		before := text
		if text, err = readRegular(f.Name); err != nil {
			return nil, false, err
		}
		if bytes.Equal(text, before) {
			break
		}
	}
	changed = last != wasRead || !bytes.Equal(text, f.text)
	f.state, f.text = wasRead, text
	return text, changed, nil
}
