package client

import (
	"context"

	"github.com/cloudwego/gopkg/protocol/thrift"

	"github.com/phoebe-sched/phoebe/frontend/frame"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// rpcs makes the calls of the API. The context of each call must be a *call, see makeCall. Kitex's client would do the
// same more slowly, and would bring 300 packages into every program with this package.
type rpcs struct{}

var _ v1.Phoebe = rpcs{}

// resultOf is the generated result of a method that returns *Res.
type resultOf[Res any] interface {
	thrift.FastCodec
	GetSuccess() *Res
	GetRefused() *v1.Refused
}

// sendCall makes a call. An error is a *v1.Refused, or the pool has dropped the connection. Then the error is a
// *thrift.ApplicationException, or the error of the connection.
func sendCall[Res any](ctx context.Context, method string, req thrift.FastCodec, result resultOf[Res]) (*Res, error) {
	cl := ctx.Value(callKey{}).(*call)
	if err := cl.pool.exchange(cl, method, req, result); err != nil {
		return nil, err
	}
	if refused := result.GetRefused(); refused != nil {
		return nil, refused
	}
	return result.GetSuccess(), nil
}

// exchange lends the call a connection, sends the request, and reads the answer. The connection stays only after an
// answer of the method, a Refused included. After some exceptions a server closes the connection, for example after an
// unknown method.
func (p *pool) exchange(cl *call, method string, req, result thrift.FastCodec) error {
	c, err := p.lendConn(cl)
	if err != nil {
		return err
	}
	c.lastSeq++
	b := frame.AppendCall(c.outBuf, method, c.lastSeq, req)
	_, err = c.Write(b)
	if cap(b) <= maxOutBuf {
		c.outBuf = b[:0]
	}
	if err != nil {
		p.discardConn(c)
		return err
	}
	if err := frame.ReadAnswer(c.r, method, c.lastSeq, maxAnswer, result); err != nil {
		p.discardConn(c)
		return err
	}
	p.putConn(c)
	return nil
}

func (rpcs) Run(ctx context.Context, req *v1.RunRequest) (*v1.RunResponse, error) {
	return sendCall(ctx, "Run", req, v1.NewPhoebeRunResult())
}

func (rpcs) Submit(ctx context.Context, req *v1.SubmitRequest) (*v1.SubmitResponse, error) {
	return sendCall(ctx, "Submit", req, v1.NewPhoebeSubmitResult())
}

func (rpcs) Events(ctx context.Context, req *v1.EventsRequest) (*v1.EventsResponse, error) {
	return sendCall(ctx, "Events", req, v1.NewPhoebeEventsResult())
}

func (rpcs) Cancel(ctx context.Context, req *v1.CancelRequest) (*v1.CancelResponse, error) {
	return sendCall(ctx, "Cancel", req, v1.NewPhoebeCancelResult())
}

func (rpcs) CancelTasks(ctx context.Context, req *v1.CancelTasksRequest) (*v1.CancelResponse, error) {
	return sendCall(ctx, "CancelTasks", req, v1.NewPhoebeCancelTasksResult())
}

func (rpcs) Extend(ctx context.Context, req *v1.ExtendRequest) (*v1.ExtendResponse, error) {
	return sendCall(ctx, "Extend", req, v1.NewPhoebeExtendResult())
}

func (rpcs) Explain(ctx context.Context, req *v1.ExplainRequest) (*v1.ExplainResponse, error) {
	return sendCall(ctx, "Explain", req, v1.NewPhoebeExplainResult())
}

func (rpcs) Cluster(ctx context.Context, req *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	return sendCall(ctx, "Cluster", req, v1.NewPhoebeClusterResult())
}

func (rpcs) Watch(ctx context.Context, req *v1.WatchRequest) (*v1.WatchResponse, error) {
	return sendCall(ctx, "Watch", req, v1.NewPhoebeWatchResult())
}

func (rpcs) Jobs(ctx context.Context, req *v1.JobsRequest) (*v1.JobsResponse, error) {
	return sendCall(ctx, "Jobs", req, v1.NewPhoebeJobsResult())
}

func (rpcs) Trace(ctx context.Context, req *v1.TraceRequest) (*v1.TraceResponse, error) {
	return sendCall(ctx, "Trace", req, v1.NewPhoebeTraceResult())
}

func (rpcs) Recordings(ctx context.Context, req *v1.RecordingsRequest) (*v1.RecordingsResponse, error) {
	return sendCall(ctx, "Recordings", req, v1.NewPhoebeRecordingsResult())
}

func (rpcs) Recording(ctx context.Context, req *v1.RecordingRequest) (*v1.RecordingResponse, error) {
	return sendCall(ctx, "Recording", req, v1.NewPhoebeRecordingResult())
}

func (rpcs) Leave(ctx context.Context, req *v1.LeaveRequest) (*v1.LeaveResponse, error) {
	return sendCall(ctx, "Leave", req, v1.NewPhoebeLeaveResult())
}

func (rpcs) Locate(ctx context.Context, req *v1.LocateRequest) (*v1.LocateResponse, error) {
	return sendCall(ctx, "Locate", req, v1.NewPhoebeLocateResult())
}

func (rpcs) ReadFile(ctx context.Context, req *v1.ReadFileRequest) (*v1.ReadFileResponse, error) {
	return sendCall(ctx, "ReadFile", req, v1.NewPhoebeReadFileResult())
}
