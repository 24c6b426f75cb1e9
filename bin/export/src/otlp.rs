//! Runs as traces and metrics of OpenTelemetry, by its conventions for generative AI (1.41).
//!
//! A turn is a trace: `invoke_agent`, with a span for each request (`chat`) and each call (`execute_tool`). A subagent's
//! turn is below the call that started it. Ids are hashes of session and seq, and metrics are cumulative for a session,
//! so that sending something again changes nothing.

use std::collections::{BTreeMap, HashMap};

use leftfold_events::event::{EndReason, Ended, Event, ModelRef, Subagent, Usage};
use leftfold_events::{Envelope, Json, Seq, SessionId, Sha256, Time};
use leftfold_view::{Call, Outcome, Request, TurnStart};
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value::Value as Any,
};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Histogram, HistogramDataPoint, Metric, MetricsData, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point::Value as Number,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status, TracesData, span, span::SpanKind, status::StatusCode,
};
use prost::Message;
use serde_json::json;

use crate::Run;
use crate::records::{Record, Records, RequestEnd, outcome_text, outcome_word, word};

const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";
/// The most spans of one message: collectors refuse messages of more than 4 MiB or so.
const MAX_SPANS: usize = 500;
/// The bounds of histograms that the conventions recommend, in tokens and in seconds.
const TOKENS: [f64; 14] = [
    1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0,
    4_194_304.0, 16_777_216.0, 67_108_864.0,
];
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The choices of the user.
#[derive(Clone, Debug, Default)]
pub struct TelemetryOptions {
    /// Names and values of the resource, such as `service.name`.
    pub resource: Vec<(String, String)>,
    /// Whether prompts, answers, arguments and results are sent.
    pub content: bool,
    /// Whether records that have no end are sent too, as cut off at the end of their log.
    pub open: bool,
}

/// Messages for a collector.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    pub traces: Vec<Signal>,
    pub metrics: Vec<Signal>,
}

/// One message in the encodings of the protocol.
#[derive(Clone, Debug)]
pub struct Signal {
    pub protobuf: Vec<u8>,
    pub json: String,
}

impl Telemetry {
    /// The spans that end after the event `sent` of their log, and the metrics of their sessions.
    pub fn from_run(
        run: &Run,
        options: &TelemetryOptions,
        sent: impl Fn(SessionId) -> Seq,
    ) -> Self {
        let mut spawned = HashMap::new();
        let (mut spans, mut points) = (Vec::new(), Vec::new());
        for (session, events) in run.logs() {
            let log = Log { session, events, options, sent: sent(session) };
            let new = log.spans(&mut spawned, &mut points);
            spans.extend(new);
        }
        if spans.is_empty() {
            return Self::default();
        }
        let traces = spans.chunks(MAX_SPANS).map(|spans| signal(&traces(spans, options))).collect();
        let metrics = match points.is_empty() {
            true => Vec::new(),
            false => vec![signal(&metrics(points, options))],
        };
        Self { traces, metrics }
    }

    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Lines as the collector's file receiver reads them.
    pub fn json_lines(&self) -> String {
        self.traces.iter().chain(&self.metrics).map(|signal| signal.json.clone() + "\n").collect()
    }
}

pub(crate) fn signal(message: &(impl Message + serde::Serialize)) -> Signal {
    // serialising these types to memory cannot fail
    let json = serde_json::to_string(message).unwrap_or_default();
    Signal { protobuf: message.encode_to_vec(), json }
}

