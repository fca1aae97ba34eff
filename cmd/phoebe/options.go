package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
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

	"github.com/phoebe-sched/phoebe/cmd/phoebe/early"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// size is a number of bytes. Users write 64MiB or a plain number.
type size int

var sizeType = reflect.TypeFor[size]()

// sizeUnits are the units of a size, in the order of parsing: B must come after the units that end in B.
var sizeUnits = []struct {
	name string
	n    float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// inLargestUnit formats s in the largest unit that divides s.
func (s size) inLargestUnit() string {
	for _, u := range []int{2, 1, 0} {
		if n := size(sizeUnits[u].n); s != 0 && s%n == 0 {
			return fmt.Sprint(int(s/n), sizeUnits[u].name)
		}
	}
	return fmt.Sprint(int(s))
}

// sizeMapper parses sizes for kong.
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

// secretFlags name the shared secret and the certificates. There is no flag for the secret itself, because all
// users of a machine can read command lines.
type secretFlags struct {
	SecretFile string `env:"PHOEBE_SECRET_FILE" placeholder:"FILE" help:"File with the secret that frontends, workers and clients share. Needed beyond loopback without --tls-dir. During a change of secret the file has two lines: the first is sent, both are accepted. Read again when changed. Or set $$PHOEBE_SECRET. Default: none."`
	TLSDir     string `name:"tls-dir" env:"PHOEBE_TLS_DIR" placeholder:"DIR" help:"Folder with ca.crt, tls.crt and tls.key: all connections use mutual TLS 1.3. Certificates name roles and replace the secret, except for gossip. Read again when changed. Default: none, connections are in plain."`
}

// openKeys opens the keys of --tls-dir. It returns nil without --tls-dir.
func (s *secretFlags) openKeys() (*identity.Keys, error) {
	if s.TLSDir == "" {
		return nil, nil
	}
	keys, err := identity.Open(s.TLSDir)
	if err != nil {
		return nil, usageError(fmt.Errorf("--tls-dir: %w", err))
	}
	return keys, nil
}

// checkKeys returns the problems of the keys in --tls-dir, including problems that only peers would notice. The
// configuration already reports a wrong role, and a folder without usable keys, so checkKeys skips these checks.
func (s *secretFlags) checkKeys() error {
	if s.TLSDir == "" {
		return nil
	}
	if _, err := identity.Open(s.TLSDir); err != nil {
		return nil // reported by the configuration
	}
	var errs []error
	for _, f := range identity.Examine(s.TLSDir, identity.Anyone, time.Now()) { // the configuration checks the role
		if !f.Soon {
			errs = append(errs, fmt.Errorf("--tls-dir: %s: %s", f.Problem, f.Remedy))
		}
	}
	return errors.Join(errs...)
}

// trust holds the keys and secrets by which a process recognizes peers, and the log of requests. Nil fields: no
// TLS, no secret, no log.
type trust struct {
	keys    *identity.Keys
	secrets *identity.Secrets
	audit   *audit.Log

	gossipSecrets *identity.Secrets // nil: the same as secrets
}

// watchFiles reads --tls-dir and --secret-file again whenever they change, until ctx ends.
func (t trust) watchFiles(ctx context.Context, log *slog.Logger) {
	noteReload := func(flag string) func(error) {
		return func(err error) {
			if t.audit.Note(audit.Entry{What: "configuration", Name: flag}, err); err != nil {
				log.Error("the new content cannot be used: the old content stays in use", "flag", flag, "err", err)
			} else {
				log.Info("read again", "flag", flag)
			}
		}
	}
	go t.keys.Watch(ctx, noteReload("--tls-dir"))
	go t.secrets.Watch(ctx, noteReload("--secret-file"))
	go t.gossipSecrets.Watch(ctx, noteReload("--gossip-secret-file"))
}

// openAudit opens the audit log, if auditLog names a file. The log also notes peers that the keys refuse. Metrics
// of keys and log go into set.
func (t *trust) openAudit(auditLog string, set *metrics.Set) (err error) {
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
		return usageError(fmt.Errorf("--audit-log: %w", err))
	}
	if t.keys != nil {
		t.keys.Refused = func(from string, why error) { t.audit.NoteStranger(audit.Entry{What: "connect", From: from}, why) }
	}
	return nil
}

// secretVariable is the environment variable with the secret itself.
const secretVariable = "PHOEBE_SECRET"

// openSecrets opens --secret-file, or takes the secret of $PHOEBE_SECRET.
func (s *secretFlags) openSecrets() (*identity.Secrets, error) {
	if s.SecretFile == "" {
		return identity.NewSecrets(os.Getenv(secretVariable)), nil
	}
	secrets, err := identity.OpenSecrets(s.SecretFile)
	if err != nil {
		return nil, usageError(fmt.Errorf("--secret-file: %w", err))
	}
	return secrets, nil
}

// weights are the tenants' shares of a worker with the order fair.
type weights map[string]float64

// slotFlags say how much CPU and memory a worker has.
type slotFlags struct {
	CPU    int `placeholder:"N" help:"CPU for tasks, in millicores. Default: 1000 for each slot."`
	Memory int `placeholder:"N" help:"Memory for tasks, in MiB. Default: 256 for each slot."`
}

// workerCapacity returns the CPU and memory of a worker: of the flags, or else for this number of slots.
func (s *slotFlags) workerCapacity(slots int) (probe.Demand, error) {
	if slots < 1 || slots > 100_000 {
		return probe.Demand{}, usageError(fmt.Errorf("--slots is %d: it must be from 1 to 100000", slots))
	}
	if s.CPU < 0 || s.CPU > 1<<30 || s.Memory < 0 || s.Memory > 1<<30 {
		return probe.Demand{}, usageError(errors.New("--cpu and --memory must be from 1 to 1073741824"))
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

// newLogger makes the log. Lines of libraries, such as errors of Kitex, go into the same log.
func newLogger(format logFormat, level logLevel, w io.Writer) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // kong has checked the level
	var h slog.Handler
	if o := (&slog.HandlerOptions{Level: l}); format == "json" {
		h = slog.NewJSONHandler(w, o)
	} else {
		h = slog.NewTextHandler(w, o)
	}
	log := slog.New(h)
	klog.SetLevel(klog.LevelError)
	klog.SetOutput(kitexLog{log})
	stdlog.SetOutput(libraryLog{log})
	for _, line := range early.TakeLines() {
		log.Debug("a library logged a line before the command began", "line", line)
	}
	return log
}

// libraryLog takes the lines that libraries log by package log.
type libraryLog struct{ log *slog.Logger }

// Write implements io.Writer.
func (l libraryLog) Write(line []byte) (int, error) {
	l.log.Warn("a library logged a line", "line", strings.TrimSpace(string(line)))
	return len(line), nil
}

// kitexLog takes the lines that Kitex logs. Errors caused by peers are logged at level debug only.
type kitexLog struct{ log *slog.Logger }

// peerErrors are parts of Kitex's errors that peers cause.
var peerErrors = []string{
	"use of closed network connection", "connection reset by peer", "broken pipe", "EOF", "i/o timeout",
	"unknown protocol", "invalid", "codec", "exceed", "decode",
}

// Write implements io.Writer.
func (k kitexLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level := slog.LevelError
	for _, s := range peerErrors {
		if strings.Contains(text, s) {
			level = slog.LevelDebug
		}
	}
	k.log.Log(context.Background(), level, "kitex", "err", text)
	return len(line), nil
}
