//! Traces in the format that Perfetto and Chrome read.

use std::collections::BTreeSet;
use std::path::Path;

use reprop::{Span, Trace};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::whole_file::write_whole;

/// Writes the trace: one row a worker.
pub fn write(path: &Path, trace: &Trace) -> Result<(), Failure> {
    let spans = trace.spans();
    let workers: BTreeSet<usize> = spans.iter().map(|span| span.worker).collect();
    let rows = workers.into_iter().map(|worker| {
        let name = if worker == Trace::IO { "I/O".to_owned() } else { format!("worker {worker}") };
        json!({"name": "thread_name", "ph": "M", "pid": 0, "tid": worker, "args": {"name": name}})
    });
    let events: Vec<Value> = rows.chain(spans.iter().map(event)).collect();
    write_whole(path, json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string().as_bytes())
}

/// Writes one row for each of several traces that began together.
pub fn write_rows(path: &Path, traces: &[(String, Vec<Span>)]) -> Result<(), Failure> {
    let rows = traces.iter().enumerate().flat_map(|(row, (name, spans))| {
        let spans = spans.iter().map(move |span| event(&Span { worker: row, ..*span }));
        [json!({"name": "thread_name", "ph": "M", "pid": 0, "tid": row, "args": {"name": name}})]
            .into_iter()
            .chain(spans)
    });
    let events: Vec<Value> = rows.collect();
    write_whole(path, json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string().as_bytes())
}

/// A complete event, in microseconds.
fn event(span: &Span) -> Value {
    json!({
        "name": span.activity.name(),
        "cat": "pass",
        "ph": "X",
        "pid": 0,
        "tid": span.worker,
        "ts": 1e6 * span.begin,
        "dur": 1e6 * span.seconds,
        "args": {"place": span.place, "kernels": if span.fused { "fused" } else { "burn" }},
    })
}
