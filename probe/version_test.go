package probe

import (
	"strings"
	"testing"
)

// Both ends compute the same version and features, or report the same error.
func TestCommon(t *testing.T) {
	for _, c := range []struct {
		frontend, worker Dialect
		version          uint32
		features         Features
		problem          string
	}{
		{Dialect{6, 6, 0}, Dialect{6, 6, 0}, 6, 0, ""},
		{Dialect{6, 8, 0b110}, Dialect{7, 9, 0b011}, 8, 0b010, ""},
		{Dialect{6, 9, 1}, Dialect{7, 8, 1}, 8, 1, ""},
		{Dialect{6, 7, 1}, Dialect{7, 9, 0}, 7, 0, ""},
		{Dialect{6, 6, 1}, Dialect{7, 9, 1}, 0, 0, "upgrade the frontend"},
		{Dialect{8, 9, 1}, Dialect{6, 7, 1}, 0, 0, "upgrade the worker"},
		{Dialect{6, 9, 1}, Dialect{}, 0, 0, "upgrade the worker"},
	} {
		version, features, err := c.frontend.Common(c.worker, "the frontend", "the worker")
		version2, features2, err2 := c.worker.Common(c.frontend, "the worker", "the frontend")
		if version != c.version || features != c.features || version2 != c.version || features2 != c.features {
			t.Errorf("%v and %v: version %d with %b, and %d with %b", c.frontend, c.worker, version, features,
				version2, features2)
		}
		for _, err := range []error{err, err2} {
			if (err == nil) != (c.problem == "") || err != nil && !strings.HasSuffix(err.Error(), c.problem) {
				t.Errorf("%v and %v: %v", c.frontend, c.worker, err)
			}
		}
	}
}