fn resource(options: &TelemetryOptions) -> Resource {
    let attributes = options.resource.iter();
    let attributes = attributes.map(|(name, value)| text(name, value)).collect();
    Resource { attributes, ..Resource::default() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "leftfold".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn traces(spans: &[Span], options: &TelemetryOptions) -> TracesData {
    let scoped =
        ScopeSpans { scope: Some(scope()), spans: spans.to_vec(), schema_url: SCHEMA.to_owned() };
    let of = ResourceSpans {
        resource: Some(resource(options)),
        scope_spans: vec![scoped],
        schema_url: SCHEMA.to_owned(),
    };
    TracesData { resource_spans: vec![of] }
}

fn metrics(points: Vec<Points>, options: &TelemetryOptions) -> MetricsData {
    let mut all: Vec<Metric> = Vec::new();
    for metric in points.into_iter().flat_map(Points::metrics) {
        let Some(known) = all.iter().position(|known| known.name == metric.name) else {
            all.push(metric);
            continue;
        };
        match (&mut all[known].data, metric.data) {
            (Some(Data::Histogram(known)), Some(Data::Histogram(more))) => {
                known.data_points.extend(more.data_points);
            }
            (Some(Data::Sum(known)), Some(Data::Sum(more))) => {
                known.data_points.extend(more.data_points);
            }
            // a metric is of one kind
            _ => {}
        }
    }
    metrics_data(all, options)
}

/// A message with these metrics.
pub(crate) fn metrics_data(metrics: Vec<Metric>, options: &TelemetryOptions) -> MetricsData {
    let scoped = ScopeMetrics { scope: Some(scope()), metrics, schema_url: SCHEMA.to_owned() };
    let of = ResourceMetrics {
        resource: Some(resource(options)),
        scope_metrics: vec![scoped],
        schema_url: SCHEMA.to_owned(),
    };
    MetricsData { resource_metrics: vec![of] }
}

/// The place of a span: its trace and its own id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SpanContext {
    trace: Vec<u8>,
    span: Vec<u8>,
}

fn hashed(what: &str, session: SessionId, seq: Seq, bytes: usize) -> Vec<u8> {
    let hash = Sha256::digest(format!("leftfold {what} {session} {seq}").as_bytes());
    hash.as_bytes()[..bytes].to_vec()
}

fn span_id(session: SessionId, seq: Seq) -> Vec<u8> {
    hashed("span", session, seq, 8)
}

/// One log of a run.
struct Log<'a> {
    session: SessionId,
    events: &'a [Envelope],
    options: &'a TelemetryOptions,
    sent: Seq,
}

