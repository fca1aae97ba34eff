package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Command is the payload of the function "exec", as JSON: a process to run. The process's standard output is the
// task's result. The last 4 KiB of its standard error go into the message of a task that fails.
//
// The environment variables PHOEBE_FILE_0, PHOEBE_FILE_1 and so on hold the paths of the task's files, in the order
// of the task's list. The process may report its progress to the file descriptor named by PHOEBE_PROGRESS_FD: each
// time, a line with a number from 0 to 1 (see [Progress]).
type Command struct {
	// Argv is the program and its arguments. Argv[0] is looked up in PATH unless it has a slash.
	Argv []string `json:"argv"`
	// Env is the whole environment, apart from the variables for files and progress, and PATH. PATH is the worker's
	// unless Env sets PATH.
	Env map[string]string `json:"env,omitempty"`
	// Dir is the working directory; by default the worker's.
	Dir string `json:"dir,omitempty"`
	// Stdin is the standard input, or StdinBase64 for bytes that are not text; by default empty.
	Stdin       string `json:"stdin,omitempty"`
	StdinBase64 []byte `json:"stdin_base64,omitempty"`
}

// Encode validates c and returns c as a payload.
func (c Command) Encode() ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return json.Marshal(c)
}

// decodeCommand parses and validates the payload of "exec". Unknown fields are errors.
func decodeCommand(payload []byte) (Command, error) {
	var c Command
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	err := d.Decode(&c)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is more after the object")
		}
	}
	if err != nil {
		return c, fmt.Errorf(
			`exec: the payload is not a JSON object like {"argv": ["sort", "-n"], "dir": "/", "stdin": "2\n1\n"}: %w`,
			err)
	}
	return c, c.validate()
}

// validate returns all errors of c, joined.
func (c *Command) validate() error {
	var errs []error
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		errs = append(errs, errors.New("exec: argv[0] is missing: it names the program"))
	}
	for i, a := range c.Argv {
		if strings.ContainsRune(a, 0) {
			errs = append(errs, fmt.Errorf("exec: argv[%d] has a NUL byte, which no process can receive", i))
		}
	}
	for k, v := range c.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			errs = append(errs, fmt.Errorf(
				"exec: env %q is impossible: a name needs a character and no '='; NUL bytes are not allowed", k))
		}
	}
	if c.Stdin != "" && len(c.StdinBase64) > 0 {
		errs = append(errs, errors.New("exec: both stdin and stdin_base64 are given: choose one"))
	}
	return errors.Join(errs...)
}
