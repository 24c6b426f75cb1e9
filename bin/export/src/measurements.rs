//! Measurements of a process as metrics of OpenTelemetry.

use leftfold_events::Time;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
    metric::Data, number_data_point::Value as Number,
};

use crate::otlp::{Signal, TelemetryOptions, metric, metrics_data, nanos, signal, text};

/// One measurement, by OpenTelemetry's conventions for names and units.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub name: &'static str,
    /// A unit of UCUM: `s`, `By`, `{event}`.
    pub unit: &'static str,
    pub description: &'static str,
    pub value: Measured,
}

/// The value of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// Counts up since the process began.
    Counter(u64),
    /// The number now.
    Gauge(u64),
    /// The numbers now, by the value of one attribute.
    Gauges { attribute: &'static str, values: Vec<(&'static str, u64)> },
    /// An amount of something that is measured, not counted.
    Amount(f64),
    /// The values since the process began.
    Histogram { bounds: Vec<f64>, counts: Vec<u64>, sum: f64 },
}

impl Measurement {
    /// The message with these measurements of a process that runs since `began`.
    pub fn signal(all: &[Self], began: Time, at: Time, options: &TelemetryOptions) -> Signal {
        let all = all.iter().map(|measurement| measurement.metric(nanos(began), nanos(at)));
        signal(&metrics_data(all.collect(), options))
    }

    fn metric(&self, began: u64, at: u64) -> Metric {
        let point = |value: Number| NumberDataPoint {
            start_time_unix_nano: began,
            time_unix_nano: at,
            value: Some(value),
            ..NumberDataPoint::default()
        };
        // a gauge has no beginning
        let now = |value| NumberDataPoint { start_time_unix_nano: 0, ..point(value) };
        let data = match &self.value {
            Measured::Counter(count) => Data::Sum(Sum {
                data_points: vec![point(whole(*count))],
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            }),
            Measured::Gauge(count) => Data::Gauge(Gauge { data_points: vec![now(whole(*count))] }),
            Measured::Gauges { attribute, values } => {
                let points = values.iter().map(|(of, count)| NumberDataPoint {
                    attributes: vec![text(attribute, of)],
                    ..now(whole(*count))
                });
                Data::Gauge(Gauge { data_points: points.collect() })
            }
            Measured::Amount(amount) => {
                Data::Gauge(Gauge { data_points: vec![now(Number::AsDouble(*amount))] })
            }
            Measured::Histogram { bounds, counts, sum } => {
                let point = HistogramDataPoint {
                    start_time_unix_nano: began,
                    time_unix_nano: at,
                    count: counts.iter().sum(),
                    sum: Some(*sum),
                    bucket_counts: counts.clone(),
                    explicit_bounds: bounds.clone(),
                    ..HistogramDataPoint::default()
                };
                Data::Histogram(Histogram {
                    data_points: vec![point],
                    aggregation_temporality: AggregationTemporality::Cumulative.into(),
                })
            }
        };
        let description = self.description.to_owned();
        Metric { description, ..metric(self.name, self.unit, data) }
    }
}

fn whole(count: u64) -> Number {
    Number::AsInt(i64::try_from(count).unwrap_or(i64::MAX))
}
