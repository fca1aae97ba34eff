package exec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
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
	// Base64 says that each argument, name and value of Env, and Dir is base64, for bytes that are not UTF-8. Encode
	// sets Base64 if necessary. Workers of release 0.1.0 refuse such a command.
	Base64 bool `json:"base64,omitempty"`
}

// Encode validates c and returns c as a payload.
func (c Command) Encode() ([]byte, error) {
	plain, err := c.decodeBase64()
	if err == nil {
		err = plain.validate()
	}
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(c.Stdin) {
		c.Stdin, c.StdinBase64 = "", []byte(c.Stdin)
	}
	if !c.Base64 && !c.isText() {
		encode := func(s string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(s)), nil }
		c, _ = c.mapStrings(encode) // encode returns no error
		c.Base64 = true
	}
	return json.Marshal(c)
}

// isText reports whether all strings of c apart from Stdin are UTF-8.
func (c *Command) isText() bool {
	_, err := c.mapStrings(func(s string) (string, error) {
		if !utf8.ValidString(s) {
			return "", errNotText
		}
		return s, nil
	})
	return err == nil
}

// mapStrings returns a copy of c with f applied to each argument, to names and values of Env, and to Dir.
func (c *Command) mapStrings(f func(string) (string, error)) (Command, error) {
	out := *c
	var errs []error
	apply := func(what, s string) string {
		s, err := f(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("exec: %s: %w", what, err))
		}
		return s
	}
	out.Argv = make([]string, len(c.Argv))
	for i, a := range c.Argv {
		out.Argv[i] = apply(fmt.Sprintf("argv[%d]", i), a)
	}
	if c.Env != nil {
		out.Env = make(map[string]string, len(c.Env))
		for k, v := range c.Env {
			out.Env[apply("a name in env", k)] = apply("env "+k, v)
		}
	}
	out.Dir = apply("dir", c.Dir)
	return out, errors.Join(errs...)
}

// decodeBase64 returns c with Base64 undone.
func (c Command) decodeBase64() (Command, error) {
	if !c.Base64 {
		return c, nil
	}
	out, err := c.mapStrings(func(s string) (string, error) {
		b, err := base64.StdEncoding.DecodeString(s)
		return string(b), err
	})
	out.Base64 = false
	return out, err
}

var errNotText = errors.New(
	`exec: the payload is not UTF-8, so bytes would be lost: set "base64": true, and give argv, env and dir as base64 ` +
		`(and stdin as stdin_base64)`)

// checkText returns errNotText if a JSON text has bytes that are not UTF-8, or half a pair of \u escapes. A JSON
// decoder would replace them without an error.
func checkText(payload []byte) error {
	if !utf8.Valid(payload) {
		return errNotText
	}
	for i := 0; i < len(payload); i++ {
		if payload[i] != '\\' {
			continue
		}
		i++ // the escaped character
		if unit := escapedUnit(payload[i-1:]); utf16.IsSurrogate(unit) {
			if utf16.DecodeRune(unit, escapedUnit(payload[min(i+5, len(payload)):])) == utf8.RuneError {
				return errNotText
			}
			i += 10 // to the end of the pair
		}
	}
	return nil
}

// escapedUnit returns the code unit of an escape \uXXXX at the beginning of b, or 0.
func escapedUnit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	unit, _ := strconv.ParseUint(string(b[2:6]), 16, 16) // the JSON decoder reports an error
	return rune(unit)
}

// decodeCommand parses and validates the payload of "exec". Unknown fields are errors.
func decodeCommand(payload []byte) (Command, error) {
	var c Command
	if err := checkText(payload); err != nil {
		return c, err
	}
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
	c, err = c.decodeBase64()
	if err != nil {
		return c, err
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
