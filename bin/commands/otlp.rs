//! `leftfold export --format otlp`: traces and metrics of OpenTelemetry, as a file or to a collector.
//!
//! With `--follow` a file in the data folder keeps, for each session, the last event that the collector has
//! acknowledged. After a restart, sending goes on after it.
//!
//! A node sends its metrics through the same [`Collector`].

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use leftfold_events::{Seq, SessionId, Sha256};
use leftfold_export::{Run, Signal, Telemetry, TelemetryOptions};
use leftfold_runtime::history::History;
use leftfold_runtime::session_paths::{self, SessionPlace};
use leftfold_runtime::signals::Signals;
use leftfold_runtime::{Usage, note, redact_output};
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};

use super::whole_file;
use crate::cli::Export;

/// How often to look for new events.
const EVENT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a message is sent before the collector counts as gone.
const ATTEMPTS: u32 = 5;
/// The longest wait that a collector can ask for.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

pub(crate) fn export(args: &Export) -> anyhow::Result<ExitCode> {
    if args.follow && !(args.send && args.all) {
        bail!(Usage("--follow sends what all sessions do: add --all and --send".to_owned()));
    }
    if args.send && args.output.is_some() {
        bail!(Usage("--send goes to a collector, and -o to a file: use one of them".to_owned()));
    }
    let options = options()?;
    if !args.send {
        let mut text = String::new();
        for place in super::places(&args.sessions, args.all)? {
            text.push_str(&telemetry(&place, &options, |_| 0)?.json_lines());
        }
        let text = redact_output::masked(&text);
        return match &args.output {
            Some(file) => {
                whole_file::write(file, &text, whole_file::FOR_OWNER)?;
                Ok(ExitCode::SUCCESS)
            }
            None => super::print_exact(&text),
        };
    }
    let collector = Collector::from_environment()?;
    leftfold_runtime::run_async(async {
        if !args.follow {
            for place in super::places(&args.sessions, args.all)? {
                collector.send(&telemetry(&place, &options, |_| 0)?).await?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut signals = Signals::new()?;
        let options = TelemetryOptions { open: false, ..options };
        let mut follower = Follower::new(collector, options)?;
        tokio::select! {
            ended = follower.run() => ended,
            _ = signals.next() => Ok(ExitCode::SUCCESS),
        }
    })?
}

fn telemetry(
    place: &SessionPlace,
    options: &TelemetryOptions,
    sent: impl Fn(SessionId) -> Seq,
) -> anyhow::Result<Telemetry> {
    let (history, damage) = History::good(place)?;
    if let Some(damage) = damage {
        note(&format!("leftfold: {} is damaged and sent up to there: {damage}", place.session));
    }
    Ok(Telemetry::from_run(&Run::masked(history.sessions()), options, sent))
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

pub(super) fn options() -> Result<TelemetryOptions, Usage> {
    let mut resource = BTreeMap::new();
    resource.insert("service.name".to_owned(), "leftfold".to_owned());
    resource.insert("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    resource.extend(pairs("OTEL_RESOURCE_ATTRIBUTES")?);
    resource.extend(variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
    let content = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
    let content = content.map(|value| value.to_lowercase());
    let content = content
        .is_some_and(|value| ["true", "1", "span_only", "span_and_event"].contains(&&*value));
    Ok(TelemetryOptions { resource: resource.into_iter().collect(), content, open: true })
}

/// A variable with `name=value` pairs between commas, values with percent signs as in URLs.
fn pairs(variable_name: &str) -> Result<Vec<(String, String)>, Usage> {
    let value = variable(variable_name).unwrap_or_default();
    let pairs = value.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Usage(format!("{variable_name}: {pair:?} is no pair: use name=value,name=value"))
            })?;
            let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8_lossy();
            Ok((name.trim().to_owned(), value.into_owned()))
        })
        .collect()
}

/// The collector that the variables of OpenTelemetry name.
pub(super) struct Collector {
    client: reqwest::Client,
    traces: Option<Endpoint>,
    metrics: Option<Endpoint>,
}

struct Endpoint {
    url: String,
    headers: HeaderMap,
    timeout: Duration,
    /// Whether messages are JSON instead of Protocol Buffers.
    json: bool,
    gzip: bool,
}

impl Endpoint {
    /// `None`: nothing of this signal is wanted.
    fn of(signal: &str, path: &str) -> Result<Option<Self>, Usage> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        match variable(&exporter).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                return Err(Usage(format!(
                    "{exporter}: {other:?} is not supported: use otlp or none"
                )));
            }
        }
        let own = |name: &str| format!("OTEL_EXPORTER_OTLP_{signal}_{name}");
        let both = |name: &str| format!("OTEL_EXPORTER_OTLP_{name}");
        // the name of the variable that counts, and its value
        let either = |name: &str| {
            let names = [own(name), both(name)].into_iter();
            names.filter_map(|name| Some((variable(&name)?, name))).next()
        };
        for name in ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"] {
            if let Some((_, name)) = either(name) {
                return Err(Usage(format!(
                    "{name} is not supported: the collector's certificate must be one that the system trusts"
                )));
            }
        }
        let json = match either("PROTOCOL") {
            None => false,
            Some((protocol, _)) if protocol == "http/protobuf" => false,
            Some((protocol, _)) if protocol == "http/json" => true,
            Some((other, name)) => {
                return Err(Usage(format!(
                    "{name}: {other:?} is not supported: use http/protobuf or http/json"
                )));
            }
        };
        let gzip = match either("COMPRESSION") {
            None => false,
            Some((compression, _)) if compression == "none" => false,
            Some((compression, _)) if compression == "gzip" => true,
            Some((other, name)) => {
                return Err(Usage(format!("{name}: {other:?} is not supported: use gzip or none")));
            }
        };
        let url = variable(&own("ENDPOINT")).unwrap_or_else(|| {
            let base = variable(&both("ENDPOINT")).unwrap_or("http://localhost:4318".to_owned());
            format!("{}/{path}", base.trim_end_matches('/'))
        });
        if reqwest::Url::parse(&url).is_err() {
            return Err(Usage(format!("{}: {url:?} is no address", both("ENDPOINT"))));
        }
        let mut headers = HeaderMap::new();
        for variable_name in [both("HEADERS"), own("HEADERS")] {
            for (name, value) in pairs(&variable_name)? {
                let wrong = || Usage(format!("{variable_name}: {name:?} is no header"));
                let name: HeaderName = name.parse().map_err(|_| wrong())?;
                let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        let timeout = match either("TIMEOUT") {
            None => 10_000,
            Some((text, name)) => text
                .parse()
                .map_err(|_| Usage(format!("{name}: expected a number of milliseconds")))?,
        };
        Ok(Some(Self { url, headers, timeout: Duration::from_millis(timeout), json, gzip }))
    }
}

