//! Metrics of nodes, at a collector of OpenTelemetry.

use common::postgres::{PASSWORD, shared};
use common::{ASK, Answer, Editor, Live, Server, asking, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::url;

fn collector() -> Server {
    Server::answering(|_| Answer::Status(200, vec![], "{}".into()))
}

/// The metrics that the process with this id has sent last, and its resource.
fn latest(server: &Server, process: u32) -> Option<Latest> {
    let process = process.to_string();
    let requests = server.requests();
    let of = requests.iter().rev().map(|request| &request.body["resourceMetrics"][0]);
    let found = of.into_iter().find(|of| attribute(&of["resource"], "process.pid") == process)?;
    let metrics = found["scopeMetrics"][0]["metrics"].as_array().unwrap().clone();
    Some(Latest { resource: found["resource"].clone(), metrics })
}

struct Latest {
    resource: Value,
    metrics: Vec<Value>,
}

impl Latest {
    fn metric(&self, name: &str) -> &Value {
        let found = self.metrics.iter().find(|metric| metric["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {:#?}", self.metrics))
    }

    /// The value of the only point.
    fn value(&self, name: &str) -> f64 {
        number(&only(self.metric(name)))
    }

    fn sessions(&self, state: &str) -> f64 {
        let metric = self.metric("leftfold.session.count");
        let points = metric["gauge"]["dataPoints"].as_array().unwrap();
        let of_state = |point: &&Value| attribute(point, "leftfold.session.state") == state;
        number(points.iter().find(of_state).unwrap())
    }
}

fn only(metric: &Value) -> Value {
    let kinds = ["sum", "gauge", "histogram"].into_iter();
    let points = kinds.filter_map(|kind| metric[kind]["dataPoints"].as_array()).next().unwrap();
    assert_eq!(points.len(), 1, "{metric}");
    points[0].clone()
}

/// Numbers of 64 bits are texts.
fn number(point: &Value) -> f64 {
    let whole = point["asInt"].as_str().map(|text| text.parse().unwrap());
    whole.unwrap_or_else(|| point["asDouble"].as_f64().unwrap())
}

fn attribute(of: &Value, name: &str) -> String {
    let all = of["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == name);
    found.map(|it| it["value"]["stringValue"].as_str().unwrap().to_owned()).unwrap_or_default()
}

#[test]
fn nodes_send_metrics_of_their_appends_and_of_the_database() {
    let Some(cluster) = shared() else { return };
    let server = collector();
    let url = url(cluster);
    let site = asking()
        .env("LEFTFOLD_STORE", url.clone())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", server.address()))
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "200");
    site.run(&["fleet", "init"]).ok();
    // a session that nobody here can go on with
    let mut killed = site.start(&ASK);
    killed.until("permission.asked");
    killed.signal(Signal::KILL);
    killed.wait();
    let schema = url.rsplit_once("schema=").unwrap().1;
    cluster.logs(&format!(
        "update {schema}.node set until = clock_timestamp() - interval '1 min'; \
         update {schema}.session set place = 'host:elsewhere'"
    ));

    let mut serve = site.command(&["serve", "--port", "0"]);
    serve.env("LEFTFOLD_HOME", site.path("serve"));
    let mut serve = Live::start(serve);
    serve.line().unwrap();
    wait_until("the metrics of `serve`", || {
        latest(&server, serve.id()).is_some_and(|latest| latest.value("leftfold.node.count") == 1.0)
    });
    let idle = latest(&server, serve.id()).unwrap();
    assert_eq!(idle.value("leftfold.append.operations"), 0.0);
    assert_eq!(idle.value("leftfold.session.unowned"), 1.0);
    let states = ["owned", "waiting", "idle"].map(|state| idle.sessions(state));
    assert_eq!(states, [0.0, 1.0, 0.0]);

    let mut node = Editor::start(&site, &[]);
    let session = node.session(&site);
    node.prompt(&session, "go");
    node.question(&session);
    let process = node.live.id();
    wait_until("the metrics of `node`", || {
        latest(&server, process).is_some_and(|latest| latest.sessions("owned") == 1.0)
    });
    let events = site.run(&["export", &session]).ok().events().len() as f64;
    wait_until("all appends", || {
        latest(&server, process).unwrap().value("leftfold.append.events") >= events
    });
    let busy = latest(&server, process).unwrap();
    assert_eq!(busy.value("leftfold.append.events"), events);
    let appends = busy.value("leftfold.append.operations");
    assert!((1.0..=events).contains(&appends), "{appends} of {events}");
    assert_eq!(busy.value("leftfold.append.failures"), 0.0);
    for (name, unit, sum) in [
        ("leftfold.commit.events", "{event}", events..=events),
        ("leftfold.commit.size", "By", 500.0..=5e6),
        ("leftfold.commit.duration", "s", 0.0001..=60.0),
    ] {
        let metric = busy.metric(name);
        assert_eq!(metric["unit"], unit);
        let point = only(metric);
        let count: f64 = point["count"].as_str().unwrap().parse().unwrap();
        assert!((1.0..=appends).contains(&count), "{point}");
        assert!(sum.contains(&point["sum"].as_f64().unwrap()), "{point}");
        let bounds = point["explicitBounds"].as_array().unwrap();
        assert_eq!(point["bucketCounts"].as_array().unwrap().len(), bounds.len() + 1, "{point}");
    }
    assert!((0.0..15.0).contains(&busy.value("leftfold.lease.age")));
    assert_eq!(busy.value("leftfold.node.count"), 2.0);
    assert_eq!(["owned", "waiting", "idle"].map(|state| busy.sessions(state)), [1.0, 1.0, 0.0]);
    assert_eq!(busy.value("leftfold.session.unowned"), 1.0);
    assert_eq!(busy.value("leftfold.message.count"), 0.0);
    assert!(busy.value("leftfold.database.size") > 1e4);

    // who it is, as `fleet nodes` says it
    let nodes = site.run(&["fleet", "nodes", "--format", "json"]).ok().stdout;
    let instance = attribute(&busy.resource, "service.instance.id");
    assert_eq!(instance.len(), 36, "{instance}");
    assert!(nodes.contains(&instance), "{instance}: {nodes}");
    assert_ne!(instance, attribute(&idle.resource, "service.instance.id"));
    assert_eq!(attribute(&busy.resource, "service.name"), "leftfold");
    for request in server.requests() {
        assert!(request.line.starts_with("POST /v1/metrics "), "{}", request.line);
        assert!(request.headers.contains(&"x-key: secret".to_owned()), "{:?}", request.headers);
        assert!(!request.body.to_string().contains(PASSWORD));
    }
}

#[test]
fn a_node_sends_nothing_unasked_and_works_with_wrong_variables() {
    let Some(cluster) = shared() else { return };
    let server = collector();
    let endpoint = format!("http://{}", server.address());
    let answers = script(json!([says("One."), says("Two.")]));
    let site = common::Site::scripted(&answers)
        .env("LEFTFOLD_STORE", url(cluster))
        .env("OTEL_METRIC_EXPORT_INTERVAL", "200");
    site.run(&["fleet", "init"]).ok();
    let asked = ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str());
    for (variables, says) in [
        (&[][..], ""),
        (&[asked, ("OTEL_SDK_DISABLED", "true")], ""),
        (&[asked, ("OTEL_METRICS_EXPORTER", "none")], ""),
        (&[asked, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "use http/protobuf or http/json"),
        (&[asked, ("OTEL_METRIC_EXPORT_INTERVAL", "1")], "at least 100"),
    ] {
        let mut command = site.command(&["serve", "--port", "0"]);
        command.env("LEFTFOLD_HOME", site.path("serve")).envs(variables.iter().copied());
        let mut node = Live::start(command);
        node.line().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        node.signal(Signal::TERM);
        let ran = node.wait().ok();
        match says {
            "" => assert!(!ran.stderr.contains("metrics"), "{variables:?}: {ran:?}"),
            says => assert!(ran.stderr.contains(says), "{variables:?}: {ran:?}"),
        }
    }
    assert_eq!(server.requests().len(), 0);
}
