// Package deps pins dependencies until real code imports them; it goes away.
package deps

import (
	_ "github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/VictoriaMetrics/metrics"
	_ "github.com/alecthomas/kong"
	_ "github.com/cloudwego/kitex/client"
	_ "github.com/cloudwego/kitex/server"
	_ "github.com/cockroachdb/datadriven"
	_ "github.com/goccy/go-yaml"
	_ "github.com/panjf2000/gnet/v2"
	_ "github.com/valyala/fastrpc"
	_ "go.uber.org/goleak"
	_ "pgregory.net/rapid"
)
import _ "golang.org/x/sys/unix"
import _ "golang.org/x/term"