impl Collector {
    fn from_environment() -> anyhow::Result<Self> {
        Ok(Self { traces: Endpoint::of("TRACES", "v1/traces")?, ..Self::of_metrics()? })
    }

    /// Takes metrics only.
    pub(super) fn of_metrics() -> anyhow::Result<Self> {
        let off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.to_lowercase() == "true");
        if off {
            bail!(Usage("OTEL_SDK_DISABLED is set, so nothing is sent".to_owned()));
        }
        let temporality = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        if let Some(other) =
            variable(temporality).filter(|value| value.to_lowercase() != "cumulative")
        {
            bail!(Usage(format!(
                "{temporality}: {other:?} is not supported: metrics are cumulative"
            )));
        }
        let client = leftfold_runtime::http_client().map_err(anyhow::Error::msg)?;
        let metrics = Endpoint::of("METRICS", "v1/metrics")?;
        Ok(Self { client, traces: None, metrics })
    }

    /// Sends one message with metrics, and returns once the collector has it.
    pub(super) async fn send_metrics(&self, signal: &Signal) -> anyhow::Result<()> {
        match &self.metrics {
            Some(endpoint) => self.post(endpoint, signal).await,
            None => Ok(()),
        }
    }

    /// Sends everything, and returns once the collector has it.
    async fn send(&self, telemetry: &Telemetry) -> anyhow::Result<()> {
        if let Some(endpoint) = &self.traces {
            for signal in &telemetry.traces {
                self.post(endpoint, signal).await?;
            }
        }
        for signal in &telemetry.metrics {
            self.send_metrics(signal).await?;
        }
        Ok(())
    }

    async fn post(&self, endpoint: &Endpoint, signal: &Signal) -> anyhow::Result<()> {
        let (kind, mut body) = match endpoint.json {
            true => ("application/json", signal.json.clone().into_bytes()),
            false => ("application/x-protobuf", signal.protobuf.clone()),
        };
        if endpoint.gzip {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(&body)?;
            body = packed.finish()?;
        }
        let mut wait = Duration::from_millis(500);
        for attempt in 1.. {
            let request = self.client.post(&endpoint.url).headers(endpoint.headers.clone());
            let mut request = request.header(CONTENT_TYPE, kind).timeout(endpoint.timeout);
            if endpoint.gzip {
                request = request.header(CONTENT_ENCODING, "gzip");
            }
            let problem = match request.body(body.clone()).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => {
                    let status = answer.status();
                    // the answers that the protocol lets a client repeat
                    if ![429, 502, 503, 504].contains(&status.as_u16()) {
                        bail!("{} refuses it: {status}", endpoint.url);
                    }
                    let asked = answer.headers().get(RETRY_AFTER).and_then(|it| it.to_str().ok());
                    if let Some(seconds) = asked.and_then(|text| text.parse().ok()) {
                        wait = Duration::from_secs(seconds).min(MAX_RETRY_DELAY);
                    }
                    status.to_string()
                }
                Err(error) => format!("{:#}", anyhow::Error::from(error.without_url())),
            };
            if attempt == ATTEMPTS {
                bail!(Away(format!("{} does not take it: {problem}", endpoint.url)));
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(MAX_RETRY_DELAY);
        }
        Ok(())
    }
}

