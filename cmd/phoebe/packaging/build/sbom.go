package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// shippedModules returns names and versions of the modules that a binary records, with the standard library.
func shippedModules(binary string) ([]string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	list := []string{"std " + info.GoVersion}
	for _, m := range info.Deps {
		if m.Replace != nil && !isPatched(m.Replace.Path) {
			m = m.Replace
		}
		list = append(list, m.Path+" "+m.Version)
	}
	return list, nil
}

// isPatched reports whether a module is a patched copy, as make package makes from packaging/patches.
func isPatched(path string) bool { return strings.HasPrefix(path, "./out/modules/") }

// writeSBOM writes the components of a binary in the format of CycloneDX.
func writeSBOM(w io.Writer, binary, version string, at time.Time, list []*component) error {
	generator, err := bin.NewGenerator(binary, bin.WithIncludeStdlib(true), bin.WithVersionOverride(version),
		bin.WithLogger(zerolog.New(os.Stderr).Level(zerolog.WarnLevel)))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, content).URN() // the same for the same binary
	bom.Metadata.Timestamp = at.Format(time.RFC3339)
	bom.Metadata.Component.Licenses = licenceChoices("Apache-2.0")
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	for i := range *bom.Components {
		c := &(*bom.Components)[i]
		namePatched(c, info.Deps)
		found := slices.IndexFunc(list, func(l *component) bool { return l.name == c.Name && !l.isPackage })
		if found < 0 {
			return fmt.Errorf("%s of %s is not among the packages that go list names", c.Name, binary)
		}
		c.Licenses = licenceChoices(list[found].licences...)
	}
	own := slices.IndexFunc(*bom.Dependencies,
		func(d cdx.Dependency) bool { return d.Ref == bom.Metadata.Component.BOMRef })
	uses := &(*bom.Dependencies)[own]
	for _, c := range list {
		if !c.isPackage {
			continue
		}
		purl := "pkg:npm/" + c.name + "@" + c.version
		*bom.Components = append(*bom.Components, cdx.Component{
			BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: c.name, Version: c.version, Scope: cdx.ScopeRequired,
			PackageURL: purl, Licenses: licenceChoices(c.licences...),
		})
		*uses.Dependencies = append(*uses.Dependencies, purl)
		*bom.Dependencies = append(*bom.Dependencies, cdx.Dependency{Ref: purl})
	}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// namePatched gives a component that is a patched copy the name and version of the module, and tells of the patch.
func namePatched(c *cdx.Component, modules []*debug.Module) {
	i := slices.IndexFunc(modules, func(m *debug.Module) bool {
		return m.Replace != nil && m.Replace.Path == c.Name && isPatched(c.Name)
	})
	if i < 0 {
		return
	}
	patch := sourcesOnWeb + sources + "/patches/" + path.Base(c.Name) + ".patch"
	c.Name, c.Version = modules[i].Path, modules[i].Version
	c.PackageURL = "pkg:golang/" + c.Name + "@" + c.Version + "?type=module"
	c.Pedigree = &cdx.Pedigree{Patches: &[]cdx.Patch{{Type: cdx.PatchTypeUnofficial, Diff: &cdx.Diff{URL: patch}}}}
}

func licenceChoices(ids ...string) *cdx.Licenses {
	var list cdx.Licenses
	for _, id := range ids {
		list = append(list, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &list
}
