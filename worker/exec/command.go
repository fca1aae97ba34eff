package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Command is the payload of the function "exec", as JSON: a process to run. Its standard output is the
// task's result; its standard error is kept only for the message of a task that fails, the last 4 KiB. The paths of the
// files that the task needs are in PHOEBE_FILE_0, PHOEBE_FILE_1 and so on of its environment, in the order in which the
// task names them. It may write which share of its work it has done, a line with a number from 0 to 1 each time, to the file
// descriptor that PHOEBE_PROGRESS_FD names: see [Progress].
type Command struct {
	// Argv is the program and its arguments. Argv[0] is looked up in PATH unless it has a slash.
	Argv []string `json:"argv"`
	// Env is the whole environment but for the files and the progress, and for PATH, which is the worker's unless given here.
	Env map[string]string `json:"env,omitempty"`
	// Dir is where it runs; by default where the worker does.
	Dir string `json:"dir,omitempty"`
	// Stdin, or StdinBase64 for what is not text, is its standard input; by default that is empty.
	Stdin       string `json:"stdin,omitempty"`
	StdinBase64 []byte `json:"stdin_base64,omitempty"`
}

// Encode returns c as a payload.
func (c Command) Encode() ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return json.Marshal(c)
}

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
		return c, fmt.Errorf(`exec: the payload is not a JSON object like {"argv": ["sort", "-n"], "env": {}, "dir": "/", "stdin": "2\n1\n"}: %w`, err)
	}
	return c, c.validate()
}

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
			errs = append(errs, fmt.Errorf("exec: env %q is impossible: a name is not empty and has no '=', and neither name nor value has a NUL byte", k))
		}
	}
	if c.Stdin != "" && len(c.StdinBase64) > 0 {
		errs = append(errs, errors.New("exec: both stdin and stdin_base64 are given: choose one"))
	}
	return errors.Join(errs...)
}
