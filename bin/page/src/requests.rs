//! The parts of each request: the pieces of the system prompt, tools and messages with their origins, and the parts that
//! were left out. Pieces that requests share are stored once.

use leftfold_events::context::{self, Built};
use leftfold_events::event::{Event, Model, Purpose};
use leftfold_events::turn_config::ToolSpec;
use leftfold_events::{Envelope, Request, Seq, Sha256, State};
use leftfold_view::ContextUse;
use leftfold_view::explain::{Omissions, configuration, messages};
use serde_json::{Value, json};

use crate::PageError;
use crate::pool::{Pool, Runs, masked};

/// Describes the requests of one log.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The request before, and the numbers of its messages in the pool.
    last: Option<(Built, Vec<usize>)>,
    omissions: Omissions,
    /// The use of the context at each request of a turn: the points of the chart.
    pub(crate) context: Vec<Value>,
}

impl Requests {
    /// The request of an event, if it is a `model.requested`. `state` is the one right after it; `decided` is the
    /// hash of the request that this version decides on, as far as it is known.
    pub(crate) fn describe(
        &mut self,
        event: &Envelope,
        decided: Option<Sha256>,
        state: &State,
        pool: &mut Pool,
    ) -> Result<Option<Value>, PageError> {
        self.omissions.push(event);
        let Event::Model(Model::Requested { purpose, request_sha256, .. }) = &event.event else {
            return Ok(None);
        };
        let built = context::asked(state, *purpose);
        let request = &built.request;
        if *purpose == Purpose::Turn {
            self.context.push(context_use(event.seq, state, request));
        }
        let is_as_logged = decided == Some(*request_sha256) || request.sha256() == *request_sha256;
        let rows = self.rows(&built, pool)?;
        let left_out = self.omissions.from(state).into_iter();
        let left_out: Runs = left_out.map(|left_out| pool.value(json!(left_out))).collect();
        let described = json!({
            "purpose": purpose,
            "model": request.model.to_string(),
            "max_output": request.max_output,
            "as_logged": is_as_logged,
            "head": pool.value(masked(&head(state, request))?),
            "messages": rows.iter().copied().collect::<Runs>(),
            "left_out": left_out,
        });
        self.last = Some((built, rows));
        Ok(Some(described))
    }

    /// The number in the pool of each message.
    fn rows(&self, built: &Built, pool: &mut Pool) -> Result<Vec<usize>, PageError> {
        let shared = self.last.as_ref().map_or(0, |(last, _)| shared(last, built));
        let mut rows = match &self.last {
            Some((_, rows)) => rows[..shared].to_vec(),
            None => Vec::new(),
        };
        for (role, text, of, bytes) in messages(built).skip(shared) {
            let row = json!({ "role": role, "from": of, "bytes": bytes, "text": text });
            rows.push(pool.value(masked(&row)?));
        }
        Ok(rows)
    }
}

/// The number of messages with which both requests begin.
fn shared(last: &Built, built: &Built) -> usize {
    let messages = last.request.messages.iter().zip(&built.request.messages);
    let sources = last.sources.iter().zip(&built.sources);
    messages.zip(sources).take_while(|((a, b), (from, of))| a == b && from == of).count()
}

/// Everything but the messages.
fn head(state: &State, request: &Request) -> Value {
    let config = &state.config;
    let block = |text: &String| {
        let at = config.system.iter().position(|block| block == text);
        let sources = at.map(|at| configuration::block_json(config, at));
        json!({ "bytes": text.len(), "sources": sources, "text": text })
    };
    let tool = |tool: &ToolSpec| {
        let bytes = tool.name.len() + tool.description.len() + tool.schema.as_str().len();
        let source = config.options.sources.tools.get(&tool.name);
        json!({ "name": tool.name, "bytes": bytes, "source": source })
    };
    json!({
        "system": request.system.iter().map(block).collect::<Vec<_>>(),
        "tools": request.tools.iter().map(tool).collect::<Vec<_>>(),
        "options": request.options,
    })
}

/// The use of the context at a request, in tokens.
fn context_use(seq: Seq, state: &State, request: &Request) -> Value {
    let used = ContextUse::of_request(state, request);
    let parts = used.parts().map(|(_, tokens)| tokens);
    json!({ "seq": seq, "parts": parts, "size": used.size, "usable": state.usable() })
}
