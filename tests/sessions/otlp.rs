//! `leftfold export --format otlp`: traces and metrics of OpenTelemetry, as a file and at a collector.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::validator::{Body, Validator};
use common::{Answer, Server, Site, bash, says, script, wait_until};
use leftfold_events::Time;
use leftfold_export::{Measured, Measurement, TelemetryOptions};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::page::{crashed, denied, plain, subagents};

fn exported(site: &Site) -> Vec<Value> {
    let text = site.run(&["export", "--all", "--format", "otlp"]).ok().stdout;
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The spans of messages, by their ids.
fn spans<'a>(messages: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let of = |message: &Value| {
        message["resourceSpans"][0]["scopeSpans"][0]["spans"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    messages.into_iter().flat_map(of).collect()
}

fn attribute(of: &Value, name: &str) -> Value {
    let all = of["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == name);
    let value = found.map(|attribute| attribute["value"].clone()).unwrap_or_default();
    value.as_object().and_then(|value| value.values().next().cloned()).unwrap_or_default()
}

fn operation(span: &Value) -> String {
    attribute(span, "gen_ai.operation.name").as_str().unwrap().to_owned()
}

fn collector() -> Server {
    Server::answering(|_| Answer::Status(200, vec![], "{}".into()))
}

/// A site that sends JSON to the collector.
fn sending_to(site: Site, server: &Server) -> Site {
    site.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", server.address()))
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
}

#[test]
fn a_turn_is_a_trace_with_its_requests_calls_and_subagents() {
    let site = subagents();
    let messages = exported(&site);
    let spans = spans(&messages);
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for span in &spans {
        *count.entry(operation(span)).or_default() += 1;
        assert_eq!(span["traceId"], spans[0]["traceId"], "{span}");
        assert_eq!(span["traceId"].as_str().unwrap().len(), 32, "{span}");
        assert_eq!(span["spanId"].as_str().unwrap().len(), 16, "{span}");
        let is_parent = |other: &&Value| other["spanId"] == span["parentSpanId"];
        let parent = spans.iter().find(is_parent).map(operation);
        let agent = attribute(span, "gen_ai.agent.name");
        let expected = match operation(span).as_str() {
            "invoke_agent" if agent == "build" => None,
            "invoke_agent" => Some("execute_tool"),
            _ => Some("invoke_agent"),
        };
        assert_eq!(parent.as_deref(), expected, "{span}");
        let nanos = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span}");
    }
    let expected = [("chat", 5), ("execute_tool", 3), ("invoke_agent", 3)];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(count, BTreeMap::from(expected), "{spans:#?}");
    // texts only if they are asked for
    let written = json!(messages).to_string();
    assert!(!written.contains("look at one") && !written.contains("One is there."), "{written}");
    let site = site.env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let written = json!(exported(&site)).to_string();
    assert!(written.contains("look at one") && written.contains("One is there."), "{written}");
}

#[test]
fn spans_say_how_it_ended_and_what_it_used() {
    let site = plain();
    let messages = exported(&site);
    let plain = spans(&messages);
    let of = |name: &str| plain.iter().find(|span| operation(span) == name).unwrap();
    let turn = of("invoke_agent");
    assert_eq!(turn["name"], "invoke_agent build");
    assert_eq!(attribute(turn, "gen_ai.provider.name"), "double");
    assert_eq!(attribute(turn, "leftfold.turn.reason"), "completed");
    assert_eq!(attribute(of("chat"), "gen_ai.request.model"), "m");
    assert_eq!(of("chat")["kind"], 3);
    let ended = common::all(&site.exported(), "turn.ended")[0]["data"]["usage"].clone();
    let sum = |names: &[&str]| names.iter().map(|name| ended[name].as_u64().unwrap()).sum::<u64>();
    let input = sum(&["input", "cache_read", "cache_write"]).to_string();
    assert_eq!(attribute(turn, "gen_ai.usage.input_tokens"), input);
    // the same tokens as a metric
    let metrics = messages.iter().find(|message| message["resourceMetrics"].is_array()).unwrap();
    let metrics = &metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let named = |name: &str| {
        metrics.as_array().unwrap().iter().find(|metric| metric["name"] == name).unwrap()
    };
    let points = &named("gen_ai.client.token.usage")["histogram"]["dataPoints"];
    let is_input = |point: &&Value| attribute(point, "gen_ai.token.type") == "input";
    let point = points.as_array().unwrap().iter().find(is_input).unwrap();
    assert_eq!(point["sum"].as_f64().unwrap().to_string(), input);
    assert!(!named("gen_ai.client.operation.duration").is_null());

    let error = |span: &&Value| span["status"]["code"] == 2;
    let denied = spans(&exported(&denied()));
    let errors: Vec<Value> =
        denied.iter().filter(error).map(|span| attribute(span, "error.type")).collect();
    assert!(errors.contains(&json!("denied")), "{errors:?}");
    let crashed = spans(&exported(&crashed()));
    let errors: Vec<Value> =
        crashed.iter().filter(error).map(|span| attribute(span, "error.type")).collect();
    assert!(errors.contains(&json!("lost")), "{errors:?}");
}

/// The protocol's own Python types read what a collector gets, and the lines of the file say the same.
#[test]
fn a_collector_gets_what_the_file_has_and_the_same_again() {
    let Some(validator) = Validator::installed() else { return };
    let server = collector();
    let endpoint = format!("http://{}", server.address());
    let site = subagents()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b,x-other=c")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        .env("OTEL_SERVICE_NAME", "tests");
    let lines = exported(&site);
    site.run(&["export", "--all", "--format", "otlp", "--send"]).ok();
    site.run(&["export", "last", "--format", "otlp", "--send"]).ok();
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    let mut bodies = Vec::new();
    for (request, json) in requests.iter().zip(&lines) {
        assert!(request.headers.contains(&"x-key: a b".to_owned()), "{:?}", request.headers);
        assert!(request.headers.contains(&"content-type: application/x-protobuf".to_owned()));
        let name = if json["resourceSpans"].is_array() { "traces" } else { "metrics" };
        assert!(request.line.starts_with(&format!("POST /v1/{name} ")), "{}", request.line);
        let resource = json["resourceSpans"].as_array().or(json["resourceMetrics"].as_array());
        assert_eq!(attribute(&resource.unwrap()[0]["resource"], "service.name"), "tests");
        let body =
            json!({ "signal": name, "protobuf": STANDARD.encode(&request.bytes), "json": json });
        bodies.push(Body { format: "otlp", name: name.to_owned(), body });
    }
    assert_eq!(validator.refused(&bodies), []);
    for (first, again) in [(0, 2), (1, 3)] {
        assert!(requests[first].bytes == requests[again].bytes, "{first}");
    }
}

/// Each signal may have a form of its own.
#[test]
fn messages_can_be_packed() {
    let server = collector();
    let site = sending_to(plain(), &server)
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("NO_PROXY", "*")
        .env("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none")
        .env("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf");
    let lines = exported(&site);
    site.run(&["export", "last", "--format", "otlp", "--send"]).ok();
    let requests = server.requests();
    let [traces, metrics] = requests.as_slice() else { panic!("{}", requests.len()) };
    assert!(traces.headers.contains(&"content-encoding: gzip".to_owned()), "{traces:?}");
    let unpacked: Value =
        serde_json::from_reader(flate2::read::GzDecoder::new(traces.bytes.as_slice())).unwrap();
    assert_eq!(unpacked, lines[0]);
    assert!(!metrics.headers.iter().any(|header| header.starts_with("content-encoding")));
    assert!(metrics.headers.contains(&"content-type: application/x-protobuf".to_owned()));
}

/// Between two followers, kills and a collector that is away, each span arrives once.
#[test]
fn a_follower_loses_nothing_and_sends_nothing_twice() {
    let busy = std::sync::atomic::AtomicUsize::new(0);
    let server =
        Server::answering(move |_| match busy.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Answer::Status(503, vec![], String::new()),
            _ => Answer::Status(200, vec![], "{}".into()),
        });
    let answers = [bash("echo one"), says("One."), bash("echo two"), says("Two."), says("Three.")];
    let site = sending_to(Site::scripted(&script(json!(answers))), &server);
    let follow = ["export", "--all", "--format", "otlp", "--send", "--follow"];
    let received = || {
        let mut received: Vec<Value> =
            server.requests().iter().map(|request| request.body.clone()).collect();
        // the first was not taken
        received.drain(..1.min(received.len()));
        spans(&received)
    };
    site.prompt("First.").ok();
    let follower = site.start(&follow);
    wait_until("the first turn", || received().len() >= 4);
    site.run(&follow).with(1).saying(&["another process is sending"]);
    site.run(&["run", "--continue", "--format", "json", "Second."]).ok();
    wait_until("the second turn", || received().len() >= 8);
    // the metrics are taken and the cursor is written after the spans
    std::thread::sleep(std::time::Duration::from_millis(500));
    follower.signal(Signal::KILL);
    follower.wait();
    site.run(&["run", "--continue", "--format", "json", "Third."]).ok();
    let follower = site.start(&follow);
    wait_until("the third turn", || received().len() >= 10);
    follower.signal(Signal::INT);
    follower.wait().ok();
    let ids = |spans: &[Value]| {
        let mut ids: Vec<String> = spans.iter().map(|span| span["spanId"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&received()), ids(&spans(&exported(&site))));
}

#[test]
fn wrong_variables_are_named() {
    let site = plain();
    for (name, value, says) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "use http/protobuf or http/json"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "no address", "is no address"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key", "is no pair"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "milliseconds"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
            "soon",
            "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: expected",
        ),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "use http/protobuf or http/json"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "use gzip or none"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem", "is not supported"),
        ("OTEL_METRICS_EXPORTER", "prometheus", "use otlp or none"),
        ("OTEL_SDK_DISABLED", "true", "nothing is sent"),
    ] {
        let mut command = site.command(&["export", "last", "--format", "otlp", "--send"]);
        command.env(name, value);
        common::Live::start(command).wait().with(2).saying(&[says]);
    }
    for args in [
        &["export", "last", "--format", "otlp", "--follow"][..],
        &["export", "last", "--format", "md", "--send"],
        &["export", "last", "--format", "otlp", "--send", "-o", "x"],
    ] {
        site.run(args).with(2);
    }
}

