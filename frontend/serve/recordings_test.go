package serve

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Any frontend lists the recordings of all frontends, and sends the bytes of each recording.
func TestRecordingsOfAll(t *testing.T) {
	shared, own := t.TempDir(), t.TempDir()
	a := startCluster(t, 1, 1, func(cfg *Config) { cfg.Name, cfg.RecordDir = "a", own })
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Name, cfg.RecordDir = "c", shared })
	b := startCluster(t, 1, 1, func(cfg *Config) {
		cfg.Name, cfg.RecordDir, cfg.Peers = "b", shared, []string{a.Advertised(), c.Advertised()}
	})
	for i, dir := range []string{own, shared} {
		x := &rec.Recording{
			Summary: rec.Summary{Format: rec.RecordingFormat, Frontend: "f", At: time.Unix(1000+int64(i), 0),
				Broken: "p99=1ms", Slowest: "w", Phase: "run"}}
		x.Profile = bytes.Repeat([]byte{1, 2, byte(i)}, 1000)
		if _, _, err := writeRecording(dir, x); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	res, err := b.client.Recordings(ctx, &v1.RecordingsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Recordings) != 2 || len(res.Frontends) != 3 || res.Recordings[0].AtUs < res.Recordings[1].AtUs {
		t.Fatalf("%v of %d frontends", res.Recordings, len(res.Frontends))
	}
	for i, r := range res.Recordings {
		if r.Slowest != "w" || r.Phase != "run" || r.Broken != "p99=1ms" || r.SizeBytes == 0 {
			t.Errorf("%v", r)
		}
		part, err := b.client.Recording(ctx, &v1.RecordingRequest{Frontend: r.Frontend, Name: r.Name})
		if err != nil {
			t.Fatal(err)
		}
		rest, err := b.client.Recording(ctx, &v1.RecordingRequest{Frontend: r.Frontend, Name: r.Name, FromByte: 10})
		if err != nil || !bytes.Equal(rest.Data, part.Data[10:]) {
			t.Errorf("from byte 10 there are %d of %d bytes: %v", len(rest.Data), len(part.Data), err)
		}
		x, err := rec.ReadRecording(bytes.NewReader(part.Data))
		if err != nil || x.Profile[2] != byte(1-i) || int64(len(part.Data)) != part.SizeBytes {
			t.Errorf("%v: %v", r, err)
		}
	}
	for _, name := range []string{"", "..", "../" + res.Recordings[0].Name, "recording-x.json.gz"} {
		var refused *v1.Refused
		if _, err := b.client.Recording(ctx,
			&v1.RecordingRequest{Frontend: "a", Name: name}); !errors.As(err, &refused) ||
			refused.Reason != v1.RefusedReason_INVALID {
			t.Errorf("%q: %v", name, err)
		}
	}
}
