package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOMs writes a CycloneDX document for each program, with the modules that are
// linked into it.
func (r release) writeSBOMs(programs []program) error {
	for _, p := range programs {
		bom, err := r.sbom(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		out, err := os.Create(r.file(p.OS + "_" + p.Arch + ".cdx.json"))
		if err != nil {
			return err
		}
		err = cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
		if closed := out.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r release) sbom(p program) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(p.Path)
	if err != nil {
		return nil, err
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "tsmon", Type: cdx.ComponentTypeApplication, Name: "tsmon", Version: r.version,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			Properties: &[]cdx.Property{
				{Name: "go:goos", Value: p.OS}, {Name: "go:goarch", Value: p.Arch}, {Name: "go:version", Value: info.GoVersion},
			},
		},
	}
	components := []cdx.Component{module("std", info.GoVersion[len("go"):])}
	refs := []string{components[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := module(m.Path, m.Version)
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		components = append(components, c)
		refs = append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: "tsmon", Dependencies: &refs}}
	return bom, nil
}

func module(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: purl, PackageURL: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version}
}
