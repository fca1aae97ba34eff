package place

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParsePolicy(t *testing.T) {
	for i, p := range Policies {
		if got, err := ParsePolicy(p.Name); got != Policies[i] || err != nil {
			t.Errorf("%s: %+v, %v", p.Name, got, err)
		}
	}
	if p, err := ParsePolicy("phoebe-overlap-ridealong"); err != nil || p.Name != "phoebe-overlap-ridealong" ||
		p.Overlap || p.RideAlong || !p.Sticky || !p.Cancel {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := ParsePolicy("late-binding-cancel+near-near"); err != nil || p.Cancel || p.Near || p.Binding != Late {
		t.Errorf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"": "use one of", "best": `"late-binding"`, "phoebes": "use one of", "random+overlap": "use one of",
		"phoebe-magic": `phoebe has no part "magic": its parts are cancel, ridealong`, "phoebe-": `has no part ""`,
	} {
		if _, err := ParsePolicy(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", text, err, want)
		}
	}
}

// Every bool of Policy has a part of the same name, and the part turns on the bool.
func TestPartsMatchPolicy(t *testing.T) {
	var names []string
	for f := range reflect.TypeFor[Policy]().Fields() {
		if f.Type.Kind() != reflect.Bool {
			continue
		}
		name := strings.ToLower(f.Name)
		names = append(names, name)
		with := "-cancel+" + name
		p, err := Policies[1].With(with)
		want := Policy{Name: Policies[1].Name + with}
		reflect.ValueOf(&want).Elem().FieldByIndex(f.Index).SetBool(true)
		if p != want || err != nil {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if !slices.Equal(names, Parts) {
		t.Errorf("%q can be turned on, %q are parts", names, Parts)
	}
}
