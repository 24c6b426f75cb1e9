//! The parts of each request: the pieces of the system prompt, tools and messages with their origins, and the parts that
//! were left out. Pieces that requests share are stored once, and are not built again for each.

use leftfold_events::event::{Event, Model, Purpose};
use leftfold_events::request_builder::{self, FurtherMessages, RequestMessages, Sourced};
use leftfold_events::turn_config::ToolSpec;
use leftfold_events::{Envelope, Request, Seq, Sha256, State};
use leftfold_view::configuration;
use leftfold_view::explain::{MessageReport, Omissions};
use leftfold_view::{ContextUse, MessageBytes};
use serde::Serialize;
use serde_json::{Value, json};

use crate::PageError;
use crate::pool::{Pool, Runs, masked};

/// Describes the requests of one log.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    messages: RequestMessages,
    /// The messages with which the requests of a turn begin.
    closed: Rows,
    /// The last request without its messages, and its number in the pool.
    head: Option<(Request, usize)>,
    omissions: Omissions,
    /// The use of the context at each request of a turn: the points of the chart.
    pub(crate) context: Vec<ContextPoint>,
}

/// The use of the context at a request, in tokens.
#[derive(Debug, Serialize)]
pub(crate) struct ContextPoint {
    pub(crate) seq: Seq,
    parts: [u64; 5],
    size: u64,
    usable: Option<u64>,
}

/// Messages of a request.
#[derive(Clone, Debug, Default)]
struct Rows {
    /// Their numbers in the pool.
    pooled: Runs,
    sizes: Sizes,
    bytes: MessageBytes,
}

/// The bytes of a request's messages by role.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Sizes {
    user: usize,
    assistant: usize,
    tool: usize,
}

impl Rows {
    fn add(&mut self, messages: &[Sourced], pool: &mut Pool) -> Result<(), PageError> {
        for (message, from) in messages {
            let report = MessageReport::new(message, from);
            match report.role {
                "user" => self.sizes.user += report.bytes,
                "assistant" => self.sizes.assistant += report.bytes,
                _ => self.sizes.tool += report.bytes,
            }
            self.bytes = self.bytes + MessageBytes::from_message(message);
            self.pooled.push(pool.message(masked(&report)?));
        }
        Ok(())
    }
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
        let (head, rows) = match purpose {
            Purpose::Turn => (request_builder::turn_head(state), self.turn_rows(state, pool)?),
            Purpose::Title | Purpose::SessionSummary | Purpose::Compaction => {
                let built = request_builder::asked(state, *purpose);
                let mut rows = Rows::default();
                let messages = built.request.messages.iter().cloned();
                let messages: Vec<Sourced> = messages.zip(built.sources).collect();
                rows.add(&messages, pool)?;
                (Request { messages: Vec::new(), ..built.request }, rows)
            }
        };
        if *purpose == Purpose::Turn {
            self.context.push(context_use(event.seq, state, &head, rows.bytes));
        }
        let is_as_logged = decided == Some(*request_sha256)
            || request_builder::asked(state, *purpose).request.sha256() == *request_sha256;
        let left_out = pool.value(masked(&self.omissions.from(state))?);
        let (model, max_output) = (head.model.to_string(), head.max_output);
        let head = self.head(head, state, pool)?;
        Ok(Some(json!({
            "purpose": purpose,
            "model": model,
            "max_output": max_output,
            "as_logged": is_as_logged,
            "head": head,
            "messages": rows.pooled,
            "sizes": rows.sizes,
            "left_out": left_out,
        })))
    }

    /// The messages of the turn's request.
    fn turn_rows(&mut self, state: &State, pool: &mut Pool) -> Result<Rows, PageError> {
        let FurtherMessages { continues, closed, end } = self.messages.next(state);
        if !continues {
            self.closed = Rows::default();
        }
        self.closed.add(&closed, pool)?;
        let mut rows = self.closed.clone();
        rows.add(&end, pool)?;
        Ok(rows)
    }

    /// The number in the pool of everything but the messages.
    fn head(
        &mut self,
        request: Request,
        state: &State,
        pool: &mut Pool,
    ) -> Result<usize, PageError> {
        if let Some((last, number)) = &self.head
            && *last == request
        {
            return Ok(*number);
        }
        let number = pool.value(masked(&head(state, &request))?);
        self.head = Some((request, number));
        Ok(number)
    }
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

fn context_use(seq: Seq, state: &State, head: &Request, messages: MessageBytes) -> ContextPoint {
    let used = ContextUse::of_parts(state, head, messages);
    let parts = used.parts().map(|(_, tokens)| tokens);
    ContextPoint { seq, parts, size: used.size, usable: state.usable() }
}
