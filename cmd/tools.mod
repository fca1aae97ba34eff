// The tools that make runs have a file of their own, so that a module that requires phoebe does not get them into its
// module graph:
//
//	go tool -modfile=cmd/tools.mod staticcheck ./...
//
// Kitex has the same version here and in go.mod. To upgrade the tool:
//
//	go get -modfile=cmd/tools.mod -tool github.com/cloudwego/kitex/tool/cmd/kitex@VERSION
module github.com/phoebe-sched/phoebe/cmd/tools

go 1.26.0

tool (
	github.com/cloudwego/kitex/tool/cmd/kitex
	honnef.co/go/tools/cmd/staticcheck
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/bytedance/gopkg v0.1.4 // indirect
	github.com/cloudwego/gopkg v0.2.0 // indirect
	github.com/cloudwego/kitex v0.16.2 // indirect
	github.com/cloudwego/prutal v0.1.3 // indirect
	github.com/cloudwego/thriftgo v0.4.5 // indirect
	github.com/dlclark/regexp2 v1.11.0 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.38.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	golang.org/x/tools v0.48.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
	honnef.co/go/tools v0.7.0 // indirect
)
