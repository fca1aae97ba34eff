package probe

import (
	"testing"

	"pgregory.net/rapid"
)

// A share gives back the wait that it was made of, rounded up: in a message by less than a twentieth.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := Wait(rapid.Uint32Range(0, 1<<31).Draw(t, "whole"))
		wait := Wait(rapid.Uint32Range(uint32(whole/50_000), uint32(whole)).Draw(t, "wait"))
		share := ShareOf(wait, whole)
		got, sent := share.PartOf(whole), shareFrom(share.coarse()).PartOf(whole)
		if got < wait || float64(got) > 1.001*float64(wait)+1 || sent < got || float64(sent) > 1.045*float64(wait)+1 {
			t.Fatalf("%d of %d comes back as %d, and as %d from a message", wait, whole, got, sent)
		}
	})
	s := Shares{Others: 7}
	for i := range TenantCode(MaxTenantShares) {
		s.Set(i+1, WaitShare(i))
	}
	s.Set(2, 9)
	s.Set(8, 10)
	for tenant, want := range map[TenantCode]WaitShare{1: 0, 2: 9, 8: 10, MaxTenantShares: 7, 99: 7, 0: 0} {
		if got := s.For(tenant); got != want {
			t.Errorf("the share of tenant %d is %d, want %d: %+v", tenant, got, want, s)
		}
	}
}
