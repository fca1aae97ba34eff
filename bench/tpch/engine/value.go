package engine

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// null is the text of NULL.
const null = "NULL"

// formatValue returns value i of a column as text. The text is the same for a value from a message and for a
// value from a file.
func formatValue(c arrow.Array, i int) string {
	if c.IsNull(i) {
		return null
	}
	switch c := c.(type) {
	case *array.Float64:
		return strconv.FormatFloat(c.Value(i), 'g', 17, 64)
	case *array.Decimal128:
		return c.Value(i).ToString(c.DataType().(*arrow.Decimal128Type).Scale)
	}
	return strings.Clone(c.ValueStr(i)) // the batch may be freed before the text
}
