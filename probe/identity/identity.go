// Package identity is who may connect to whom: certificates that tell roles, TLS 1.3 between those who have them, and their
// renewal while they are in use.
package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Role is what a certificate lets its owner be. One may have several.
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

// Identity is what a certificate says of its owner. The zero one says nothing.
type Identity struct {
	Roles  Role
	Tenant string // of a Client: for whom its jobs are
}

// scheme begins the URIs by which certificates tell roles, as in phoebe:worker and phoebe:client/acme.
const scheme = "phoebe"

// String is as Parse reads it.
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

// Parse reads roles that + joins: frontend, worker, operator, client/TENANT.
func Parse(text string) (id Identity, err error) {
	for name := range strings.SplitSeq(text, "+") {
		if err := id.addRole(name); err != nil {
			return Identity{}, err
		}
	}
	return id, nil
}

func (id *Identity) addRole(name string) error {
	name, tenant, named := strings.Cut(name, "/")
	for _, n := range roleNames {
		switch {
		case n.name != name || named != (n.role == Client):
		case named && tenant == "":
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

// roleURIs are how a certificate tells the identity.
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

// identityOf reads what a certificate tells.
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
		return id, errors.New("its certificate tells no role: it needs a URI such as " + scheme + ":worker among its alternative names")
	}
	return id, nil
}
