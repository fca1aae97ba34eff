// Command build writes phoebe's Debian package and OCI archive, from a checkout and the files of `make package` in
// out/package. The same inputs give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

const sources = "cmd/phoebe/packaging"

func main() {
	root := flag.String("root", ".", "the `folder` of the checkout")
	version := flag.String("version", "", "the package's version, such as 0.1.0")
	epoch := flag.Int64("epoch", 0, "the time of all files, in seconds since 1970")
	binary := flag.String("spdx", "", "write the modules of this `binary`, and no packages")
	flag.Parse()
	at := time.Unix(*epoch, 0).UTC()
	do := func() error { return buildPackages(*root, *version, at) }
	if *binary != "" {
		do = func() error { return writeSPDX(os.Stdout, *binary, *version, at) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func buildPackages(root, version string, at time.Time) error {
	if version == "" {
		return errors.New("-version is missing")
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	const out = "out/package"
	if err := writeDeb(filepath.Join(out, "phoebe_"+version+"_"+runtime.GOARCH+".deb"), version, at); err != nil {
		return fmt.Errorf("deb: %w", err)
	}
	if err := writeImage(filepath.Join(out, "phoebe_"+version+"_"+runtime.GOARCH+".oci.tar"), version, at); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

func writeDeb(name, version string, at time.Time) error {
	values := map[string]string{"VERSION": version, "ARCH": runtime.GOARCH}
	config, err := nfpm.ParseFileWithEnvMapping(filepath.Join(sources, "nfpm.yaml"),
		func(k string) string { return values[k] })
	if err != nil {
		return err
	}
	info, err := config.Get("deb")
	if err != nil {
		return err
	}
	info.MTime = at
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	for _, c := range info.Contents {
		c.FileInfo.MTime = at
	}
	var b bytes.Buffer
	if err := deb.Default.Package(info, &b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// writeImage builds an image from the Dockerfile without a container engine. Only instructions of this Dockerfile
// are known.
func writeImage(name, version string, at time.Time) error {
	text, err := os.ReadFile(filepath.Join(sources, "Dockerfile"))
	if err != nil {
		return err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	config := &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", Created: v1.Time{Time: at},
		Config: v1.Config{ExposedPorts: map[string]struct{}{},
			Labels: map[string]string{"org.opencontainers.image.version": version}},
	}
	var layer []byte
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch args := words[1:]; words[0] {
		case "FROM":
			if args[0] != "scratch" {
				err = fmt.Errorf("FROM %s: only scratch is known here", args[0])
			}
		case "COPY":
			layer, err = tarWithFile(args[0], args[1], at)
		case "USER":
			config.Config.User = args[0]
		case "EXPOSE":
			for _, port := range args {
				if !strings.Contains(port, "/") {
					port += "/tcp"
				}
				config.Config.ExposedPorts[port] = struct{}{}
			}
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(strings.Join(args, " ")), &config.Config.Entrypoint)
		default:
			err = fmt.Errorf("%s in the Dockerfile is not known here", words[0])
		}
		if err != nil {
			return err
		}
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser,
		error) {
		return io.NopCloser(bytes.NewReader(layer)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return err
	}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: content, History: v1.History{CreatedBy: "Dockerfile", Created: v1.Time{Time: at}},
			MediaType: types.OCILayer})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "phoebe-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendImage(image,
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})); err != nil {
		return err
	}
	return writeArchive(name, dir, at)
}

// tarWithFile returns a tar file with a single file.
func tarWithFile(from, to string, at time.Time) ([]byte, error) {
	content, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(to, "/"), Mode: 0o755, Size: int64(len(content)),
		ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX})
	if err == nil {
		_, err = w.Write(content)
	}
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// writeArchive writes a folder as a tar file, in the order of names.
func writeArchive(name, dir string, at time.Time) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		short, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(short), Mode: 0o644, Size: int64(len(content)),
			ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), file.Close())
}
