package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"
)

// writeSPDX writes the modules of a binary as an SPDX document. The go command has recorded the modules in the
// binary.
func writeSPDX(w io.Writer, binary, version string, at time.Time) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	type ref struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	type pkg struct {
		ID       string `json:"SPDXID"`
		Name     string `json:"name"`
		Version  string `json:"versionInfo"`
		Location string `json:"downloadLocation"`
		Comment  string `json:"comment,omitempty"`
		Refs     []ref  `json:"externalRefs,omitempty"`
	}
	type relation struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
	notID := regexp.MustCompile(`[^A-Za-z0-9.-]+`)
	module := func(path, version, sum string) pkg {
		p := pkg{
			ID: "SPDXRef-" + notID.ReplaceAllString(path, "-"), Name: path, Version: version, Location: "NOASSERTION",
			Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
		}
		if sum != "" {
			p.Comment = "go.sum: " + sum
		}
		return p
	}
	sum := sha256.Sum256(content)
	self := module(info.Main.Path, version, "")
	packages := []pkg{self, module("stdlib", info.GoVersion, "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		packages = append(packages, module(m.Path, m.Version, m.Sum))
	}
	relations := []relation{{"SPDXRef-DOCUMENT", "DESCRIBES", self.ID}}
	for _, p := range packages[1:] {
		relations = append(relations, relation{self.ID, "CONTAINS", p.ID})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "phoebe " + version,
		"documentNamespace": fmt.Sprintf("https://%s/spdx/%x", info.Main.Path, sum),
		"creationInfo": map[string]any{"created": at.Format(time.RFC3339),
			"creators": []string{"Organization: phoebe-sched"}},
		"packages": packages, "relationships": relations,
	})
}
