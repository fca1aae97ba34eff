package bench

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	sleepers    = 10
	sleeperEnv  = "PHOEBE_SLEEPER"
	sleeperSize = 100
)

func TestMain(m *testing.M) {
	if os.Getenv(sleeperEnv) != "" {
		runSleeper()
		return
	}
	os.Exit(m.Run())
}

// runSleeper answers each message of a connection after a millisecond. At the end runSleeper prints the CPU time of
// its process.
func runSleeper() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	c, err := l.Accept()
	if err != nil {
		panic(err)
	}
	buf := make([]byte, 16<<10)
	for n, err := 0, error(nil); err == nil; n, err = c.Read(buf) {
		for range n / sleeperSize {
			time.AfterFunc(time.Millisecond, func() { var m [sleeperSize]byte; c.Write(m[:]) })
		}
	}
	fmt.Println(ownCPU().Microseconds())
}

func ownCPU() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkSleepers is the floor of 1 ms tasks at processes: the CPU of a task that is only two messages. A client
// sends a message to each of ten processes at a time, and each process answers after a millisecond. The messages
// need no scheduling, and the processes have no slots.
//
//	go test -run '^$' -bench Sleepers -benchtime 160000x -count 3 ./bench
func BenchmarkSleepers(b *testing.B) {
	for _, rate := range []int{24_000, 32_000} {
		b.Run(fmt.Sprintf("%d-a-second", rate), func(b *testing.B) {
			var conns []net.Conn
			var outs []*bufio.Reader
			var answers atomic.Int64
			for range sleepers {
				p := exec.Command(os.Args[0])
				p.Env = append(os.Environ(), sleeperEnv+"=1")
				out, err := p.StdoutPipe()
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Start(); err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { p.Wait() })
				r := bufio.NewReader(out)
				addr, err := r.ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				c, err := net.Dial("tcp", strings.TrimSpace(addr))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { c.Close() })
				conns, outs = append(conns, c), append(outs, r)
				go func() {
					buf := make([]byte, 16<<10)
					for n, err := 0, error(nil); err == nil; n, err = c.Read(buf) {
						answers.Add(int64(n / sleeperSize))
					}
				}()
			}
			own, sent := ownCPU(), 0
			var m [sleeperSize]byte
			b.ResetTimer()
			for next := time.Now(); sent < b.N; {
				next = next.Add(time.Duration(rand.ExpFloat64() * float64(sleepers*time.Second) / float64(rate)))
				time.Sleep(time.Until(next))
				for _, i := range rand.Perm(sleepers) {
					if _, err := conns[i].Write(m[:]); err != nil {
						b.Fatal(err)
					}
					sent++
				}
			}
			for answers.Load() < int64(sent) {
				time.Sleep(time.Millisecond)
			}
			b.StopTimer()
			client, servers := float64((ownCPU() - own).Microseconds()), 0.0
			for i, c := range conns {
				c.(*net.TCPConn).CloseWrite()
				text, err := outs[i].ReadString('\n')
				if err != nil && err != io.EOF {
					b.Fatal(err)
				}
				us, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				if err != nil {
					b.Fatal(err)
				}
				servers += us
			}
			b.ReportMetric(client/float64(sent), "us-client/task")
			b.ReportMetric(servers/float64(sent), "us-servers/task")
			b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
