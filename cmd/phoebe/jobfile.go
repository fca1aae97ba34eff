package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe/shallow"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// jobFile is a job as a YAML or JSON file describes it. The keys are named like the flags of `phoebe run`.
type jobFile struct {
	ID         string        `yaml:"id"`
	Tenant     string        `yaml:"tenant"`
	Priority   int32         `yaml:"priority"`
	Deadline   time.Duration `yaml:"deadline"`
	Class      string        `yaml:"class"`
	Due        time.Duration `yaml:"due"`
	Mode       string        `yaml:"mode"`
	Policy     string        `yaml:"policy"`
	ProbeRatio float64       `yaml:"probe-ratio"`
	Labels     []string      `yaml:"labels"`
	Hosts      []string      `yaml:"hosts"`
	Phases     bool          `yaml:"phases"`
	Stages     []stageFile   `yaml:"stages"`
	Tasks      []taskFile    `yaml:"tasks"`
}

// stageFile is a stage, and the stages before it.
type stageFile struct {
	Name  string   `yaml:"name"`
	After []string `yaml:"after"`
	Along []string `yaml:"along"`
}

// taskFile describes one or several equal tasks.
type taskFile struct {
	Count         *int          `yaml:"count"` // default 1
	Stage         string        `yaml:"stage"`
	Function      string        `yaml:"function"`
	Payload       string        `yaml:"payload"`
	PayloadBase64 string        `yaml:"payload-base64"`
	Command       *commandFile  `yaml:"command"` // a process, in place of function and payload
	CPU           int32         `yaml:"cpu"`     // millicores
	Memory        int32         `yaml:"memory"`  // MiB
	Estimate      time.Duration `yaml:"estimate"`
	Timeout       time.Duration `yaml:"timeout"`
	Retries       int           `yaml:"retries"`
	Backoff       time.Duration `yaml:"backoff"`
	Once          bool          `yaml:"once"`
	Labels        []string      `yaml:"labels"`
	Hosts         []string      `yaml:"hosts"`
	Inputs        []inputFile   `yaml:"inputs"`
	Files         []neededFile  `yaml:"files"`
}

// inputFile is data that a task reads.
type inputFile struct {
	Bytes  int64      `yaml:"bytes"`
	Copies []copyFile `yaml:"copies"`
	Stage  string     `yaml:"stage"`
}

// copyFile is a place with a copy of an input.
type copyFile struct {
	At     string `yaml:"at"`
	Rack   string `yaml:"rack"`
	Memory bool   `yaml:"memory"`
}

// neededFile is a file that a task needs on the worker's disk.
type neededFile struct {
	URL    string `yaml:"url"`
	SHA256 string `yaml:"sha256"`
	Bytes  int64  `yaml:"bytes"`
}

// commandFile is a process, in place of a function and its payload.
type commandFile struct {
	Argv  []string          `yaml:"argv"`
	Env   map[string]string `yaml:"env"`
	Dir   string            `yaml:"dir"`
	Stdin string            `yaml:"stdin"`
}

// maxTasks bounds the tasks that this command puts into a job. A frontend's own limit is usually lower.
const maxTasks = 1 << 20

// wrongType matches an error of the YAML decoder about a value that is no duration, whole number or truth value. The
// error speaks of Go types.
var wrongType = regexp.MustCompile(
	`cannot unmarshal \S+ into Go struct field \S+ of type (time\.Duration|int\d*|bool)\b`)

