// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// noAssertion is SPDX's word for "not examined". The terms themselves are in licenses/.
const noAssertion = "NOASSERTION"

// bill returns the bill of materials: each program, each module that is linked into it, and each package of Debian,
// those that are unpacked beside mullion and those that are installed in the image (SPDX 2.3, in JSON).
func (r release) bill(files []entry, deps []dependency, unpacked, installed []debianPackage) ([]byte, error) {
	root := &v2_3.Package{
		PackageName:             "mullion",
		PackageSPDXIdentifier:   "Package-mullion",
		PackageVersion:          r.version,
		PackageDownloadLocation: "https://" + own,
		PackageLicenseConcluded: "Apache-2.0",
		PackageLicenseDeclared:  "Apache-2.0",
		PackageLicenseComments:  "mullion's own licence. Modules and packages of Debian in it have their own.",
		PackageCopyrightText:    "Copyright The mullion Authors",
	}
	doc := &v2_3.Document{
		SPDXVersion:    v2_3.Version,
		DataLicense:    v2_3.DataLicense,
		SPDXIdentifier: "DOCUMENT",
		DocumentName:   "mullion_" + r.version,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "mullion-release"}},
			Created:  r.date.Format("2006-01-02T15:04:05Z"),
		},
		Packages:      []*v2_3.Package{root},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", "DESCRIBES", root.PackageSPDXIdentifier)},
	}
	ids := map[string]common.ElementID{}
	digest := sha256.New()
	for _, e := range files {
		if !e.isBuilt() {
			continue
		}
		sum, err := e.sum()
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(digest, sum, e.name)
		p := program(r.version, e.name, sum)
		ids[e.name] = p.PackageSPDXIdentifier
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships,
			relation(root.PackageSPDXIdentifier, "CONTAINS", p.PackageSPDXIdentifier))
	}
	for _, d := range deps {
		p := goModule(d)
		doc.Packages = append(doc.Packages, p)
		for _, name := range d.programs {
			doc.Relationships = append(doc.Relationships, relation(ids[name], "DEPENDS_ON", p.PackageSPDXIdentifier))
		}
	}
	contain := func(in, p *v2_3.Package) {
		fmt.Fprintln(digest, p.PackageName, p.PackageVersion)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships,
			relation(in.PackageSPDXIdentifier, "CONTAINS", p.PackageSPDXIdentifier))
	}
	for _, p := range unpacked {
		contain(root, p.unpackedBill())
	}
	if len(installed) > 0 {
		image := program(r.version, "mullion/node", "")
		doc.Packages = append(doc.Packages, image)
		doc.Relationships = append(doc.Relationships,
			relation("DOCUMENT", "DESCRIBES", image.PackageSPDXIdentifier),
			relation(image.PackageSPDXIdentifier, "CONTAINS", root.PackageSPDXIdentifier))
		for _, p := range installed {
			contain(image, p.bill())
		}
	}
	// The namespace names the content: it is the same if that is the same.
	doc.DocumentNamespace = fmt.Sprintf("https://%s/sbom/%s-%x", own, r.version, digest.Sum(nil)[:8])
	var out bytes.Buffer
	if err := json.Write(doc, &out, json.Indent("  ")); err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return append(bytes.TrimSpace(out.Bytes()), '\n'), nil
}

// program describes a program of a release, or its image, whose checksum is in SHA256SUMS only.
func program(version, name, sum string) *v2_3.Package {
	p := &v2_3.Package{
		PackageName:             name,
		PackageSPDXIdentifier:   id("Program", name),
		PackageVersion:          version,
		PackageFileName:         name,
		PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared:  noAssertion,
		PackageCopyrightText:    noAssertion,
	}
	if sum != "" {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	}
	return p
}

// bill describes a package of Debian and the source that it was built from.
func (p debianPackage) bill() *v2_3.Package {
	return &v2_3.Package{
		PackageName:             p.name,
		PackageSPDXIdentifier:   id("Debian", p.name+"-"+p.version),
		PackageVersion:          p.version,
		PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared:  noAssertion,
		PackageCopyrightText:    noAssertion,
		PackageSourceInfo:       "built from: " + p.source + " " + p.sourceVersion,
		PackageComment:          "licences: /usr/share/doc/" + p.name + "/copyright in the image",
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager,
			RefType:  common.TypePackageManagerPURL,
			Locator:  "pkg:deb/debian/" + url.PathEscape(p.name) + "@" + url.QueryEscape(p.version),
		}},
	}
}

// unpackedBill describes a package of Debian in the directory wine.
func (p debianPackage) unpackedBill() *v2_3.Package {
	b := p.bill()
	b.PackageSPDXIdentifier = id("Wine", p.name+"-"+p.version) // an image may have the same package installed
	b.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: p.sum}}
	b.PackageComment = "licences: " + wineDir + "usr/share/doc/" + p.name + "/copyright beside mullion"
	b.PackageExternalReferences[0].Locator += "?distro=" + wineDistro
	return b
}

func goModule(d dependency) *v2_3.Package {
	return &v2_3.Package{
		PackageName:             d.Path,
		PackageSPDXIdentifier:   id("Go", d.Path+"-"+d.Version.Version),
		PackageVersion:          d.Version.Version,
		PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared:  noAssertion,
		PackageCopyrightText:    noAssertion,
		PackageComment:          "go.sum: " + d.sum,
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager,
			RefType:  common.TypePackageManagerPURL,
			Locator:  purl(d),
		}},
	}
}

// purl returns a package URL (github.com/package-url/purl-spec).
func purl(d dependency) string {
	return "pkg:golang/" + strings.ReplaceAll(url.PathEscape(d.Path), "%2F", "/") + "@" +
		url.QueryEscape(d.Version.Version)
}

func relation(from common.ElementID, kind string, to common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA:         common.MakeDocElementID("", string(from)),
		RefB:         common.MakeDocElementID("", string(to)),
		Relationship: kind,
	}
}

// id returns an identifier: letters, digits, dots and hyphens (SPDX 2.3, 3.2).
func id(kind, name string) common.ElementID {
	return common.ElementID(kind + "-" + strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '-'
	}, name))
}
