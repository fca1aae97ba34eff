// Package identity decides who may connect to whom. Certificates carry roles, processes with certificates speak TLS
// 1.3, and certificates are renewed while in use.
package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Role is a permission of a certificate's owner. A certificate may have several roles.
type Role uint8

const (
	Frontend Role = 1 << iota
	Worker
	Client
	Operator

	Anyone = Frontend | Worker | Client | Operator
)

var roleNames = []struct {
	role Role
	name string
}{{Frontend, "frontend"}, {Worker, "worker"}, {Client, "client"}, {Operator, "operator"}}

// String names the roles.
func (r Role) String() string {
	var names []string
	for _, n := range roleNames {
		if r&n.role != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " or ")
}

// Identity holds the roles of a certificate's owner. The zero Identity has no role.
type Identity struct {
	Roles  Role
	Tenant string // of a Client: the tenant of its jobs
}

// scheme begins the URIs that carry roles in certificates, as in phoebe:worker and phoebe:client/acme.
const scheme = "phoebe"

// String returns the form read by Parse.
func (id Identity) String() string {
	var names []string
	for _, n := range roleNames {
		switch {
		case id.Roles&n.role == 0:
		case n.role == Client:
			names = append(names, n.name+"/"+id.Tenant)
		default:
			names = append(names, n.name)
		}
	}
	return strings.Join(names, "+")
}

// Parse reads roles joined by +: frontend, worker, operator, client/TENANT.
func Parse(text string) (id Identity, err error) {
	for name := range strings.SplitSeq(text, "+") {
		if err := id.addRole(name); err != nil {
			return Identity{}, err
		}
	}
	return id, nil
}

// addRole adds a role by name. Unknown and repeated roles are errors.
func (id *Identity) addRole(name string) error {
	name, tenant, named := strings.Cut(name, "/")
	for _, n := range roleNames {
		switch {
		case n.name != name || named != (n.role == Client):
		case named && tenant == "":
		case strings.Contains(tenant, "+"):
			return fmt.Errorf("tenant %q: a + joins roles, and may not stand in a tenant's name: choose another name", tenant)
		case id.Roles&n.role != 0:
			return fmt.Errorf("role %s twice", n.name)
		default:
			id.Roles |= n.role
			if named {
				id.Tenant = tenant
			}
			return nil
		}
	}
	return fmt.Errorf("unknown role %q: want frontend, worker, operator or client/TENANT", name)
}

// roleURIs returns the URIs that carry the identity in a certificate.
func (id Identity) roleURIs() (list []*url.URL) {
	for _, n := range roleNames {
		if id.Roles&n.role == 0 {
			continue
		}
		name := n.name
		if n.role == Client {
			name += "/" + url.PathEscape(id.Tenant)
		}
		list = append(list, &url.URL{Scheme: scheme, Opaque: name})
	}
	return list
}

// identityOf reads the identity from a certificate. A certificate without a role is an error.
func identityOf(cert *x509.Certificate) (id Identity, err error) {
	for _, u := range cert.URIs {
		if u.Scheme != scheme {
			continue
		}
		name, err := url.PathUnescape(u.Opaque)
		if err == nil {
			err = id.addRole(name)
		}
		if err != nil {
			return Identity{}, err
		}
	}
	if id.Roles == 0 {
		return id, errors.New("its certificate has no role: make a certificate with a URI such as " + scheme +
			":worker among its alternative names")
	}
	return id, nil
}
