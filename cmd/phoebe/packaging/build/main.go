// Command build writes phoebe's packages for Debian and rpm and OCI archives, and lists the components with notices,
// from a checkout and the files of `make package` in out/package. The same inputs give the same bytes.
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
	"github.com/goreleaser/nfpm/v2/rpm"
)

const sources = "cmd/phoebe/packaging"

// out is the folder of all packages. Folders in it have the names of architectures.
const out = "out/package"

// maxBinary bounds the size of the stripped binary. What is in it: go tool nm -size -sort size.
const maxBinary = 30 << 20

func main() {
	root := flag.String("root", ".", "the `folder` of the checkout")
	version := flag.String("version", "", "the package's version, such as 0.1.0")
	archs := flag.String("archs", runtime.GOARCH, "the `architectures`, divided by spaces")
	epoch := flag.Int64("epoch", 0, "the time of all files, in seconds since 1970")
	flag.Parse()
	if err := buildPackages(*root, *version, strings.Fields(*archs), time.Unix(*epoch, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func buildPackages(root, version string, archs []string, at time.Time) error {
	if version == "" {
		return errors.New("-version is missing")
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	for _, arch := range archs {
		if err := checkBinarySize(filepath.Join(out, arch, "phoebe")); err != nil {
			return err
		}
		if err := writeThirdParties(arch, version, at); err != nil {
			return fmt.Errorf("components of others: %w", err)
		}
		if err := writePackages(version, arch, at); err != nil {
			return err
		}
		if err := writeImage(packageName(version, arch, ".oci.tar"), version, arch, at); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return nil
}

// packageName returns the name of a file in out.
func packageName(version, arch, suffix string) string {
	return filepath.Join(out, "phoebe_"+version+"_"+arch+suffix)
}

// checkBinarySize fails if a binary is larger than maxBinary.
func checkBinarySize(name string) error {
	info, err := os.Stat(name)
	if err == nil && info.Size() > maxBinary {
		err = fmt.Errorf("%s has %.1f MiB, more than %d MiB: find out what is new in it", name,
			float64(info.Size())/(1<<20), maxBinary>>20)
	}
	return err
}

// writeThirdParties writes the third-party notices and the list of components of an architecture. Both cover the
// whole content of the binary.
func writeThirdParties(arch, version string, at time.Time) error {
	dir := filepath.Join(out, arch)
	binary := filepath.Join(dir, "phoebe")
	list, err := thirdParties(".", arch)
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
	for name, content := range map[string]*bytes.Buffer{filepath.Join(dir, "third-party-notices"): &text,
		packageName(version, arch, ".cdx.json"): &components, filepath.Join(dir, "third-party-notices.gz"): &zipped} {
		err = errors.Join(err, os.WriteFile(name, content.Bytes(), 0o644))
	}
	return err
}

// writePackages writes the packages of an architecture for Debian and rpm.
func writePackages(version, arch string, at time.Time) error {
	for _, kind := range []struct {
		name     string
		packager nfpm.Packager
	}{{"deb", deb.Default}, {"rpm", rpm.DefaultRPM}} {
		if err := writePackage(kind.name, kind.packager, version, arch, at); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

func writePackage(kind string, packager nfpm.Packager, version, arch string, at time.Time) error {
	values := map[string]string{"VERSION": version, "ARCH": arch}
	config, err := nfpm.ParseFileWithEnvMapping(filepath.Join(sources, "nfpm.yaml"),
		func(k string) string { return values[k] })
	if err != nil {
		return err
	}
	info, err := config.Get(kind)
	if err != nil {
		return err
	}
	info.MTime = at
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, kind); err != nil {
		return err
	}
	for _, c := range info.Contents {
		c.FileInfo.MTime = at
	}
	dir, err := os.MkdirTemp("", "phoebe-texts-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := relinkTexts(info.Contents, dir); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, packager.ConventionalFileName(info)), b.Bytes(), 0o644)
}

// writeImage builds an image from the Dockerfile without a container engine. Only instructions of this Dockerfile
// are known.
func writeImage(name, version, arch string, at time.Time) error {
	text, err := os.ReadFile(filepath.Join(sources, "Dockerfile"))
	if err != nil {
		return err
	}
	var content bytes.Buffer
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	config := &v1.ConfigFile{
		Architecture: arch, OS: "linux", Created: v1.Time{Time: at},
		Config: v1.Config{ExposedPorts: map[string]struct{}{},
			Labels: map[string]string{"org.opencontainers.image.version": version}},
	}
	layer := tar.NewWriter(&content)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		for i, word := range words { // as a container engine does: ARG declares only TARGETARCH
			words[i] = strings.ReplaceAll(word, "${TARGETARCH}", arch)
		}
		switch args := words[1:]; words[0] {
		case "ARG":
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