/// The collector cannot be reached, or asks for patience.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Away(String);

/// Sends what all sessions do, from durable cursors on.
struct Follower {
    collector: Collector,
    options: TelemetryOptions,
    file: PathBuf,
    /// Held until the end.
    _lock: File,
    /// The last event of each session that was sent.
    sent: BTreeMap<SessionId, Seq>,
    /// The last event of each root that was looked at.
    seen: HashMap<SessionId, Seq>,
}

impl Follower {
    fn new(collector: Collector, options: TelemetryOptions) -> anyhow::Result<Self> {
        let folder = session_paths::data_dir()?.join("otlp");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        // each collector has its own cursors
        let urls = [&collector.traces, &collector.metrics].map(|it| it.as_ref().map(|it| &*it.url));
        let name = Sha256::digest(format!("{urls:?}").as_bytes()).to_string();
        let file = folder.join(format!("{}.json", &name[..16]));
        let lock = File::create(file.with_extension("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another process is sending to this collector already")
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let sent = match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| {
                format!("{} is damaged: remove it to send all again", file.display())
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        Ok(Self { collector, options, file, _lock: lock, sent, seen: HashMap::new() })
    }

    /// Runs until a signal ends it. A collector that is gone is tried again.
    async fn run(&mut self) -> anyhow::Result<ExitCode> {
        let mut last_problem = None;
        loop {
            match self.look().await {
                Ok(()) => last_problem = None,
                Err(error) => {
                    let problem = format!("leftfold: not sent yet: {error:#}");
                    if last_problem.as_ref() != Some(&problem) {
                        note(&problem);
                        last_problem = Some(problem);
                    }
                }
            }
            tokio::time::sleep(EVENT_POLL_INTERVAL).await;
        }
    }

    async fn look(&mut self) -> anyhow::Result<()> {
        for (store, head) in session_paths::listed()? {
            if self.seen.get(&head.session) == Some(&head.seq) {
                continue;
            }
            let place = SessionPlace { store, session: head.session };
            match self.take(&place).await {
                Err(error) if error.is::<Away>() => return Err(error),
                // one session does not hold up the others
                Err(error) => note(&format!("leftfold: {} is not sent: {error:#}", head.session)),
                Ok(()) => {}
            }
            self.seen.insert(head.session, head.seq);
        }
        Ok(())
    }

    /// Sends what is new in a session and its subagents. The cursors move once the collector has it.
    async fn take(&mut self, place: &SessionPlace) -> anyhow::Result<()> {
        let (history, _) = History::good(place)?;
        let sent = |session: SessionId| self.sent.get(&session).copied().unwrap_or_default();
        let run = Run::masked(history.sessions());
        let telemetry = Telemetry::from_run(&run, &self.options, sent);
        if telemetry.is_empty() {
            return Ok(());
        }
        self.collector.send(&telemetry).await?;
        for (session, events) in history.sessions() {
            let last = events.last().map_or(0, |event| event.seq);
            self.sent.insert(session, last);
        }
        save(&self.file, &self.sent)
    }
}

fn save(file: &Path, sent: &BTreeMap<SessionId, Seq>) -> anyhow::Result<()> {
    whole_file::write(file, &serde_json::to_string(sent)?, whole_file::FOR_OWNER)
}
