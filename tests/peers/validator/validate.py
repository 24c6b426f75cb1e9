"""Checks bodies of requests against the parameter types of the vendors' own Python SDKs, and Bedrock's against the model of its
API that Amazon's SDKs are made from. Exports are checked against their formats' own types, files for containers by the schemas
of their tools.

Reads JSON lines from standard input: {"format": ..., "name": ..., "body": {...}}. Writes a JSON line for each body
that is refused: {"name": ..., "faults": [[path, message], ...]}, and {"checked": N} at the end. A member that the
types do not know is a fault. Only shapes are checked; Leftfold's own rules check what they mean.

The SDKs take seconds to import, so each is imported when the first body of its format comes.
"""

import base64
import functools
import gc
import importlib.util
import json
import pathlib
import sys
import types
import typing

import pydantic
import pydantic_core
import typing_extensions

# the types are many, and needed to the end
gc.disable()

# pydantic checks the items of an Iterable only when somebody reads them. A body has lists there.
typing.Iterable = typing.List

CLOSED = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def close(package: str) -> None:
    """Makes every type of this package refuse members that it does not know."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(package):
            continue
        for member in ("Iterable", "SequenceNotStr"):
            if hasattr(module, member):
                setattr(module, member, typing.List)
        for value in list(vars(module).values()):
            if typing_extensions.is_typeddict(value):
                value.__pydantic_config__ = CLOSED


def only_instances(model: type, *_: object) -> object:
    """The schema of a class of answers: no JSON is one. These classes take any member."""
    return pydantic_core.core_schema.is_instance_schema(model)


@functools.cache
def anthropic_messages() -> types.ModuleType:
    import anthropic._models
    from anthropic.types import message_create_params

    anthropic._models.BaseModel.__get_pydantic_core_schema__ = classmethod(only_instances)
    close("anthropic.types")
    return message_create_params


@functools.cache
def openai_types() -> types.ModuleType:
    import openai._models
    import openai.types.chat.completion_create_params
    import openai.types.responses.response_create_params

    openai._models.BaseModel.__get_pydantic_core_schema__ = classmethod(only_instances)
    close("openai.types")
    return openai.types


# The newest types of Anthropic have no sampling parameters, since the newest models refuse them. Leftfold sends them
# to older models only.
OLDER = {"anthropic": ("temperature", "top_p", "top_k")}


def gemini_body() -> type:
    from google.genai import types as gemini

    class GeminiBody(pydantic.BaseModel):
        """The members of `models/*:generateContent`, whose types the SDK has one by one."""

        model_config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)

        contents: list[gemini.Content]
        systemInstruction: gemini.Content | None = None
        tools: list[gemini.Tool] | None = None
        toolConfig: gemini.ToolConfig | None = None
        safetySettings: list[gemini.SafetySetting] | None = None
        generationConfig: gemini.GenerationConfig | None = None
        cachedContent: str | None = None

    return GeminiBody


def trajectory() -> type:
    from harbor.models.trajectories import Trajectory

    return Trajectory


class BedrockBody:
    """The body of `ConverseStream`. The model is in the address."""

    def __init__(self) -> None:
        import botocore.loaders
        import botocore.model
        import botocore.validate

        self.validator = botocore.validate.ParamValidator()
        model = botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2")
        service = botocore.model.ServiceModel(model)
        self.shape = service.operation_model("ConverseStream").input_shape

    def faults(self, body: dict) -> list[list[str]]:
        report = self.validator.validate({"modelId": "m"} | body, self.shape)
        return [["", report.generate_report()]] if report.has_errors() else []


class Otlp:
    """A message of OpenTelemetry's protocol in both encodings, which have to say the same."""

    def __init__(self) -> None:
        from google.protobuf import json_format
        from opentelemetry.proto.metrics.v1 import metrics_pb2
        from opentelemetry.proto.trace.v1 import trace_pb2

        self.kinds = {"traces": trace_pb2.TracesData, "metrics": metrics_pb2.MetricsData}
        self.parse = json_format.ParseDict

    def faults(self, body: dict) -> list[list[str]]:
        kind = self.kinds[body["signal"]]
        message = kind.FromString(base64.b64decode(body["protobuf"]))
        same = self.parse(ids_as_bytes(body["json"]), kind())
        unknown = message.SerializeToString(deterministic=True) != same.SerializeToString(deterministic=True)
        return [["", f"{message}\nis not\n{same}"]] if unknown else []


