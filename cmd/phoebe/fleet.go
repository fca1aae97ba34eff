package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/ports"
)

// Recipes of the packages. A rehearsal runs the same recipes, with its own addresses.
var (
	//go:embed packaging/haproxy.cfg
	haproxyRecipe string
	//go:embed packaging/haproxy.tls.cfg
	haproxyTLSRecipe string
	//go:embed packaging/nginx.conf
	nginxRecipe string
)

// fleet is a set of frontends, workers and a balancer, as processes of this machine.
type fleet struct {
	out         *streams
	log         *slog.Logger
	drainWithin time.Duration // for a process to drain after SIGTERM
	running     sync.WaitGroup
	mu          sync.Mutex // held to print
}

// member is a process of a fleet.
type member struct {
	kind, addr string
	args       []string // the first is the program
}

// runFleet runs a fleet until ctx ends. A process that ends is started again, on the same addresses.
func (c *devCmd) runFleet(ctx context.Context, out *streams, log *slog.Logger, frontends, workers int) error {
	if err := c.checkFleetFlags(); err != nil {
		return usageError(err)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	balancer, err := c.findBalancer()
	if err != nil {
		return usageError(err)
	}
	dir, err := os.MkdirTemp("", "phoebe-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	keys := map[string]string{} // folders by kind of process; no entry: no keys
	if c.TLS {
		if keys, err = c.fleetKeys(dir); err != nil {
			return err
		}
	}
	port := devPort
	if c.FrontendPort != nil {
		port = *c.FrontendPort
	}
	addrs, err := freeAddresses(port, c.FrontendPort == nil, 1+4*frontends+workers)
	if err != nil {
		return err
	}
	take := func() (addr string) {
		addr, addrs = addrs[0], addrs[1:]
		return addr
	}
	entry := take()
	apis, gossips, heartbeats, admins := make([]string, frontends), make([]string, frontends),
		make([]string, frontends), make([]string, frontends)
	for i := range frontends {
		apis[i], gossips[i], heartbeats[i], admins[i] = take(), take(), take(), take()
	}
	name := filepath.Base(balancer)
	// only on Linux does all of 127.0.0.0/8 belong to the machine
	introduces := name == "haproxy" && runtime.GOOS == "linux"
	var members []member
	for i := range frontends {
		args := []string{
			program, "frontend", "--name", fmt.Sprint("frontend-", i), "--listen", apis[i], "--gossip", gossips[i],
			"--heartbeat", heartbeats[i], "--admin", admins[i],
			"--join", strings.Join(gossips, ","),
		}
		if introduces {
			args = append(args, "--proxy-from", balancerHost+"/32")
		}
		members = append(members, member{"frontend", apis[i], args})
	}
	for i := range workers {
		addr := take()
		args := []string{
			program, "worker", "--name", fmt.Sprint("worker-", i), "--listen", addr, "--slots", fmt.Sprint(c.Slots),
			"--join", strings.Join(heartbeats, ","),
		}
		if c.AllowExec {
			args = append(args, "--allow-exec")
		}
		members = append(members, member{"worker", addr, args})
	}
	for i := range members {
		members[i].args = append(members[i].args, "--drain-timeout", c.DrainTimeout.String())
		if c.SecretFile != "" {
			members[i].args = append(members[i].args, "--secret-file", c.SecretFile)
		}
		if dir := keys[members[i].kind]; dir != "" {
			members[i].args = append(members[i].args, "--tls-dir", dir)
		}
	}
	connect := entry
	switch name {
	case "haproxy", "nginx":
		recipe, args := haproxyFor(entry, apis, admins, keys["balancer"], introduces), []string{balancer, "-db", "-f"}
		if name == "nginx" {
			recipe, args = nginxFor(entry, apis, dir), []string{balancer, "-e", "stderr", "-g", "daemon off;", "-c"}
		}
		file := filepath.Join(dir, name+".conf")
		if err := os.WriteFile(file, []byte(recipe), 0o600); err != nil {
			return err
		}
		members = append(members, member{"balancer", entry, append(args, file)})
	default:
		connect = strings.Join(apis, ",")
	}
	f := &fleet{out: out, log: log, drainWithin: c.DrainTimeout + 15*time.Second}
	ctx, stop := context.WithCancelCause(ctx)
	defer func() {
		stop(nil)
		defer tellOfDrain(ctx, log, c.DrainTimeout)()
		f.running.Wait()
	}()
	for _, m := range members {
		f.running.Go(func() { f.keepRunning(ctx, m) })
	}
	if err := c.awaitLinks(ctx, apis, strings.Split(connect, ","), workers); err != nil {
		return err
	}
	keyFlags := ""
	if dir := keys["client"]; dir != "" {
		keyFlags = " --tls-dir " + dir
	}
	f.printLocked("ready\n%s run --connect %s%s --function echo --payload hello\n", os.Args[0], connect, keyFlags)
	page, err := pageClient(apis, &c.secretFlags, log)
	if err != nil {
		return err
	}
	c.Admin = "127.0.0.1:0" // of this process: the page outlives each frontend, and needs no certificate
	return c.servePage(ctx, log, page, func(page string) { f.printLocked("page %s\n", page) })
}

// fleetKeys makes certificates for a fleet, and a secret for gossip unless --secret-file names a secret. It returns
// the folders by kind of process. This process itself becomes an operator.
func (c *devCmd) fleetKeys(dir string) (map[string]string, error) {
	dirs, err := makeKeys(filepath.Join(dir, "keys"), 30*24*time.Hour, "frontend", "worker", "operator",
		"client/default")
	if err != nil {
		return nil, err
	}
	keys := map[string]string{"frontend": dirs[0], "worker": dirs[1], "balancer": dirs[2], "client": dirs[3]}
	c.TLSDir = dirs[2]
	// HAProxy wants certificate and key in one file.
	var both []byte
	for _, name := range []string{identity.CertFile, identity.KeyFile} {
		b, err := os.ReadFile(filepath.Join(dirs[2], name))
		if err != nil {
			return nil, err
		}
		both = append(both, b...)
	}
	if err := os.WriteFile(filepath.Join(dirs[2], "balancer.pem"), both, 0o600); err != nil {
		return nil, err
	}
	if c.SecretFile == "" {
		c.SecretFile = filepath.Join(dir, "secret")
		return keys, os.WriteFile(c.SecretFile, []byte(rand.Text()+"\n"), 0o600)
	}
	return keys, nil
}

// checkFleetFlags refuses flags that the processes of a fleet would not get.
func (c *devCmd) checkFleetFlags() error {
	var plain cli
	parser, err := newParser(&plain, io.Discard, io.Discard)
	if err == nil {
		_, err = parser.Parse([]string{"dev"})
	}
	if err != nil {
		return err
	}
	d := &plain.Dev
	for _, pair := range [][2]any{
		{c.policyFlags, d.policyFlags}, {c.fileFlags, d.fileFlags}, {c.slotFlags, d.slotFlags},
		{c.queueFlags, d.queueFlags}, {c.frontendLimits, d.frontendLimits},
		{c.WorkerPort, d.WorkerPort}, {c.Admin, d.Admin},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			return errors.New("--fleet passes only --slots, --allow-exec, --secret-file and --drain-timeout on to processes: set all else by variables, such as PHOEBE_WORKER_ORDER")
		}
	}
	return nil
}

// findBalancer returns the path of the program for --balancer, or "" for no balancer.
func (c *devCmd) findBalancer() (string, error) {
	if c.Balancer == "none" {
		return "", nil
	}
	name := c.Balancer
	if name == "auto" {
		name = "haproxy"
	}
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	if c.Balancer == "auto" {
		return "", nil
	}
	return "", fmt.Errorf("--balancer: %s is not installed: install the program, or give --balancer none", name)
}

// freeAddresses returns n addresses of loopback. The first has the port first, or any free port if first is 0. If the
// port first is taken and orFree is set, the first address has a free port, too.
func freeAddresses(first int, orFree bool, n int) (addrs []string, err error) {
	for i := range n {
		var l net.Listener
		if i == 0 && first != 0 {
			l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", first))
		}
		if l == nil && (err == nil || orFree) {
			l, err = ports.Listen()
		}
		if err != nil {
			return nil, err
		}
		defer l.Close() // all together, so no address comes twice
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// serverLine matches a server line of a recipe, with the text behind its address.
var serverLine = regexp.MustCompile(`(?m)^( *server )(?:frontend-\d )?10\.0\.0\.\d:7410(.*)\n`)

// balancerHost is the source address of a balancer that sends the PROXY protocol. No other client may connect from
// there, so the balancer needs an extra address.
const balancerHost = "127.0.0.2"

// haproxyFor returns the recipe for HAProxy with these frontends. If keys is a folder, frontends use TLS.
// If introduces is set, HAProxy names the clients by the PROXY protocol.
func haproxyFor(entry string, apis, admins []string, keys string, introduces bool) string {
	recipe, check := haproxyRecipe, "check"
	if keys != "" {
		recipe = haproxyTLSRecipe
	}
	if introduces {
		check = "source " + balancerHost + " send-proxy-v2 " + check
	}
	text := strings.NewReplacer("bind :7410", "bind "+entry, "check port 7413", check, "maxconn 20000",
		"maxconn 1000", "/etc/haproxy/phoebe", keys).Replace(recipe)
	var servers strings.Builder
	for i := range apis {
		_, port, _ := net.SplitHostPort(admins[i])
		fmt.Fprintf(&servers, "    server frontend-%d %s port %s\n", i, apis[i], port)
	}
	return serverLine.ReplaceAllString(text, "") + servers.String()
}

// nginxFor returns the recipe for nginx with these frontends.
func nginxFor(entry string, apis []string, dir string) string {
	text := strings.NewReplacer("listen 7410", "listen "+entry, "/run/nginx.pid",
		filepath.Join(dir, "nginx.pid")).Replace(nginxRecipe)
	rest := serverLine.FindStringSubmatch(text)[2]
	servers := "upstream phoebe {\n"
	for _, addr := range apis {
		servers += "        server " + addr + rest + "\n"
	}
	return strings.Replace(serverLine.ReplaceAllString(text, ""), "upstream phoebe {\n", servers, 1)
}

// printLocked prints to stdout. Lines of several goroutines do not mix.
func (f *fleet) printLocked(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out.out, format, args...)
}

// stderrDelay is the time for which a balancer's stderr is read after the end of the balancer. If the master of nginx
// is killed, its workers live on with its stderr.
const stderrDelay = time.Second

// keepRunning runs a process again and again until ctx ends. Then the process drains.
func (f *fleet) keepRunning(ctx context.Context, m member) {
	runtime.LockOSThread() // the process dies with its parent thread
	for ctx.Err() == nil {
		cmd := exec.Command(m.args[0], m.args[1:]...)
		cmd.Stderr = f.out.rawErr
		var last lastBytes
		if m.kind == "balancer" { // a balancer reports each state of each frontend
			cmd.Stderr = &last
			cmd.WaitDelay = stderrDelay
		}
		endWithParent(cmd)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			f.log.Error("a process of the fleet does not start", "err", err)
			return
		}
		f.printLocked("%s %s pid %d\n", m.kind, m.addr, cmd.Process.Pid)
		ended := make(chan struct{})
		drained := context.AfterFunc(ctx, func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(f.drainWithin):
				_ = cmd.Process.Kill()
			}
		})
		err := cmd.Wait()
		close(ended)
		if !drained() {
			return
		}
		if cmd.ProcessState.ExitCode() > 0 { // the process has ended by itself: the reason is among its last lines
			_, _ = f.out.err.Write(last)
		}
		f.log.Info("a process of the fleet has ended", "kind", m.kind, "address", m.addr, "err", err)
		if time.Since(began) < time.Second {
			select { // a process that ended at once would end at once again
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// lastBytes keeps the last lastKept bytes that are written.
type lastBytes []byte

const lastKept = 4 << 10

// Write implements io.Writer.
func (b *lastBytes) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	*b = (*b)[max(len(*b)-lastKept, 0):]
	return len(p), nil
}

// countLinks returns how many workers the frontend has links to.
func (a *answer) countLinks() (n int) {
	for _, w := range a.cluster.Workers {
		if w.State == "up" {
			n++
		}
	}
	return n
}

// awaitLinks waits until all frontends have links to all workers, and every address for clients answers.
func (c *devCmd) awaitLinks(ctx context.Context, apis, connect []string, workers int) error {
	asks := clientFlags{Connect: slices.Concat(apis, connect), RetryFor: 5 * time.Second, secretFlags: c.secretFlags}
	clients, err := asks.dialEach(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer closeEach(clients)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if !slices.ContainsFunc(clients, func(cl *admin.Client) bool {
			a := askOne(ctx, cl, asks.RetryFor, "", admin.ClusterQuery{})
			return a.err != nil || a.countLinks() < workers
		}) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return interruptionExit(ctx)
		}
	}
}
