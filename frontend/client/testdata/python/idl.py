"""Apache Thrift classes and a client, made from a .thrift file as it is read.

The Apache compiler would write the same classes to files. But no Python registry has the compiler, and a generated
copy goes stale. So thriftpy2 parses the IDL, and Apache's own library does everything on the wire.
"""

from thrift.protocol.TBase import TBase, TExceptionBase
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport
from thriftpy2.parser import parse
from thriftpy2.thrift import TException, TType as ParsedType


class Module:
    """The structs, exceptions and enums of the file at path, as attributes, and the methods of its services."""

    def __init__(self, path):
        self._classes = {}  # by parsed class
        parsed = parse(path)
        meta = parsed.__thrift_meta__
        for enum in meta["enums"]:
            setattr(self, enum.__name__, enum)
        for struct in meta["structs"] + meta["exceptions"]:
            setattr(self, struct.__name__, self._class(struct))
        self.methods = {  # name: (arguments, result)
            name: (
                self._class(getattr(service, name + "_args")),
                self._class(getattr(service, name + "_result")),
            )
            for service in meta["services"]
            for name in service.thrift_services
        }

    def _class(self, parsed):
        if parsed not in self._classes:
            self._classes[parsed] = self._make(parsed)
        return self._classes[parsed]

    def _make(self, parsed):
        defaults = dict(parsed.default_spec)
        spec = [None] * (max(parsed.thrift_spec, default=-1) + 1)
        for fid, (ttype, name, *detail, _required) in parsed.thrift_spec.items():
            ttype, args = self._type(ttype, detail[0] if detail else None)
            spec[fid] = (fid, ttype, name, args, defaults[name])

        def init(self, **fields):
            for name in defaults:
                setattr(self, name, fields.pop(name, defaults[name]))
            if fields:
                raise TypeError(f"{parsed.__name__} has no field {', '.join(fields)}")

        base = TExceptionBase if issubclass(parsed, TException) else TBase
        body = {"__slots__": tuple(defaults), "__init__": init, "thrift_spec": tuple(spec)}
        return type(parsed.__name__, (base,), body)

    def _type(self, ttype, detail):
        """The type in the form of Apache's thrift_spec: its number, and arguments for some types."""
        if ttype == ParsedType.BINARY:
            return TType.STRING, "BINARY"
        if ttype == TType.STRING:
            return ttype, "UTF8"
        if ttype == TType.STRUCT:
            cls = self._class(detail)
            return ttype, [cls, cls.thrift_spec]
        if ttype == TType.LIST:
            inner = detail if isinstance(detail, tuple) else (detail, None)
            return ttype, (*self._type(*inner), False)
        if ttype in (TType.MAP, TType.SET):
            raise NotImplementedError("maps and sets: the API has none yet")
        return ttype, None


class Client:
    """One connection, with framed transport and strict binary protocol. It makes one call at a time."""

    def __init__(self, module, host, port, timeout_seconds):
        self._module = module
        socket = TSocket(host, port)
        socket.setTimeout(timeout_seconds * 1000)
        self._transport = TFramedTransport(socket)
        self._protocol = TBinaryProtocol(self._transport, strictRead=True, strictWrite=True)
        self._seqid = 0
        self._transport.open()

    def close(self):
        self._transport.close()

    def call(self, method, request):
        """Returns the method's result, or raises the exception that the method throws."""
        args, result = self._module.methods[method]
        self._seqid += 1
        self._protocol.writeMessageBegin(method, TMessageType.CALL, self._seqid)
        args(request=request).write(self._protocol)
        self._protocol.writeMessageEnd()
        self._transport.flush()

        name, kind, seqid = self._protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            problem = TApplicationException()
            problem.read(self._protocol)
            raise problem
        if (name, seqid) != (method, self._seqid):
            raise TApplicationException(
                TApplicationException.BAD_SEQUENCE_ID,
                f"called {method} #{self._seqid}, was answered {name} #{seqid}",
            )
        answer = result()
        answer.read(self._protocol)
        self._protocol.readMessageEnd()
        for field in result.__slots__:
            value = getattr(answer, field)
            if isinstance(value, Exception):
                raise value
        if answer.success is None:
            raise TApplicationException(
                TApplicationException.MISSING_RESULT, f"{method} answered nothing"
            )
        return answer.success
