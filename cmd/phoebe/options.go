package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/alecthomas/kong"
	"github.com/cloudwego/kitex/pkg/klog"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// size is a number of bytes, written as 64MiB or as a plain number.
type size int

var sizeType = reflect.TypeFor[size]()

var sizeUnits = []struct {
	name string
	n    float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// text is the size in the largest unit of which it is a whole number.
func (s size) text() string {
	for _, u := range []int{2, 1, 0} {
		if n := size(sizeUnits[u].n); s != 0 && s%n == 0 {
			return fmt.Sprint(int(s/n), sizeUnits[u].name)
		}
	}
	return fmt.Sprint(int(s))
}

type sizeMapper struct{}

// Decode implements kong.Mapper.
func (sizeMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("size", &text); err != nil {
		return err
	}
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if n *= u.n; err != nil || n < 0 || n > math.MaxInt32*1024 || n != math.Trunc(n) {
				break
			}
			target.SetInt(int64(n))
			return nil
		}
	}
	return fmt.Errorf("size %q: want a number of bytes, such as 65536, 64KiB, 16MiB or 2GiB", text)
}

// secretFlags tell the shared secret. There is no flag for the secret itself: all users of a machine can read
// command lines.
type secretFlags struct {
	SecretFile string `env:"PHOEBE_SECRET_FILE" placeholder:"FILE" help:"File with the secret that frontends, workers and clients of a cluster share; needed beyond loopback without --tls-dir. While it is replaced the file has two lines: the first is told, and either is taken. Read again when it changes. The secret itself may be in $$PHOEBE_SECRET. Default: none."`
	TLSDir     string `name:"tls-dir" env:"PHOEBE_TLS_DIR" placeholder:"DIR" help:"Folder with ca.crt, tls.crt and tls.key: all connections are by mutual TLS 1.3 then, by certificates that tell a role, instead of the secret, which only gossip uses. Read again when it changes. Default: none, connections are in plain."`
}

// keys are those of --tls-dir; nil for none.
func (s *secretFlags) keys() (*identity.Keys, error) {
	if s.TLSDir == "" {
		return nil, nil
	}
	keys, err := identity.Open(s.TLSDir)
	if err != nil {
		return nil, usage(fmt.Errorf("--tls-dir: %w", err))
	}
	return keys, nil
}

// sound says what is wrong with the keys of --tls-dir, also what only others would refuse.
func (s *secretFlags) sound() error {
	if s.TLSDir == "" {
		return nil
	}
	if _, err := identity.Open(s.TLSDir); err != nil {
		return nil // it has been said
	}
	var errs []error
	for _, f := range identity.Examine(s.TLSDir, identity.Anyone, time.Now()) { // the role has been looked at
		if !f.Soon {
			errs = append(errs, fmt.Errorf("--tls-dir: %s: %s", f.Problem, f.Remedy))
		}
	}
	return errors.Join(errs...)
}

// trust is by what a process knows its peers, and where it is written down what they ask for.
type trust struct {
	keys    *identity.Keys
	secrets *identity.Secrets
	audit   *audit.Log
}

// watch takes in what changes in --tls-dir and --secret-file, until ctx ends.
func (t trust) watch(ctx context.Context, log *slog.Logger) {
	told := func(flag string) func(error) {
		return func(err error) {
			if t.audit.Note(audit.Entry{What: "configuration", Name: flag}, err); err != nil {
				log.Error("what is there cannot be used: what was there before counts on", "flag", flag, "err", err)
			} else {
				log.Info("read again", "flag", flag)
			}
		}
	}
	go t.keys.Watch(ctx, told("--tls-dir"))
	go t.secrets.Watch(ctx, told("--secret-file"))
}

// open opens the audit log, if a file is named, and has it told of those whom the keys refuse. Metrics of both go into the set.
func (t *trust) open(auditLog string, set *metrics.Set) (err error) {
	set.NewGauge("phoebe_tls_certificate_expiry_seconds", func() float64 {
		if t.keys == nil {
			return math.Inf(1)
		}
		return time.Until(t.keys.Until()).Seconds()
	})
	dropped := set.NewCounter("phoebe_audit_dropped_total")
	if auditLog == "" {
		return nil
	}
	if t.audit, err = audit.Open(auditLog, dropped); err != nil {
		return usage(fmt.Errorf("--audit-log: %w", err))
	}
	if t.keys != nil {
		t.keys.Refused = func(from string, why error) { t.audit.Note(audit.Entry{What: "connect", From: from}, why) }
	}
	return nil
}

const secretVariable = "PHOEBE_SECRET"

func (s *secretFlags) secrets() (*identity.Secrets, error) {
	if s.SecretFile == "" {
		return identity.NewSecrets(os.Getenv(secretVariable)), nil
	}
	secrets, err := identity.OpenSecrets(s.SecretFile)
	if err != nil {
		return nil, usage(fmt.Errorf("--secret-file: %w", err))
	}
	return secrets, nil
}

// weights are the tenants' shares of a worker that queues by fair order.
type weights map[string]float64

// slotFlags say what a worker has.
type slotFlags struct {
	CPU    int `placeholder:"N" help:"CPU to give to tasks, in millicores. Default: 1000 for each slot."`
	Memory int `placeholder:"N" help:"Memory to give to tasks, in MiB. Default: 256 for each slot."`
}

func (s *slotFlags) capacity(slots int) (probe.Demand, error) {
	if slots < 1 || slots > 100_000 {
		return probe.Demand{}, usage(fmt.Errorf("--slots is %d: it must be from 1 to 100000", slots))
	}
	if s.CPU < 0 || s.CPU > 1<<30 || s.Memory < 0 || s.Memory > 1<<30 {
		return probe.Demand{}, usage(errors.New("--cpu and --memory must be from 1 to 1073741824"))
	}
	d := probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(slots), Mem: probe.Slot.Mem * probe.MiB(slots)}
	if s.CPU > 0 {
		d.CPU = probe.Millicores(s.CPU)
	}
	if s.Memory > 0 {
		d.Mem = probe.MiB(s.Memory)
	}
	return d, nil
}

type (
	logFormat string
	logLevel  string
)

// newLogger makes the log, and brings into it what Kitex says that matters.
func newLogger(format logFormat, level logLevel, w io.Writer) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // kong has checked it
	var h slog.Handler
	if o := (&slog.HandlerOptions{Level: l}); format == "json" {
		h = slog.NewJSONHandler(w, o)
	} else {
		h = slog.NewTextHandler(w, o)
	}
	log := slog.New(h)
	klog.SetLevel(klog.LevelError)
	klog.SetOutput(kitexLog{log})
	return log
}

// kitexLog is a writer of lines that Kitex logs. What peers do to their connections is not an error of ours.
type kitexLog struct{ log *slog.Logger }

var peersDoing = []string{
	"use of closed network connection", "connection reset by peer", "broken pipe", "EOF", "i/o timeout",
	"unknown protocol", "invalid", "codec", "exceed", "decode",
}

// Write implements io.Writer.
func (k kitexLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level := slog.LevelError
	for _, s := range peersDoing {
		if strings.Contains(text, s) {
			level = slog.LevelDebug
		}
	}
	k.log.Log(context.Background(), level, "kitex", "err", text)
	return len(line), nil
}
