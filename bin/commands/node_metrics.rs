//! Metrics of a node that keeps its sessions in PostgreSQL, for a collector of OpenTelemetry.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use leftfold_events::Time;
use leftfold_export::{Measured, Measurement, TelemetryOptions};
use leftfold_postgres::{Address, Counts, Distribution, Metrics, PostgresReader, Status};
use leftfold_runtime::{Usage, note};

use super::otlp::{Collector, options, variable};

const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
/// The default of the specification, and the shortest time that is accepted, in milliseconds.
const EVERY: u64 = 60_000;
const SHORTEST: u64 = 100;

/// The variables of which one has to be there, so that a node sends anything.
const WANTED: [&str; 3] =
    ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_METRICS_EXPORTER"];

/// The database of this process, and the counts of its node.
#[derive(Debug)]
pub(crate) struct NodeDatabase {
    pub(crate) address: Address,
    pub(crate) metrics: Arc<Metrics>,
}

/// Sends metrics from now on until the process ends, if the variables of OpenTelemetry name a collector. What is wrong
/// with them is said, and keeps no node from its work.
pub(crate) fn send(database: Option<NodeDatabase>) {
    let Some(database) = database else { return };
    if let Err(error) = start(database) {
        note(&format!("leftfold: no metrics are sent: {error:#}"));
    }
}

fn start(database: NodeDatabase) -> anyhow::Result<()> {
    let is_off = |(name, off): (&str, &str)| {
        variable(name).is_some_and(|value| value.eq_ignore_ascii_case(off))
    };
    let off = [("OTEL_SDK_DISABLED", "true"), ("OTEL_METRICS_EXPORTER", "none")];
    if off.into_iter().any(is_off) || WANTED.iter().all(|name| variable(name).is_none()) {
        return Ok(());
    }
    let sender = Sender { collector: Collector::of_metrics()?, options: resource()?, database };
    let every = every()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("leftfold-metrics".into());
    thread.spawn(move || runtime.block_on(sender.run(every)))?;
    Ok(())
}

fn every() -> Result<Duration, Usage> {
    let every = match variable(INTERVAL) {
        None => Some(EVERY),
        Some(text) => text.parse().ok().filter(|millis| *millis >= SHORTEST),
    };
    let wrong =
        || Usage(format!("{INTERVAL}: expected a number of milliseconds, at least {SHORTEST}"));
    every.map(Duration::from_millis).ok_or_else(wrong)
}

/// The resource says which process it is, unless the user says so.
fn resource() -> Result<TelemetryOptions, Usage> {
    let mut options = options()?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (name, value) in [("host.name", host), ("process.pid", std::process::id().to_string())] {
        if options.resource.iter().all(|(known, _)| known != name) {
            options.resource.push((name.to_owned(), value));
        }
    }
    Ok(options)
}

struct Sender {
    collector: Collector,
    options: TelemetryOptions,
    database: NodeDatabase,
}

impl Sender {
    async fn run(self, every: Duration) {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last_problem = None;
        loop {
            ticks.tick().await;
            let problem = self.send_once().await.err().map(|error| format!("{error:#}"));
            if let Some(problem) = problem.as_ref().filter(|_| problem != last_problem) {
                note(&format!("leftfold: metrics of this node: {problem}"));
            }
            last_problem = problem;
        }
    }

    /// Sends the counts of this node, also while the database does not answer.
    async fn send_once(&self) -> anyhow::Result<()> {
        // this process has passed its clients on to another node, and may become one later
        let Some(node) = self.database.metrics.counts().node else { return Ok(()) };
        let status = status(&self.database.address).await;
        let counts = self.database.metrics.counts();
        let mut all = of_node(&counts);
        if let Ok(status) = &status {
            all.extend(of_database(status));
        }
        let mut options = self.options.clone();
        let instance = "service.instance.id";
        if options.resource.iter().all(|(name, _)| name != instance) {
            options.resource.push((instance.to_owned(), node));
        }
        let now = Time::from(SystemTime::now());
        let signal = Measurement::signal(&all, Time::from(counts.began), now, &options);
        self.collector.send_metrics(&signal).await?;
        status.context("the numbers of the database are not sent").map(drop)
    }
}

/// Over a connection that lasts as long as this.
async fn status(address: &Address) -> anyhow::Result<Status> {
    let address = address.clone();
    let status = tokio::task::spawn_blocking(move || PostgresReader::open(&address)?.status());
    Ok(status.await??)
}

fn of_node(counts: &Counts) -> Vec<Measurement> {
    let mut all = vec![
        Measurement {
            name: "leftfold.append.operations",
            unit: "{append}",
            description: "Appends of this node that are durable.",
            value: Measured::Counter(counts.appends),
        },
        Measurement {
            name: "leftfold.append.failures",
            unit: "{append}",
            description: "Appends of this node that were refused or have failed.",
            value: Measured::Counter(counts.failures),
        },
        Measurement {
            name: "leftfold.append.events",
            unit: "{event}",
            description: "Events of this node that are durable.",
            value: Measured::Counter(counts.events),
        },
        Measurement {
            name: "leftfold.commit.events",
            unit: "{event}",
            description: "Events of a commit, which has appends of several sessions.",
            value: histogram(&counts.commit_events),
        },
        Measurement {
            name: "leftfold.commit.size",
            unit: "By",
            description: "Bytes of a commit.",
            value: histogram(&counts.commit_bytes),
        },
        Measurement {
            name: "leftfold.commit.duration",
            unit: "s",
            description: "How long the database takes until a commit is durable.",
            value: histogram(&counts.commit_duration),
        },
    ];
    if let Some(age) = counts.lease_age {
        all.push(Measurement {
            name: "leftfold.lease.age",
            unit: "s",
            description: "How long ago this node renewed its lease.",
            value: Measured::Amount(age.as_secs_f64()),
        });
    }
    all
}

fn of_database(status: &Status) -> Vec<Measurement> {
    let idle = status.sessions.saturating_sub(status.owned).saturating_sub(status.waiting);
    let states = vec![("owned", status.owned), ("waiting", status.waiting), ("idle", idle)];
    vec![
        Measurement {
            name: "leftfold.node.count",
            unit: "{node}",
            description: "Nodes whose lease holds.",
            value: Measured::Gauge(status.nodes),
        },
        Measurement {
            name: "leftfold.session.count",
            unit: "{session}",
            description: "Sessions of the database, by state.",
            value: Measured::Gauges { attribute: "leftfold.session.state", values: states },
        },
        Measurement {
            name: "leftfold.session.unowned",
            unit: "{session}",
            description: "Sessions that have work to do and no live node.",
            value: Measured::Gauge(status.waiting),
        },
        Measurement {
            name: "leftfold.message.count",
            unit: "{message}",
            description: "Messages that no node has taken yet.",
            value: Measured::Gauge(status.messages),
        },
        Measurement {
            name: "leftfold.message.age",
            unit: "s",
            description: "How long the oldest of these messages waits.",
            value: Measured::Amount(status.oldest_message.unwrap_or_default()),
        },
        Measurement {
            name: "leftfold.database.size",
            unit: "By",
            description: "Size of all tables and indexes.",
            value: Measured::Gauge(status.bytes),
        },
    ]
}

fn histogram(of: &Distribution) -> Measured {
    Measured::Histogram { bounds: of.bounds.clone(), counts: of.counts.clone(), sum: of.sum }
}