#[test]
fn each_kind_of_measurement_has_its_form() {
    let of = |name, value| Measurement { name, unit: "{event}", description: "About.", value };
    let all = [
        of("counter", Measured::Counter(7)),
        of("gauge", Measured::Gauge(3)),
        of(
            "gauges",
            Measured::Gauges { attribute: "state", values: vec![("idle", 1), ("owned", 0)] },
        ),
        of("amount", Measured::Amount(0.5)),
        of(
            "histogram",
            Measured::Histogram { bounds: vec![1.0, 2.0], counts: vec![4, 0, 1], sum: 9.5 },
        ),
    ];
    let (began, at) = (Time::from_millis(1), Time::from_millis(2));
    let options = TelemetryOptions::default();
    let signal = Measurement::signal(&all, began, at, &options);
    let message: Value = serde_json::from_str(&signal.json).unwrap();
    let metrics = &message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let point = |place: usize, kind: &str| metrics[place][kind]["dataPoints"][0].clone();
    assert_eq!(metrics[0]["description"], "About.");
    assert_eq!(metrics[0]["sum"]["isMonotonic"], true);
    assert_eq!(metrics[0]["sum"]["aggregationTemporality"], 2);
    assert_eq!(point(0, "sum")["asInt"], "7");
    assert_eq!(point(0, "sum")["startTimeUnixNano"], "1000000");
    assert_eq!(point(1, "gauge")["asInt"], "3");
    assert_eq!(point(1, "gauge")["timeUnixNano"], "2000000");
    assert_eq!(point(2, "gauge")["attributes"][0]["value"], json!({ "stringValue": "idle" }));
    assert_eq!(metrics[2]["gauge"]["dataPoints"][1]["asInt"], "0");
    assert_eq!(point(3, "gauge")["asDouble"], 0.5);
    let histogram = point(4, "histogram");
    assert_eq!((&histogram["count"], &histogram["sum"]), (&json!("5"), &json!(9.5)));
    assert_eq!(histogram["bucketCounts"], json!(["4", "0", "1"]));
}
