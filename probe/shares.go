package probe

import "math"

// WaitShare is the part of a matrix's waits for which the tasks of a tenant wait. A share of n stands for the factor
// 2^(-n/4096), and the share 0 for the whole wait. Messages have the upper byte of a share, which tells a wait to
// within 4.4 %.
type WaitShare uint16

const (
	// NoWait is the share of a tenant whose tasks do not wait.
	NoWait WaitShare = math.MaxUint16
	octave           = 4096 // the share of half of the wait
)

// coarse returns the byte of s in messages. The byte stands for a wait rounded up.
func (s WaitShare) coarse() byte { return byte(s >> 8) }

// shareFrom returns the share of a byte in a message.
func shareFrom(coarse byte) WaitShare {
	if coarse == NoWait.coarse() {
		return NoWait
	}
	return WaitShare(coarse) << 8
}

// ShareOf returns the share that makes wait of whole, rounded up: a promised wait must not be shorter than the real
// wait.
func ShareOf(wait, whole Wait) WaitShare {
	switch {
	case wait >= whole:
		return 0
	case wait == 0:
		return NoWait
	}
	return WaitShare(min(octave*math.Log2(float64(whole)/float64(wait)), float64(NoWait.coarse()-1)*256))
}

// PartOf returns the share's part of a wait, rounded up.
func (s WaitShare) PartOf(w Wait) Wait {
	switch {
	case s == 0 || w == NeverFits:
		return w
	case s == NoWait:
		return 0
	}
	return Wait(math.Ceil(float64(w) * math.Exp2(-float64(s)/octave)))
}

// TenantCode stands for a tenant's name in short messages. Two tenants may have the same code. 0: no tenant.
type TenantCode uint16

// CodeOf returns the code of a tenant's name.
func CodeOf(name string) TenantCode {
	h := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return TenantCode(max(h>>16^h&math.MaxUint16, 1))
}

// TenantShare is the share of a tenant.
type TenantShare struct {
	Tenant TenantCode // 0: no entry
	Share  WaitShare
}

// MaxTenantShares bounds the tenants with shares of their own in a matrix.
const MaxTenantShares = 3

// Shares are the shares of the waits in a matrix. In the zero value every tenant waits the whole wait.
type Shares struct {
	Others  WaitShare                    // of a tenant without an entry: a tenant that uses less than its part of the worker
	Tenants [MaxTenantShares]TenantShare // of the tenants with the most work in the queue, and of the asking tenant
}

// For returns the share of a tenant. For no tenant (0), the share is the whole wait.
func (s *Shares) For(tenant TenantCode) WaitShare {
	if tenant == 0 {
		return 0
	}
	for _, t := range s.Tenants {
		if t.Tenant == tenant {
			return t.Share
		}
	}
	return s.Others
}

// Set sets the share of a tenant. If all entries are taken by other tenants, the last entry is lost.
func (s *Shares) Set(tenant TenantCode, share WaitShare) {
	for i := range s.Tenants {
		if e := &s.Tenants[i]; e.Tenant == tenant || e.Tenant == 0 || i == len(s.Tenants)-1 {
			*e = TenantShare{tenant, share}
			return
		}
	}
}

// AppendShares appends s to b: 1 byte for the zero value, else at most 11 bytes.
func AppendShares(b []byte, s *Shares) []byte {
	at := len(b)
	if b = append(b, 0); *s == (Shares{}) {
		return b
	}
	b = append(b, s.Others.coarse())
	b[at] = 1 // and the number of entries
	for _, t := range s.Tenants {
		if t.Tenant != 0 {
			b = append(b, byte(t.Tenant), byte(t.Tenant>>8), t.Share.coarse())
			b[at]++
		}
	}
	return b
}

// ReadShares reads shares off the front of b and returns the rest of b. The error is a *DecodeError. A peer of an older
// version sends no shares: b is empty then, and the shares are zero.
func ReadShares(b []byte) (s Shares, rest []byte, err error) {
	r := reader{buf: b}
	if r.hasMore() {
		r.readShares("shares", &s)
	}
	if r.err != nil {
		return Shares{}, nil, r.err
	}
	return s, b[r.pos:], nil
}

func (r *reader) readShares(field string, s *Shares) {
	n := r.readEnum(field, 0, 1+MaxTenantShares)
	if n == 0 {
		return
	}
	s.Others = shareFrom(r.readByte(field))
	for i := range int(n) - 1 {
		code := TenantCode(r.readByte(field)) | TenantCode(r.readByte(field))<<8
		s.Tenants[i] = TenantShare{code, shareFrom(r.readByte(field))}
	}
}
