package gossip

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// TestLoad measures real frontends on loopback under the heartbeats of a simulated fleet: a heartbeat per worker
// and second, through the codec. PHOEBE_GOSSIP_LOAD is "frontends workers seconds", such as "4 20000 10". CPU is
// the CPU of the whole process, fleet and loopback included, divided by the number of frontends. Bytes are in and
// out together, with heartbeats.
func TestLoad(t *testing.T) {
	var frontends, workers, seconds int
	if _, err := fmt.Sscan(os.Getenv("PHOEBE_GOSSIP_LOAD"), &frontends, &workers, &seconds); err != nil {
		t.Skip(`wants PHOEBE_GOSSIP_LOAD="frontends workers seconds"`)
	}
	w := newWatcher(t)
	nodes := map[string]*Node{}
	var all []*Node
	var seeds []string
	for i := range frontends {
		n := w.startNode(Config{Name: fmt.Sprint("f", i), Secrets: identity.NewSecrets("s3cret"), Seeds: seeds})
		nodes[n.cfg.Heartbeat] = n
		all = append(all, n)
		seeds = []string{n.Addr()}
	}
	w.waitUntil("all know all", func() bool {
		return !slices.ContainsFunc(all, func(n *Node) bool { return len(n.Members()) != frontends })
	})

	rng := rand.New(rand.NewPCG(1, 2))
	fleet := make([]*rows.Announcer, workers)
	for i := range fleet {
		p := rows.Profile{Name: fmt.Sprintf("worker-%05d.eu-central-1", i), Addr: "10.1.2.3:7420",
			Host: fmt.Sprintf("host-%05d", i), Rack: fmt.Sprintf("rack-%03d", i/40),
			Capacity: probe.Demand{CPU: 16000, Mem: 65536}, Labels: []string{"zone=a", "disk=ssd", "arch=amd64",
				"gen=7"}}
		var err error
		if fleet[i], err = rows.NewAnnouncer([]string{all[0].cfg.Heartbeat}, p, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		files := make([]rows.FileID, 16)
		for j := range files {
			files[j] = rows.FileID(rng.Uint64())
		}
		fleet[i].SetFiles(files)
	}
	var hbBytes int
	var buf []byte
	beat := func(a *rows.Announcer) {
		row := rows.Row{Speed: 1.07, Finished: 123_456, Failed: 78, Matrix: busyMatrix(rng)}
		for _, b := range a.Beats(row, "s3cret") {
			buf = rows.AppendHeartbeat(buf[:0], &b.Heartbeat)
			var h rows.Heartbeat
			if err := rows.ReadHeartbeat(buf, &h); err != nil {
				t.Fatal(err)
			}
			answer := nodes[b.Addr].Heartbeat(&h)
			hbBytes += len(buf) + 40 + len(rows.AppendAnswer(nil, &answer)) + 40
			a.Answered(&b, &answer)
		}
	}

	ages := make([][]time.Duration, frontends)
	var cpu time.Duration
	var bytes uint64
	var before []Stats
	snap := func() {
		cpu = cpuTime(t) - cpu
		bytes = 0
		for i, n := range all {
			s := n.Stats()
			if len(before) > i {
				bytes += s.BytesIn + s.BytesOut - before[i].BytesIn - before[i].BytesOut
				t.Logf("%s: %d workers, %d bytes in, %d out; pushed %d, told %d, wanted %d, supplied %d, dropped %d, failed %d, stalls %d, merged %v",
					n.cfg.Name, s.Workers,
					s.BytesIn-before[i].BytesIn, s.BytesOut-before[i].BytesOut, s.Pushed-before[i].Pushed,
					s.Received-before[i].Received, s.Wanted-before[i].Wanted, s.Supplied-before[i].Supplied, s.Dropped,
					s.Failed, s.Stalls, s.Merged)
			} else {
				before = append(before, s)
			}
		}
	}
	const settle = 6
	start := time.Now()
	sampled := 0
	for i := 0; ; i++ {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(workers))
		if i == settle*workers {
			hbBytes = 0
			snap()
		}
		if i == (settle+seconds)*workers {
			break
		}
		if ahead := time.Until(due); ahead > time.Millisecond {
			time.Sleep(ahead)
		}
		beat(fleet[i%workers])
		if i/workers >= settle && i%(workers/4) == 0 { // four times per second, at each frontend in turn
			k := sampled % frontends
			sampled++
			rows, _ := all[k].Since(0)
			for r := range rows {
				ages[k] = append(ages[k], rows[r].Age)
			}
			if len(rows) != workers {
				t.Errorf("%s knows %d of %d workers", all[k].cfg.Name, len(rows), workers)
			}
		}
	}
	took := time.Since(start) - settle*time.Second
	snap()
	for k, list := range ages {
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		p := func(q float64) time.Duration { return list[int(float64(len(list)-1)*q)].Round(time.Millisecond) }
		t.Logf("%s: ages p50 %v, p99 %v, p99.9 %v, longest %v", all[k].cfg.Name, p(0.5), p(0.99), p(0.999), p(1))
		if p(0.99) > 2*time.Second {
			t.Errorf("p99 of ages is %v", p(0.99))
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if took > time.Duration(seconds)*time.Second*11/10 {
		t.Errorf("took %v: this process stood still, or the machine is too slow for the fleet", took)
	}
	t.Logf("per frontend: %.2f MB/s, %.1f %% of a core; heap of all and the fleet %.0f MB",
		float64(int(bytes)+hbBytes)/1e6/took.Seconds()/float64(frontends),
		100*cpu.Seconds()/took.Seconds()/float64(frontends), float64(m.HeapAlloc)/1e6)
}

// busyMatrix makes the matrix of a busy worker.
func busyMatrix(rng *rand.Rand) (m probe.WaitMatrix) {
	for i := range m.Cells {
		for j := range m.Cells[i] {
			w := probe.Wait(0)
			if i > 0 {
				w = m.Cells[i-1][j]
			}
			if j > 0 {
				w = max(w, m.Cells[i][j-1])
			}
			if i+j > 4 && rng.IntN(3) == 0 {
				w += probe.Wait(rng.IntN(3000))
			}
			m.Cells[i][j] = w
		}
	}
	return m
}

func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
