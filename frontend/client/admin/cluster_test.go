package admin

import (
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

func TestCluster(t *testing.T) {
	got, err := fromCluster(&v1.ClusterResponse{Frontend: "f1", UptimeUs: 5, Workers: []*v1.WorkerStatus{
		{Name: "w1", Capacity: &v1.Demand{CpuMillicores: 4000, MemoryMib: 1024}, HeardUsAgo: 7},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Frontend != "f1" || got.Uptime != 5*time.Microsecond || got.Workers[0].Name != "w1" ||
		got.Workers[0].Capacity != (client.Demand{CPU: 4000, Memory: 1024}) ||
		got.Workers[0].HeardAgo != 7*time.Microsecond {
		t.Errorf("%+v", got)
	}
}

// The other frontends are the frontends that the answer names. A frontend of an older version names members only.
func TestOtherFrontends(t *testing.T) {
	members := []*v1.Member{{Name: "a", Address: "a:1"}, {Name: "b", Address: "b:1"}, {Name: "new"}}
	older, err := fromCluster(&v1.ClusterResponse{Address: "a:1", Members: members})
	if err != nil || len(older.Others) != 1 || older.Others[0].Name != "b" || older.Others[0].Address != "b:1" {
		t.Errorf("%+v, %v", older.Others, err)
	}
	newer, err := fromCluster(&v1.ClusterResponse{Address: "a:1", Members: members,
		Others: []*v1.Told{{Name: "c", Address: "c:1", Error: "gone"}}})
	if err != nil || len(newer.Others) != 1 || newer.Others[0].Address != "c:1" || newer.Others[0].Err != "gone" {
		t.Errorf("%+v, %v", newer.Others, err)
	}
	if newer.LastMinute != nil {
		t.Error("counts of nobody")
	}
	for _, bad := range []*v1.ClusterResponse{
		{LastMinute: &v1.LastMinute{Responses: []byte{9}}},
		{OtherTenants: &v1.LastMinute{Responses: []byte{9}}},
		{Tenants: []*v1.TenantStatus{{LastMinute: &v1.LastMinute{Responses: []byte{9}}}}},
	} {
		if _, err := fromCluster(bad); err == nil {
			t.Errorf("took %v", bad)
		}
	}
}
