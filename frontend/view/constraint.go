package view

import (
	"fmt"
	"slices"
	"strings"
)

// Constraint says where a task may run. Every selector must hold. If there are hosts, the worker's host or name
// must be one of the hosts.
type Constraint struct {
	Labels []string // "key=value", "key!=value", "key", "!key"
	Hosts  []string
}

// Validate returns an error for a selector of a wrong form.
func (c Constraint) Validate() error {
	for _, s := range c.Labels {
		key, _, _ := strings.Cut(strings.TrimPrefix(s, "!"), "=")
		if strings.TrimSuffix(key, "!") == "" || strings.HasPrefix(s, "!") && strings.Contains(s, "=") {
			return fmt.Errorf("label selector %q: write key=value, key!=value, key or !key", s)
		}
	}
	return nil
}

// Matches reports whether a worker with these labels, host and name satisfies c.
func (c Constraint) Matches(labels []string, host, name string) bool {
	if len(c.Hosts) > 0 && !slices.Contains(c.Hosts, host) && !slices.Contains(c.Hosts, name) {
		return false
	}
	for _, s := range c.Labels {
		if !selectorHolds(s, labels) {
			return false
		}
	}
	return true
}

// selectorHolds reports whether a selector (key=value, key!=value, key or !key) holds for the labels of a worker.
func selectorHolds(selector string, labels []string) bool {
	has := func(key string) bool {
		return slices.ContainsFunc(labels, func(l string) bool { return l == key || strings.HasPrefix(l, key+"=") })
	}
	if key, ok := strings.CutPrefix(selector, "!"); ok {
		return !has(key)
	}
	if key, value, ok := strings.Cut(selector, "!="); ok {
		return !slices.Contains(labels, key+"="+value)
	}
	if strings.Contains(selector, "=") {
		return slices.Contains(labels, selector)
	}
	return has(selector)
}

func (c Constraint) String() string {
	var parts []string
	if len(c.Labels) > 0 {
		parts = append(parts, fmt.Sprintf("labels %q", c.Labels))
	}
	if len(c.Hosts) > 0 {
		parts = append(parts, fmt.Sprintf("hosts %q", c.Hosts))
	}
	return strings.Join(parts, ", ")
}