impl Log<'_> {
    /// The spans to send. `spawned` has the calls that have started each subagent, in their order, and gets those of
    /// this log.
    fn spans(
        &self,
        spawned: &mut HashMap<SessionId, Vec<SpanContext>>,
        points: &mut Vec<Points>,
    ) -> Vec<Span> {
        let mut records = Records::default();
        // the place of each turn's parent, by the turn's seq
        let mut turns: HashMap<Seq, (Vec<u8>, Option<Vec<u8>>)> = HashMap::new();
        let mut count = 0;
        let (mut spans, mut all) = (Vec::new(), Points::new(self.session, self.events));
        let parents = spawned.get(&self.session).cloned().unwrap_or_default();
        for event in self.events {
            let done = records.apply(event);
            if records.turn() == Some(event.seq) {
                let parent = parents.get(count).or(parents.last());
                let trace = parent.map_or_else(
                    || hashed("trace", event.session, event.seq, 16),
                    |parent| parent.trace.clone(),
                );
                turns.insert(event.seq, (trace, parent.map(|parent| parent.span.clone())));
                // shared turns of a fork were its origin's
                count += usize::from(event.session == self.session);
            }
            if let Event::Subagent(Subagent::Spawned { session, .. }) = &event.event
                && let Some(call) = event.of
            {
                let turn = records.turn().and_then(|turn| turns.get(&turn));
                let trace = turn.map(|(trace, _)| trace.clone());
                let place = SpanContext {
                    trace: trace.unwrap_or_else(|| hashed("trace", event.session, event.seq, 16)),
                    span: span_id(event.session, call),
                };
                spawned.entry(*session).or_default().push(place);
            }
            for record in done {
                if record.began().0 == self.session {
                    all.count(&record, event.at);
                    if event.seq > self.sent {
                        spans.push(self.span(&record, &turns, event.at));
                    }
                }
            }
        }
        let last = self.events.last().map(|event| event.at).unwrap_or_default();
        for record in records.rest().iter().filter(|_| self.options.open) {
            if record.began().0 == self.session {
                spans.push(self.span(record, &turns, last));
            }
        }
        if !spans.is_empty() {
            points.push(all);
        }
        spans
    }

    fn span(
        &self,
        record: &Record,
        turns: &HashMap<Seq, (Vec<u8>, Option<Vec<u8>>)>,
        ended: Time,
    ) -> Span {
        let (session, seq, began) = record.began();
        let turn = match record {
            Record::Turn(turn, _) => Some(turn.seq),
            Record::Request(request, _) => request.turn,
            Record::Call(call, _) => call.turn,
        };
        let known = turn.and_then(|turn| turns.get(&turn));
        let trace = known.map(|(trace, _)| trace.clone());
        let parent = match record {
            Record::Turn(..) => known.and_then(|(_, parent)| parent.clone()),
            Record::Request(..) | Record::Call(..) => turn.map(|turn| span_id(session, turn)),
        };
        let mut span = Span {
            trace_id: trace.unwrap_or_else(|| hashed("trace", session, seq, 16)),
            span_id: span_id(session, seq),
            parent_span_id: parent.unwrap_or_default(),
            start_time_unix_nano: nanos(began),
            end_time_unix_nano: nanos(ended.max(began)),
            attributes: vec![
                text("gen_ai.conversation.id", &session.to_string()),
                number("leftfold.seq", seq),
            ],
            ..Span::default()
        };
        match record {
            Record::Turn(turn, ended) => self.turn(turn, ended.as_ref(), &mut span),
            Record::Request(request, ended) => chat(request, ended.as_ref(), &mut span),
            Record::Call(call, ended) => self.call(call, ended.as_ref(), &mut span),
        }
        span
    }

    fn turn(&self, turn: &TurnStart, ended: Option<&(Time, Box<Ended>)>, span: &mut Span) {
        span.name = format!("invoke_agent {}", turn.agent);
        span.kind = SpanKind::Internal.into();
        span.attributes.extend([
            text("gen_ai.operation.name", "invoke_agent"),
            text("gen_ai.provider.name", provider(&turn.model.provider)),
            text("gen_ai.agent.name", &turn.agent),
            text("gen_ai.request.model", &turn.model.id),
        ]);
        if self.options.content {
            span.attributes.push(said("gen_ai.input.messages", "user", &turn.prompt));
        }
        let Some((_, ended)) = ended else { return cut_off(span) };
        usage(&ended.usage, span);
        span.attributes.extend([
            float("leftfold.cost", ended.cost),
            number("leftfold.steps", ended.steps.into()),
            text("leftfold.turn.reason", &word(ended.reason)),
        ]);
        if self.options.content {
            span.attributes.push(said("gen_ai.output.messages", "assistant", &ended.text));
        }
        if ended.reason != EndReason::Completed {
            failed(span, &word(ended.reason), ended.error.as_deref().unwrap_or_default());
        }
    }

    fn call(&self, call: &Call, ended: Option<&(Time, Outcome)>, span: &mut Span) {
        span.name = format!("execute_tool {}", call.name);
        span.kind = SpanKind::Internal.into();
        span.attributes.extend([
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", &call.name),
            text("gen_ai.tool.type", "function"),
        ]);
        if !call.id.is_empty() {
            span.attributes.push(text("gen_ai.tool.call.id", &call.id));
        }
        if let Some((action, rule)) = &call.verdict {
            span.attributes.push(text("leftfold.permission.action", &word(action)));
            if let Some(rule) = rule {
                span.attributes.push(text("leftfold.permission.rule", &rule.permission));
            }
        }
        if let Some(started) = call.started {
            span.events.push(event("leftfold.started", started, Vec::new()));
        }
        if self.options.content {
            let input = Json::from_value(&call.input);
            span.attributes.push(text("gen_ai.tool.call.arguments", input.as_str()));
        }
        let Some((_, outcome)) = ended else { return cut_off(span) };
        if self.options.content {
            span.attributes.push(text("gen_ai.tool.call.result", outcome_text(outcome)));
        }
        let is_ok = matches!(outcome, Outcome::Finished(finished) if !finished.is_error);
        if !is_ok {
            failed(span, outcome_word(outcome), "");
        }
    }
}

fn chat(request: &Request, ended: Option<&(Time, RequestEnd)>, span: &mut Span) {
    span.name = format!("chat {}", request.model.id);
    span.kind = SpanKind::Client.into();
    span.attributes.extend([
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.provider.name", provider(&request.model.provider)),
        text("gen_ai.request.model", &request.model.id),
        text("gen_ai.agent.name", &request.agent),
        text("leftfold.purpose", &word(request.purpose)),
        number("leftfold.step", request.step.into()),
        number("leftfold.attempt", request.attempt.into()),
    ]);
    if let Some(first) = request.first {
        span.events.push(event("leftfold.first_piece", first, Vec::new()));
    }
    match ended {
        None => cut_off(span),
        Some((_, RequestEnd::Finished { finish, usage: used, cost, id })) => {
            usage(used, span);
            let finish = match word(finish) {
                calls if calls == "tool_calls" => "tool_call".to_owned(),
                other => other,
            };
            span.attributes.push(texts("gen_ai.response.finish_reasons", &[&finish]));
            span.attributes.push(float("leftfold.cost", *cost));
            if let Some(id) = id {
                span.attributes.push(text("leftfold.request_id", id));
            }
        }
        Some((at, RequestEnd::Failed { class, message, status })) => {
            let class = word(class);
            if let Some(status) = status {
                span.attributes.push(number("http.response.status_code", (*status).into()));
            }
            let about = vec![text("exception.type", &class), text("exception.message", message)];
            span.events.push(event("exception", *at, about));
            failed(span, &class, message);
        }
    }
}