def ids_as_bytes(value: object) -> object:
    """Ids are hexadecimal in the protocol's JSON, other than in that of Protocol Buffers."""
    if isinstance(value, list):
        return [ids_as_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    hexadecimal = ("traceId", "spanId", "parentSpanId")
    as_bytes = lambda text: base64.b64encode(bytes.fromhex(text)).decode()
    return {
        name: as_bytes(item) if name in hexadecimal else ids_as_bytes(item)
        for name, item in value.items()
    }


class Published:
    """A file of a tool, by the schema that its makers have published, as the package check-jsonschema has it."""

    def __init__(self, name: str) -> None:
        import jsonschema
        import yaml

        self.load = yaml.safe_load
        # the package itself needs others, its schemas do not
        package = pathlib.Path(importlib.util.find_spec("check_jsonschema").origin).parent
        schema = json.loads((package / f"builtin_schemas/vendor/{name}.json").read_text())
        self.validator = jsonschema.validators.validator_for(schema)(schema)

    def faults(self, text: str) -> list[list[str]]:
        return [[error.json_path, error.message] for error in self.validator.iter_errors(self.load(text))]


class Kubernetes:
    """A file of manifests. Members that the newest version does not know are faults."""

    def faults(self, text: str) -> list[list[str]]:
        import kubernetes_validate
        import yaml

        found = []
        for manifest in yaml.safe_load_all(text):
            try:
                kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
            except kubernetes_validate.ValidationError as error:
                found.append([f"{manifest['kind']} {list(error.path)}", error.message])
        return found


class Training:
    """A line for fine-tuning: the members that it may have, and for the rest a request that the vendor takes."""

    def __init__(self, members: set[str], request: type, added: dict) -> None:
        self.members, self.request, self.added = members, pydantic.TypeAdapter(request), added

    def faults(self, line: dict) -> list[list[str]]:
        found = [[name, "no member of a line"] for name in line.keys() - self.members]
        roles = [message["role"] for message in line["messages"]]
        if roles[-1] != "assistant" or "user" not in roles:
            found.append(["messages", f"roles {roles}"])
        if "tools" not in self.members and roles != ["user", "assistant"] * (len(roles) // 2):
            found.append(["messages", f"roles do not alternate: {roles}"])
        calls = [call["id"] for message in line["messages"] for call in message.get("tool_calls", [])]
        results = [message["tool_call_id"] for message in line["messages"] if message["role"] == "tool"]
        if sorted(calls[: len(results)]) != sorted(results):
            found.append(["messages", f"calls {calls}, results {results}"])
        return found + faults(self.request, line | self.added)


def faults(adapter: pydantic.TypeAdapter | BedrockBody | Training | Published, body: object) -> list[list[str]]:
    """The faults of one body, the deepest first: in a union only the closest alternative is of interest."""
    if not isinstance(adapter, pydantic.TypeAdapter):
        return adapter.faults(body)
    try:
        adapter.validate_python(body)
        return []
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        found.sort(key=lambda fault: -len(fault["loc"]))
        # the names of unions are long and say little
        path = lambda fault: ".".join(str(step) for step in fault["loc"] if "[" not in str(step))
        return [[path(fault), fault["msg"]] for fault in found[:8]]


# for each format, what makes its adapter
ADAPTERS = {
    "anthropic": lambda: pydantic.TypeAdapter(anthropic_messages().MessageCreateParamsStreaming),
    "openai-chat": lambda: pydantic.TypeAdapter(
        openai_types().chat.completion_create_params.CompletionCreateParamsStreaming
    ),
    "openai-responses": lambda: pydantic.TypeAdapter(
        openai_types().responses.response_create_params.ResponseCreateParamsStreaming
    ),
    "gemini": lambda: pydantic.TypeAdapter(gemini_body()),
    "atif": lambda: pydantic.TypeAdapter(trajectory()),
    "bedrock": BedrockBody,
    "otlp": Otlp,
    "compose": lambda: Published("compose-spec"),
    "workflow": lambda: Published("github-workflows"),
    "kubernetes": Kubernetes,
    "openai-training": lambda: Training(
        {"messages", "tools"},
        openai_types().chat.completion_create_params.CompletionCreateParamsNonStreaming,
        {"model": "m"},
    ),
    "anthropic-training": lambda: Training(
        {"system", "messages"},
        anthropic_messages().MessageCreateParamsNonStreaming,
        {"model": "m", "max_tokens": 1},
    ),
}


@functools.cache
def adapter(name: str) -> pydantic.TypeAdapter | BedrockBody | Otlp | Training | Published | Kubernetes:
    return ADAPTERS[name]()


def main() -> None:
    checked = 0
    for line in sys.stdin:
        case = json.loads(line)
        for member in OLDER.get(case["format"], ()):
            case["body"].pop(member, None)
        found = faults(adapter(case["format"]), case["body"])
        checked += 1
        if found:
            print(json.dumps({"name": case["name"], "faults": found}), flush=True)
    print(json.dumps({"checked": checked}))


main()
