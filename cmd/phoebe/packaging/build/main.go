// Command build writes phoebe's Debian package and OCI archive, and lists the components with notices, from a
// checkout and the files of `make package` in out/package. The same inputs give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
	flag.Parse()
	if err := buildPackages(*root, *version, time.Unix(*epoch, 0).UTC()); err != nil {
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
	if err := writeThirdParties(out, version, at); err != nil {
		return fmt.Errorf("components of others: %w", err)
	}
	if err := writeDeb(filepath.Join(out, "phoebe_"+version+"_"+runtime.GOARCH+".deb"), version, at); err != nil {
		return fmt.Errorf("deb: %w", err)
	}
	if err := writeImage(filepath.Join(out, "phoebe_"+version+"_"+runtime.GOARCH+".oci.tar"), version, at); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

// writeThirdParties writes the third-party notices and the list of components into a folder. Both files cover the
// whole content of bin/phoebe.
func writeThirdParties(dir, version string, at time.Time) error {
	const binary = "bin/phoebe"
	list, err := thirdParties(".")
	if err != nil {
		return err
	}
	shipped, err := shippedModules(binary)
	if err != nil {
		return err
	}
	var text, components, zipped bytes.Buffer
	if err := writeNotices(&text, list); err != nil {
		return err
	}
	if missing := findUnnoticed(text.String(), shipped); len(missing) > 0 {
		return fmt.Errorf("the notices lack %q, which are linked into %s", missing, binary)
	}
	if err := writeSBOM(&components, binary, version, at, list); err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = z.Write(text.Bytes())
	err = errors.Join(err, z.Close())
	for name, content := range map[string]*bytes.Buffer{"third-party-notices": &text, "phoebe.cdx.json": &components,
		"third-party-notices.gz": &zipped} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content.Bytes(), 0o644))
	}
	return err
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
	var content bytes.Buffer
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	config := &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", Created: v1.Time{Time: at},
		Config: v1.Config{ExposedPorts: map[string]struct{}{},
			Labels: map[string]string{"org.opencontainers.image.version": version}},
	}
	layer := tar.NewWriter(&content)
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
			err = addFile(layer, args[0], args[1], at)
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
	if err := layer.Close(); err != nil {
		return err
	}
	files, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return err
	}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: files, History: v1.History{CreatedBy: "Dockerfile", Created: v1.Time{Time: at}},
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

// addFile adds a file to a tar file. The umask of the checkout does not change the mode in the tar file.
func addFile(w *tar.Writer, from, to string, at time.Time) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(to, "/"), Mode: mode, Size: int64(len(content)),
		ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
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