/// The names of the conventions for providers that Leftfold calls differently.
fn provider(name: &str) -> &str {
    match name {
        "amazon-bedrock" => "aws.bedrock",
        "azure" => "azure.ai.openai",
        "google" => "gcp.gemini",
        "google-vertex" | "google-vertex-anthropic" => "gcp.vertex_ai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    }
}

fn usage(usage: &Usage, span: &mut Span) {
    let (input, output) = in_and_out(usage);
    span.attributes.extend([
        number("gen_ai.usage.input_tokens", input),
        number("gen_ai.usage.output_tokens", output),
        number("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
        number("gen_ai.usage.cache_creation.input_tokens", usage.cache_write),
    ]);
}

fn in_and_out(usage: &Usage) -> (u64, u64) {
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    (input, usage.output.saturating_add(usage.reasoning))
}

fn failed(span: &mut Span, class: &str, message: &str) {
    span.attributes.push(text("error.type", class));
    span.status = Some(Status { message: message.to_owned(), code: StatusCode::Error.into() });
}

fn cut_off(span: &mut Span) {
    failed(span, "cut_off", "");
}

/// A message in the form of the conventions.
fn said(name: &str, role: &str, content: &str) -> KeyValue {
    let mut message = json!({ "role": role, "parts": [{ "type": "text", "content": content }] });
    if role == "assistant" {
        message["finish_reason"] = "stop".into();
    }
    text(name, &json!([message]).to_string())
}

fn event(name: &str, at: Time, attributes: Vec<KeyValue>) -> span::Event {
    let (name, time_unix_nano) = (name.to_owned(), nanos(at));
    span::Event { time_unix_nano, name, attributes, dropped_attributes_count: 0 }
}

pub(crate) fn nanos(time: Time) -> u64 {
    time.millis().saturating_mul(1_000_000)
}

fn pair(name: &str, value: Any) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

pub(crate) fn text(name: &str, value: &str) -> KeyValue {
    pair(name, Any::StringValue(value.to_owned()))
}

fn texts(name: &str, values: &[&str]) -> KeyValue {
    let value = |value: &&str| AnyValue { value: Some(Any::StringValue((*value).to_owned())) };
    pair(name, Any::ArrayValue(ArrayValue { values: values.iter().map(value).collect() }))
}

fn number(name: &str, value: u64) -> KeyValue {
    pair(name, Any::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn float(name: &str, value: f64) -> KeyValue {
    pair(name, Any::DoubleValue(value))
}

/// The attributes of a point.
type Labels = Vec<(&'static str, String)>;

/// The metrics of one session so far.
struct Points {
    session: SessionId,
    began: Time,
    last: Time,
    tokens: BTreeMap<Labels, Distribution>,
    durations: BTreeMap<Labels, Distribution>,
    costs: BTreeMap<Labels, f64>,
    errors: BTreeMap<Labels, u64>,
}

#[derive(Clone, Debug, Default)]
struct Distribution {
    counts: Vec<u64>,
    count: u64,
    sum: f64,
    least: f64,
    most: f64,
}

impl Distribution {
    fn add(&mut self, value: f64, bounds: &[f64]) {
        self.counts.resize(bounds.len() + 1, 0);
        self.counts[bounds.partition_point(|bound| *bound < value)] += 1;
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.count += 1;
        self.sum += value;
    }
}

impl Points {
    fn new(session: SessionId, events: &[Envelope]) -> Self {
        let own = || events.iter().filter(|event| event.session == session);
        Self {
            session,
            began: own().next().map(|event| event.at).unwrap_or_default(),
            last: own().next_back().map(|event| event.at).unwrap_or_default(),
            tokens: BTreeMap::new(),
            durations: BTreeMap::new(),
            costs: BTreeMap::new(),
            errors: BTreeMap::new(),
        }
    }

    fn count(&mut self, record: &Record, at: Time) {
        let of_model = |operation: &str, model: &ModelRef| -> Labels {
            vec![
                ("gen_ai.operation.name", operation.to_owned()),
                ("gen_ai.provider.name", provider(&model.provider).to_owned()),
                ("gen_ai.request.model", model.id.clone()),
            ]
        };
        let (mut labels, error) = match record {
            Record::Turn(turn, ended) => {
                let error = ended.as_ref().map(|(_, ended)| word(ended.reason));
                let labels = of_model("invoke_agent", &turn.model);
                (labels, error.filter(|reason| reason != "completed"))
            }
            Record::Request(request, ended) => {
                let labels = of_model("chat", &request.model);
                match ended {
                    None => (labels, Some("cut_off".to_owned())),
                    Some((_, RequestEnd::Failed { class, .. })) => (labels, Some(word(class))),
                    Some((_, RequestEnd::Finished { usage, cost, .. })) => {
                        let (input, output) = in_and_out(usage);
                        for (kind, tokens) in [("input", input), ("output", output)] {
                            let mut labels = labels.clone();
                            labels.push(("gen_ai.token.type", kind.to_owned()));
                            let tokens = to_float(tokens);
                            self.tokens.entry(labels).or_default().add(tokens, &TOKENS);
                        }
                        *self.costs.entry(labels.clone()).or_default() += cost;
                        (labels, None)
                    }
                }
            }
            Record::Call(call, ended) => {
                let labels = vec![
                    ("gen_ai.operation.name", "execute_tool".to_owned()),
                    ("gen_ai.tool.name", call.name.clone()),
                ];
                let error = ended.as_ref().map(|(_, outcome)| outcome_word(outcome).to_owned());
                (labels, error.filter(|outcome| outcome != "ok"))
            }
        };
        if let Some(error) = error {
            labels.push(("error.type", error));
            *self.errors.entry(labels.clone()).or_default() += 1;
        }
        let seconds = to_float(at.since(record.began().2)) / 1_000.0;
        self.durations.entry(labels).or_default().add(seconds, &SECONDS);
    }

    fn attributes(&self, labels: &Labels) -> Vec<KeyValue> {
        let labels = labels.iter().map(|(name, value)| text(name, value));
        labels.chain([text("gen_ai.conversation.id", &self.session.to_string())]).collect()
    }

    fn metrics(self) -> Vec<Metric> {
        let histogram =
            |name: &str, unit: &str, all: &BTreeMap<Labels, Distribution>, bounds: &[f64]| {
                let points = all.iter().map(|(labels, of)| HistogramDataPoint {
                    attributes: self.attributes(labels),
                    start_time_unix_nano: nanos(self.began),
                    time_unix_nano: nanos(self.last),
                    count: of.count,
                    sum: Some(of.sum),
                    bucket_counts: of.counts.clone(),
                    explicit_bounds: bounds.to_vec(),
                    min: Some(of.least),
                    max: Some(of.most),
                    ..HistogramDataPoint::default()
                });
                let data = Data::Histogram(Histogram {
                    data_points: points.collect(),
                    aggregation_temporality: AggregationTemporality::Cumulative.into(),
                });
                metric(name, unit, data)
            };
        let sum = |name: &str, unit: &str, all: Vec<(&Labels, Number)>| {
            let points = all.into_iter().map(|(labels, value)| NumberDataPoint {
                attributes: self.attributes(labels),
                start_time_unix_nano: nanos(self.began),
                time_unix_nano: nanos(self.last),
                value: Some(value),
                ..NumberDataPoint::default()
            });
            let data = Data::Sum(Sum {
                data_points: points.collect(),
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            });
            metric(name, unit, data)
        };
        let costs = self.costs.iter().map(|(labels, cost)| (labels, Number::AsDouble(*cost)));
        let errors = self.errors.iter().map(|(labels, count)| {
            (labels, Number::AsInt(i64::try_from(*count).unwrap_or(i64::MAX)))
        });
        let all = vec![
            histogram("gen_ai.client.token.usage", "{token}", &self.tokens, &TOKENS),
            histogram("gen_ai.client.operation.duration", "s", &self.durations, &SECONDS),
            sum("leftfold.cost", "USD", costs.collect()),
            sum("leftfold.errors", "{error}", errors.collect()),
        ];
        all.into_iter().filter(has_points).collect()
    }
}

pub(crate) fn metric(name: &str, unit: &str, data: Data) -> Metric {
    let (name, unit) = (name.to_owned(), unit.to_owned());
    Metric { name, unit, data: Some(data), ..Metric::default() }
}

fn has_points(metric: &Metric) -> bool {
    match &metric.data {
        Some(Data::Histogram(histogram)) => !histogram.data_points.is_empty(),
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Gauge(_) | Data::ExponentialHistogram(_) | Data::Summary(_)) | None => false,
    }
}

/// Exact up to 52 bits.
fn to_float(number: u64) -> f64 {
    number as f64
}