// readJob reads a job from the named file, or from stdin if the name is "-".
func readJob(name string, stdin io.Reader) (client.Job, error) {
	var text []byte
	var err error
	if name == "-" {
		name = "standard input"
		text, err = readAllBounded(stdin, name)
	} else {
		text, err = readBounded(name)
	}
	if err != nil {
		return client.Job{}, fmt.Errorf("job file: %w", err)
	}
	var f jobFile
	if err := f.decode(text); err != nil {
		said := wrongType.ReplaceAllStringFunc(yaml.FormatError(err, false, true), func(s string) string {
			switch {
			case strings.HasSuffix(s, "time.Duration"):
				return "want a duration with its unit, such as 300ms or 2s"
			case strings.HasSuffix(s, "bool"):
				return "want true or false"
			}
			return wantWhole
		})
		return client.Job{}, fmt.Errorf("job file %s: %s", name, strings.TrimSpace(said))
	}
	job, err := f.toJob()
	if err != nil {
		return client.Job{}, fmt.Errorf("job file %s: %w", name, err)
	}
	return job, nil
}

// decode reads the text of a file.
func (f *jobFile) decode(text []byte) error {
	file, err := shallow.Parse(text)
	if err != nil || len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return err
	}
	if len(file.Docs) > 1 {
		return &yaml.SyntaxError{Message: "a second document: a job file has only one", Token: file.Docs[1].Start}
	}
	body, err := prepareNode(file.Docs[0].Body, reflect.TypeOf(f))
	if err != nil {
		return err
	}
	return yaml.NodeToValue(body, f, yaml.Strict())
}

const wantWhole = "want a whole number"

// prepareNode changes the node n for the decoder, and returns the node in its place. typ is the Go type that the
// decoder makes of n, or nil if no type is known.
// Without the change, the decoder makes "7" of the text 007 and 1 of the number 1.5, and expands nested aliases to
// gigabytes.
func prepareNode(n ast.Node, typ reflect.Type) (ast.Node, error) {
	if typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	kind := reflect.Invalid
	if typ != nil && typ != reflect.TypeFor[time.Duration]() {
		kind = typ.Kind()
	}
	var err error
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return nil, &yaml.SyntaxError{Token: n.GetToken(),
			Message: "anchors, aliases and << are not read here, as they expand without bound: write the values out"}
	case *ast.MappingNode:
		for _, entry := range n.Values {
			if entry.Key, err = prepareKey(entry.Key, kind == reflect.Map); err != nil {
				return nil, err
			}
			if entry.Value, err = prepareNode(entry.Value, entryType(typ, entry.Key)); err != nil {
				return nil, err
			}
		}
	case *ast.SequenceNode:
		var element reflect.Type
		if kind == reflect.Slice {
			element = typ.Elem()
		}
		for i := range n.Values {
			if n.Values[i], err = prepareNode(n.Values[i], element); err != nil {
				return nil, err
			}
		}
	case *ast.TagNode:
		n.Value, err = prepareNode(n.Value, typ)
		return n, err
	case *ast.NullNode:
		if kind == reflect.String && n.Token.Type != token.ImplicitNullType {
			return nil, &yaml.SyntaxError{Token: n.Token, Message: "null is no text: quote the word, or leave it out"}
		}
	case *ast.StringNode, *ast.FloatNode, *ast.IntegerNode, *ast.InfinityNode, *ast.NanNode, *ast.BoolNode:
		switch kind {
		case reflect.String:
			return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: n.GetToken(), Value: scalarText(n)}, nil
		case reflect.Int, reflect.Int32, reflect.Int64:
			if x, err := strconv.ParseFloat(scalarText(n), 64); err == nil && x != math.Trunc(x) {
				return nil, &yaml.SyntaxError{Token: n.GetToken(), Message: wantWhole}
			}
		}
	}
	return n, nil
}

// prepareKey changes the key of a mapping as prepareNode changes a node. In a Go map, the key is a text.
func prepareKey(key ast.MapKeyNode, inMap bool) (ast.MapKeyNode, error) {
	var typ reflect.Type
	if inMap {
		typ = reflect.TypeFor[string]()
	}
	n, err := prepareNode(key, typ)
	if text, ok := n.(ast.MapKeyNode); ok {
		key = text
	}
	return key, err
}

