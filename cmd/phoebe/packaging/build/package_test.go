package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
)

// root is the checkout. `make package` has written bin/phoebe and out/package in it.
const root = "../../../.."

const packaging = root + "/cmd/phoebe/packaging"

// findTool returns the path of a program that a test needs. If it is missing, the test fails and names the Debian
// package.
func findTool(t *testing.T, name, debian string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if path := filepath.Join(dir, name); isFile(path) {
			return path
		}
	}
	t.Fatalf("%s is missing: apt-get install %s", name, debian)
	return ""
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// runTool runs a program, and returns its output. The test fails if the program fails.
func runTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// onlyMatch returns the only file that matches pattern.
func onlyMatch(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) != 1 {
		t.Fatalf("%s: %q %v: run make package", pattern, names, err)
	}
	return names[0]
}

func absolutePath(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// host is the architecture of this machine.
const host = runtime.GOARCH

// extractDebian extracts the Debian package of this machine, and returns the folder.
func extractDebian(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	runTool(t, findTool(t, "dpkg-deb", "dpkg"), "--extract", onlyMatch(t, root+"/out/package/*_"+host+".deb"), dir)
	return dir
}

// listFiles returns the names of all files below dir.
func listFiles(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names[path] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// checkLinks fails the test if OPERATIONS.md in a package links to a file that the package lacks, or if a relative
// link of another text leads nowhere.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	texts, _ := filepath.Glob(dir + "/usr/share/doc/phoebe/*.md")
	if len(texts) != 3 {
		t.Fatalf("%q", texts)
	}
	relative := 0
	for _, text := range texts {
		for _, m := range textLink.FindAllStringSubmatch(readFile(t, text), -1) {
			name, _, _ := strings.Cut(m[2], "#")
			if strings.HasPrefix(name, sourcesOnWeb) && filepath.Base(text) == "OPERATIONS.md" {
				t.Errorf("%s links to %s: add the file to nfpm.yaml", text, name)
			}
			if name == "" || strings.Contains(name, ":") {
				continue
			}
			relative++
			if _, err := os.Stat(filepath.Join(filepath.Dir(text), name)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if relative < 12 {
		t.Errorf("only %d links", relative)
	}
}

func TestDebian(t *testing.T) {
	if out := runTool(t, findTool(t, "lintian", "lintian"), "--fail-on", "error,warning",
		onlyMatch(t, root+"/out/package/*_"+host+".deb")); strings.Contains(out, "phoebe:") {
		t.Errorf("%s", out)
	}
	dir := extractDebian(t)
	checkLinks(t, dir)
	if out := runTool(t, dir+"/usr/bin/phoebe", "version"); !strings.HasPrefix(out, "phoebe ") {
		t.Errorf("%q", out)
	}
	notices, err := os.Open(dir + "/usr/share/doc/phoebe/third-party-notices.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer notices.Close()
	z, err := gzip.NewReader(notices)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	checkNotices(t, dir+"/usr/bin/phoebe", string(text))
	// The installed settings are valid.
	secret := writeFile(t, filepath.Join(dir, "secret"), "sesame\n")
	for _, command := range []string{"frontend", "worker"} {
		runTool(t, dir+"/usr/bin/phoebe", "config", "validate", dir+"/etc/phoebe/"+command+".yaml", command,
			"--secret-file", secret)
	}
}

func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	runTool(t, root+"/bin/phoebe", "man", dir)
	pages, _ := filepath.Glob(dir + "/*.1")
	if len(pages) < 15 {
		t.Errorf("%q", pages)
	}
	runTool(t, findTool(t, "mandoc", "mandoc"), append([]string{"-T", "lint", "-W", "warning"}, pages...)...)
}

func TestCompletions(t *testing.T) {
	complete := root + "/out/package/completion/phoebe.bash"
	script := fmt.Sprintf(". %s; COMP_WORDS=(phoebe config val); COMP_CWORD=2; _phoebe; echo ${COMPREPLY[@]}", complete)
	if out := runTool(t, "bash", "-c", script); strings.TrimSpace(out) != "validate" {
		t.Errorf("%q", out)
	}
}

// writeUnits writes the services' units, with the path of the built binary.
func writeUnits(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for _, name := range []string{"phoebe-frontend.service", "phoebe-worker.service"} {
		text := strings.ReplaceAll(readFile(t, packaging+"/systemd/"+name), "/usr/bin/phoebe",
			absolutePath(t, root+"/bin/phoebe"))
		names = append(names, writeFile(t, filepath.Join(dir, name), text))
	}
	return names
}

func TestUnits(t *testing.T) {
	analyze := findTool(t, "systemd-analyze", "systemd")
	verify := func(names ...string) {
		if out := runTool(t, analyze, append([]string{"verify", "--man=no"}, names...)...); out != "" {
			t.Errorf("%s", out)
		}
	}
	names := writeUnits(t)
	verify(names...)
	for i, most := range []float64{1.5, 2.5} {
		out := runTool(t, analyze, "security", "--offline=yes", names[i])
		level := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		if level == nil {
			t.Fatalf("%s", out)
		}
		if got, _ := strconv.ParseFloat(level[1], 64); got > most {
			t.Errorf("%s: exposure %v, want at most %v\n%s", names[i], got, most, out)
		}
	}
	if strings.Contains(readFile(t, names[1]), "gossip") {
		t.Errorf("%s: workers get the secret of gossip", names[1])
	}
	// With the drop-in for TLS.
	for _, name := range names {
		dir := name + ".d"
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, dir+"/tls.conf", readFile(t, packaging+"/systemd/tls.conf"))
		verify(name)
	}
	// Also with the drop-in for processes.
	for _, name := range []string{"processes.conf", "users.conf"} {
		writeFile(t, names[1]+".d/"+name, readFile(t, packaging+"/systemd/phoebe-worker.service.d/"+name))
		verify(names[1])
	}
	// Systemd waits for longer than a drain takes.
	for _, name := range names {
		stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\w+)$`).FindStringSubmatch(readFile(t, name))
		if d, err := time.ParseDuration(stop[1]); err != nil || d <= 30*time.Second {
			t.Errorf("%s: %v %v", name, d, err)
		}
	}
}

// confine is a program that confines a process like a unit's SystemCallFilter.
const confine = `import errno, os, sys
import seccomp
filter = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
for name in sys.argv[1].split(","):
    try:
        filter.add_rule(seccomp.ALLOW, name)
    except RuntimeError:
        pass # a call of another architecture
filter.load()
os.execv(sys.argv[2], sys.argv[2:])
`

// allowedCalls returns the system calls that a unit's filter lets through.
func allowedCalls(t *testing.T, unit string) map[string]bool {
	t.Helper()
	sets := map[string][]string{}
	set := ""
	for line := range strings.Lines(runTool(t, findTool(t, "systemd-analyze", "systemd"), "syscall-filter")) {
		switch word := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "@"):
			set = word
		case word != "" && !strings.HasPrefix(word, "#"):
			sets[set] = append(sets[set], word)
		}
	}
	calls := map[string]bool{}
	var change func(name string, allow bool)
	change = func(name string, allow bool) {
		if !strings.HasPrefix(name, "@") {
			calls[name] = allow
			return
		}
		if len(sets[name]) == 0 {
			t.Fatalf("unknown set of calls %s", name)
		}
		for _, member := range sets[name] {
			change(member, allow)
		}
	}
	change("@default", true)
	for _, line := range regexp.MustCompile(`(?m)^SystemCallFilter=(.*)$`).FindAllStringSubmatch(readFile(t, unit),
		-1) {
		text, deny := strings.CutPrefix(line[1], "~")
		for _, name := range strings.Fields(text) {
			change(name, !deny)
		}
	}
	maps.DeleteFunc(calls, func(_ string, allow bool) bool { return !allow })
	return calls
}

// serveFiltered starts phoebe under the filter of a unit, and returns the address in its first line.
func serveFiltered(t *testing.T, calls map[string]bool, args ...string) string {
	t.Helper()
	python := "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import seccomp").CombinedOutput(); err != nil {
		t.Fatalf("%s: apt-get install python3-seccomp", out)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, python,
		append([]string{"-c", confine, strings.Join(slices.Sorted(maps.Keys(calls)), ","),
			absolutePath(t, root+"/bin/phoebe")}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("phoebe %q under its unit's filter: %v\n%s", args, err, errs.String())
	}
	return strings.Fields(string(line[:n]))[1]
}

// A frontend, a worker and a job run under the filters of the units.
func TestSystemCallFilters(t *testing.T) {
	names := writeUnits(t)
	worker := serveFiltered(t, allowedCalls(t, names[1]), "worker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--cache-dir", filepath.Join(t.TempDir(), "cache"))
	frontend := serveFiltered(t, allowedCalls(t, names[0]), "frontend", "--listen", "127.0.0.1:0", "--workers", worker,
		"--gossip", "127.0.0.1:0", "--heartbeat", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	runTool(t, root+"/bin/phoebe", "run", "--connect", frontend, "--function", "echo", "--payload", "hello", "--tasks",
		"100")
	runTool(t, root+"/bin/phoebe", "status", "--connect", frontend)
	// A filter that is too narrow would be noticed: without bind, a worker does not start.
	calls := allowedCalls(t, names[1])
	delete(calls, "bind")
	cmd := exec.Command("/usr/bin/python3", "-c", confine, strings.Join(slices.Sorted(maps.Keys(calls)), ","),
		absolutePath(t, root+"/bin/phoebe"), "worker", "--listen", "127.0.0.1:0")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not permitted") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestImage(t *testing.T) {
	file, err := os.Open(onlyMatch(t, root+"/out/package/*_"+host+".oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	blobs := map[string][]byte{}
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if blobs[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	type descriptor struct{ MediaType, Digest string }
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Config struct {
			User         string
			Entrypoint   []string
			ExposedPorts map[string]any
		} `json:"config"`
	}
	parse := func(name string, v any) {
		t.Helper()
		if err := json.Unmarshal(blobs[name], v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	blob := func(d descriptor) string {
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		if sum := sha256.Sum256(blobs[name]); "sha256:"+hex.EncodeToString(sum[:]) != d.Digest {
			t.Errorf("%s has another digest", name)
		}
		return name
	}
	parse("index.json", &index)
	parse(blob(index.Manifests[0]), &manifest)
	parse(blob(manifest.Config), &config)
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/phoebe"}) ||
		len(c.ExposedPorts) != 7 {
		t.Errorf("%+v", c)
	}
	if len(manifest.Layers) != 1 || !strings.Contains(manifest.Layers[0].MediaType, "oci") ||
		len(blobs[blob(manifest.Layers[0])]) < 1<<20 {
		t.Errorf("%+v", manifest)
	}
	layer, err := gzip.NewReader(bytes.NewReader(blobs[blob(manifest.Layers[0])]))
	if err != nil {
		t.Fatal(err)
	}
	files, dir := tar.NewReader(layer), t.TempDir()
	for i, mode := range []int64{0o755, 0o644} {
		name := []string{"phoebe", "third-party-notices"}[i]
		h, err := files.Next()
		if err != nil || h.Name != name || h.Mode != mode {
			t.Fatalf("%v %+v, want %s with mode %o", err, h, name, mode)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), string(content))
	}
	checkNotices(t, dir+"/phoebe", readFile(t, dir+"/third-party-notices"))
	// The image contains no libraries, so the binary must be static.
	if out := runTool(t, findTool(t, "file", "file"), root+"/bin/phoebe"); !strings.Contains(out, "statically linked") {
		t.Errorf("%s", out)
	}
}

// Another checkout, in another folder, gives the same bytes.
func TestReproducible(t *testing.T) {
	dir := t.TempDir()
	runTool(t, "sh", "-c", fmt.Sprintf("cd %s && git ls-files -z | xargs -0 cp --parents -t %s",
		absolutePath(t, root), dir))
	if err := os.MkdirAll(dir+"/out", 0o755); err != nil {
		t.Fatal(err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(onlyMatch(t, root+"/out/package/*_"+host+".deb")),
		"phoebe_"), "_")
	epoch := strings.TrimSpace(runTool(t, "git", "log", "-1", "--format=%ct"))
	cmd := exec.Command("make", "-C", dir, "package", "PACKAGE_VERSION="+version)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch, "MAKEFLAGS=", "MAKEOVERRIDES=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, pattern := range []string{"*_" + host + ".deb", "*.rpm", "*_" + host + ".oci.tar",
		"*_" + host + ".cdx.json"} {
		name := filepath.Base(onlyMatch(t, dir+"/out/package/"+pattern))
		if readFile(t, dir+"/out/package/"+name) != readFile(t, root+"/out/package/"+name) {
			t.Errorf("%s: the second build differs from the first", name)
		}
	}
}

// make dist writes packages, a static binary below the bound of sizes for each architecture, and checksums of all.
func TestDist(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		binary := onlyMatch(t, root+"/out/dist/phoebe_*_linux_"+arch)
		if err := checkBinarySize(binary); err != nil {
			t.Error(err)
		}
		file, err := elf.Open(binary)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
		libraries, err := file.ImportedLibraries()
		if file.Machine != want || len(libraries) > 0 || file.Section(".symtab") != nil || err != nil {
			t.Errorf("%s is for %v, with libraries %q, %v, or not stripped", binary, file.Machine, libraries, err)
		}
		for _, kind := range []string{".deb", ".oci.tar", ".cdx.json"} {
			onlyMatch(t, root+"/out/dist/phoebe_*_"+arch+kind)
		}
	}
	for _, arch := range []string{"x86_64", "aarch64"} {
		onlyMatch(t, root+"/out/dist/phoebe-*."+arch+".rpm")
	}
	sums := runTool(t, "sh", "-c", "cd "+root+"/out/dist && sha256sum --check --strict SHA256SUMS")
	if n := strings.Count(sums, ": OK\n"); n != 10 {
		t.Errorf("%d files: %s", n, sums)
	}
	// A binary that is too large is noticed.
	large := t.TempDir() + "/phoebe"
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, maxBinary+1)); err != nil {
		t.Fatal(err)
	}
	if err := checkBinarySize(large); err == nil || !strings.Contains(err.Error(), "MiB") {
		t.Errorf("%v", err)
	}
}

// Each balancer accepts its recipe.
func TestRecipes(t *testing.T) {
	haproxy, plain := findTool(t, "haproxy", "haproxy"), readFile(t, packaging+"/haproxy.cfg")
	runTool(t, haproxy, "-c", "-f", packaging+"/haproxy.cfg")
	byTLS := readFile(t, packaging+"/haproxy.tls.cfg")
	keys := makeKeys(t)
	runTool(t, haproxy, "-c", "-f", writeFile(t, keys+"/haproxy.cfg", strings.NewReplacer("/etc/haproxy/phoebe/ca.crt",
		keys+"/operator/ca.crt", "/etc/haproxy/phoebe", keys).Replace(byTLS)))
	// Apart from the keys of the checks, both recipes for HAProxy are the same.
	_, plain, _ = strings.Cut(plain, "\nglobal\n")
	_, byTLS, _ = strings.Cut(byTLS, "\nglobal\n")
	if byTLS = regexp.MustCompile(`check-ssl .*balancer\.pem `).ReplaceAllString(byTLS, ""); byTLS != plain {
		t.Errorf("haproxy.tls.cfg without TLS is not haproxy.cfg:\n%s", byTLS)
	}
	runTool(t, findTool(t, "nginx", "nginx-light libnginx-mod-stream"), "-t", "-c",
		absolutePath(t, packaging+"/nginx.conf"))
}

// makeKeys makes keys as compose.tls.yaml says.
func makeKeys(t *testing.T) string {
	t.Helper()
	keys := t.TempDir() + "/keys"
	runTool(t, root+"/bin/phoebe", "tls", keys)
	writeFile(t, keys+"/balancer.pem", readFile(t, keys+"/operator/tls.crt")+readFile(t, keys+"/operator/tls.key"))
	return keys
}

// The compose file is valid, with and without compose.tls.yaml, and phoebe accepts the command lines in it.
func TestCompose(t *testing.T) {
	for _, files := range [][]string{{packaging + "/compose.yaml"},
		{packaging + "/compose.yaml", packaging + "/compose.tls.yaml"}} {
		t.Run(filepath.Base(files[len(files)-1]), func(t *testing.T) { checkCompose(t, files) })
	}
}

func checkCompose(t *testing.T, files []string) {
	options, err := cli.NewProjectOptions(files)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	secret, empty := writeFile(t, dir+"/secret", "sesame\n"), writeFile(t, dir+"/empty.yaml", "{}\n")
	keys := makeKeys(t)
	checked, byTLS := 0, 0
	for name, s := range project.Services {
		if s.Image != "phoebe" {
			continue
		}
		checked++
		args := []string{"config", "validate", empty}
		for _, a := range s.Command {
			if strings.Contains(a, "/run/secrets/gossip") && strings.HasPrefix(name, "worker") {
				t.Errorf("%s gets the secret of gossip", name)
			}
			args = append(args, strings.NewReplacer("/run/secrets/phoebe", secret, "/run/secrets/gossip", secret).Replace(a))
		}
		cmd := exec.Command(root+"/bin/phoebe", args...)
		cmd.Env = os.Environ()
		for k, v := range s.Environment {
			if k == "PHOEBE_TLS_DIR" {
				if byTLS++; len(s.Volumes) != 1 || s.Volumes[0].Target != *v {
					t.Errorf("%s: its keys are at %q: %+v", name, *v, s.Volumes)
					continue
				}
				*v = keys + "/" + filepath.Base(s.Volumes[0].Source)
			}
			cmd.Env = append(cmd.Env, k+"="+*v)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if grace := time.Duration(*s.StopGracePeriod); grace <= 30*time.Second {
			t.Errorf("%s is killed after %v, while it may drain for 30s", name, grace)
		}
	}
	if checked != 9 || byTLS != (len(files)-1)*checked {
		t.Errorf("%d services are phoebe's, %d by TLS", checked, byTLS)
	}
	// The balancer uses the recipe, with other addresses.
	recipe := regexp.MustCompile(`(?s)    option httpchk.*?rise 1[^\n]*`).FindString(
		readFile(t, packaging+"/haproxy.cfg"))
	indented := regexp.MustCompile(`(?m)^`).ReplaceAllString(recipe, "      ")
	if recipe == "" || !strings.Contains(readFile(t, packaging+"/compose.yaml"), indented) {
		t.Errorf("the checks of haproxy.cfg are not in compose.yaml:\n%s", indented)
	}
	content := project.Configs[project.Services["balancer"].Configs[0].Source].Content
	conf := regexp.MustCompile(`server (\S+) frontend-\d:`).ReplaceAllString(content, "server $1 127.0.0.1:")
	conf = strings.ReplaceAll(conf, "/run/keys", keys)
	runTool(t, findTool(t, "haproxy", "haproxy"), "-c", "-f", writeFile(t, dir+"/haproxy.cfg", conf))
}

// Helm accepts the chart, and so do the schemas of five versions of Kubernetes. phoebe accepts the command lines in
// the chart. HELM names helm, and KUBERNETES_VALIDATE names PyPI's kubernetes-validate: make package-test brings
// both.
func TestChart(t *testing.T) {
	helm, validate := os.Getenv("HELM"), os.Getenv("KUBERNETES_VALIDATE")
	if helm == "" || validate == "" {
		t.Fatal("HELM or KUBERNETES_VALIDATE is not set: make package-test sets both")
	}
	chart := packaging + "/helm/phoebe"
	runTool(t, helm, "lint", "--strict", chart)
	dir := t.TempDir()
	keys := makeKeys(t)
	for i, values := range []string{"", "worker.kind=DaemonSet", "tls.enabled=true",
		"podMonitor.enabled=true,networkPolicy.enabled=false",
		"podMonitor.enabled=true,tls.enabled=true,podMonitor.tlsConfig.insecureSkipVerify=true"} {
		text := runTool(t, helm, "template", "fleet", chart, "--set", values)
		if byTLS := strings.Contains(values, "tls.enabled"); strings.Count(text,
			"--tls-dir=/run/phoebe-keys\n") != map[bool]int{true: 2}[byTLS] ||
			strings.Contains(text, "scheme: https") != (byTLS && i > 2) {
			t.Errorf("%s: not all by TLS, or none:\n%s", values, text)
		}
		worker := runTool(t, helm, "template", "fleet", chart, "--set", values, "-s", "templates/worker.yaml")
		if strings.Contains(worker, "--gossip") || !strings.Contains(worker, "items: [{key: secret") !=
			strings.Contains(values, "tls.enabled") {
			t.Errorf("%s: workers get a secret that they do not need:\n%s", values, worker)
		}
		if i < 3 { // further values add resources unknown to Kubernetes itself
			name := writeFile(t, fmt.Sprintf("%s/%d.yaml", dir, i), text)
			for _, minor := range []string{"1.31", "1.32", "1.33", "1.34", "1.35"} {
				runTool(t, "sh", "-c", fmt.Sprintf("%s --strict -k %s %s", validate, minor, name))
			}
		}
		secret, empty := writeFile(t, dir+"/secret", "sesame\n"), writeFile(t, dir+"/empty.yaml", "{}\n")
		for _, command := range regexp.MustCompile(`(?s)args:\n(.*?)\n +env:`).FindAllStringSubmatch(text, -1) {
			args := []string{"config", "validate", empty}
			for line := range strings.Lines(command[1]) {
				arg := strings.TrimPrefix(strings.TrimSpace(line), "- ")
				if strings.HasPrefix(arg, "--config=") {
					continue
				}
				args = append(args, strings.NewReplacer("$(POD_IP)", "10.1.2.3", "$(POD_NAME)", "pod",
					"/run/phoebe/secret", secret, "/run/phoebe/gossip", secret).Replace(arg))
			}
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, "/run/phoebe-keys", keys+"/"+args[3])
			}
			runTool(t, root+"/bin/phoebe", args...)
		}
	}
	for _, wrong := range []string{"terminationGracePeriodSeconds=30", "worker.kind=Job",
		"podMonitor.enabled=true,tls.enabled=true"} {
		if out, err := exec.Command(helm, "template", "fleet", chart, "--set", wrong).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), "must be") {
			t.Errorf("%s: %v\n%s", wrong, err, out)
		}
	}
}

// The API still has all fields and calls of the last release.
func TestAudit(t *testing.T) {
	thrift := findTool(t, "thrift", "thrift-compiler")
	dir := t.TempDir()
	commit := strings.TrimSpace(readFile(t, root+"/cmd/phoebe/RELEASED"))
	released := writeFile(t, dir+"/released.thrift", runTool(t, "git", "-C", root, "show", commit+":idl/phoebe.thrift"))
	runTool(t, thrift, "--audit", released, root+"/idl/phoebe.thrift")
	// A change of a field's type would be noticed.
	text := readFile(t, root+"/idl/phoebe.thrift")
	wrong := strings.Replace(text, "7: i64 timeout_us = 0,", "7: string timeout_us,", 1)
	if out, err := exec.Command(thrift, "--audit", released,
		writeFile(t, dir+"/wrong.thrift", wrong)).CombinedOutput(); wrong == text || err == nil {
		t.Errorf("another type of a field was not noticed: %s", out)
	}
}