// entryType returns the type of a mapping's value with this key, or nil if typ has none.
func entryType(typ reflect.Type, key ast.MapKeyNode) reflect.Type {
	switch {
	case typ == nil:
		return nil
	case typ.Kind() == reflect.Map:
		return typ.Elem()
	case typ.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(typ) {
			if f.Tag.Get("yaml") == key.GetToken().Value {
				return f.Type
			}
		}
	}
	return nil
}

// toJob converts the file's job for the client.
func (f *jobFile) toJob() (client.Job, error) {
	job := client.Job{
		ID: f.ID, Tenant: f.Tenant, Priority: f.Priority, Deadline: f.Deadline, Class: client.Class(f.Class),
		Due: f.Due, Mode: client.Mode(f.Mode),
		Policy: client.Policy(f.Policy), ProbeRatio: f.ProbeRatio, Constraint: client.Constraint{Labels: f.Labels,
			Hosts: f.Hosts},
		Phases: f.Phases,
	}
	for _, s := range f.Stages {
		job.Stages = append(job.Stages, client.Stage{Name: s.Name, After: s.After, Along: s.Along})
	}
	if len(f.Tasks) == 0 {
		return job, errors.New("no tasks: list a task or more under tasks, such as {function: echo, payload: hello}")
	}
	for i := range f.Tasks {
		t, err := f.Tasks[i].toTask()
		if err != nil {
			return job, fmt.Errorf("tasks[%d]: %w", i, err)
		}
		count := 1
		if c := f.Tasks[i].Count; c != nil {
			count = *c
		}
		if count < 1 || count > maxTasks-len(job.Tasks) {
			return job, fmt.Errorf("tasks[%d]: count is %d: it must be 1 or more, and a job has at most %d tasks", i,
				count, maxTasks)
		}
		job.Tasks = append(job.Tasks, slices.Repeat([]client.Task{t}, count)...)
	}
	return job, nil
}

// toTask converts a task for the client, without its count.
func (f *taskFile) toTask() (client.Task, error) {
	t := client.Task{
		Function: f.Function, Payload: []byte(f.Payload), Demand: client.Demand{CPU: f.CPU, Memory: f.Memory},
		Estimate: f.Estimate, Timeout: f.Timeout, Retries: f.Retries, Backoff: f.Backoff, Once: f.Once,
		Constraint: client.Constraint{Labels: f.Labels, Hosts: f.Hosts}, Stage: f.Stage,
	}
	for _, in := range f.Inputs {
		input := client.Input{Bytes: in.Bytes, Stage: in.Stage}
		for _, c := range in.Copies {
			input.Copies = append(input.Copies, client.Copy(c))
		}
		t.Inputs = append(t.Inputs, input)
	}
	for _, n := range f.Files {
		t.Files = append(t.Files, client.File(n))
	}
	given := 0
	for _, is := range []bool{f.Payload != "", f.PayloadBase64 != "", f.Command != nil} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return t, errors.New("more than one of payload, payload-base64 and command: choose one")
	case f.Command != nil && f.Function != "":
		return t, errors.New("both function and command: leave out function, because exec runs commands")
	case f.Command == nil && f.Function == "":
		return t, errors.New("function is missing: name a function of the workers, such as echo")
	}
	var err error
	if f.PayloadBase64 != "" {
		if t.Payload, err = base64.StdEncoding.DecodeString(f.PayloadBase64); err != nil {
			return t, fmt.Errorf("payload-base64: %w", err)
		}
	}
	if c := f.Command; c != nil {
		if t.Function = execFunction; len(c.Argv) > 0 {
			t.Class = filepath.Base(c.Argv[0]) // each program has its own estimates
		}
		t.Payload, err = exec.Command{Argv: c.Argv, Env: c.Env, Dir: c.Dir, Stdin: c.Stdin}.Encode()
	}
	return t, err
}

// execFunction is the function for processes, at workers with --allow-exec.
const execFunction = "exec"
