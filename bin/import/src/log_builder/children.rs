//! Builds the sessions that calls of the imported session have started. The core chooses the id of
//! such a session when it decides to spawn it, so the session is built once its call ends: by then
//! `next` has spawned it.

use std::collections::HashSet;

use leftfold_events::event::{CallKind, Class, EndReason, Finished, Resolution, Subagent, Tool};
use leftfold_events::state::{Call, Delegated, Phase};
use leftfold_events::{Fact, Json, Seq, State};
use serde_json::json;

use super::{Built, ItemKind, LogBuilder, LogStart, Parent, Transcript, build};

/// The agent, if the file names none.
const ANY: &str = "general";

/// The outcome of a call of which only the session is known.
const NO_RESULT: &str = "The result of this task was not recorded.";

/// The ended calls with a session of their own, which each waits for.
pub(super) fn spawning(transcript: &Transcript) -> HashSet<String> {
    let ended = transcript.items.iter().filter_map(|item| {
        let ItemKind::Outcome(outcome) = &item.what else { return None };
        Some(outcome.call.as_str())
    });
    ended.filter(|call| transcript.children.contains_key(*call)).map(str::to_owned).collect()
}

/// A call that starts a session, as Leftfold's own `task` tool would resolve it.
pub(super) fn task(call: &Call) -> Resolution {
    let input = call.input.value();
    let text = |keys: &[&str]| keys.iter().find_map(|key| input[*key].as_str());
    let agent = text(&["subagent_type", "subagentType", "agent"]).unwrap_or(ANY);
    let input = json!({
        "description": text(&["description"]).unwrap_or_default(),
        "prompt": text(&["prompt"]).unwrap_or_default(),
        "subagent_type": agent,
    });
    Resolution {
        name: call.name.clone(),
        input: Json::from_value(&input),
        class: Class::Child,
        access: Vec::new(),
        paths: Vec::new(),
        timeout: 0,
        error: None,
        kind: CallKind::Plain,
    }
}

impl LogBuilder<'_> {
    /// Builds the session that the call at `seq` has started, unless it is built already, and ends
    /// it.
    pub(super) fn conclude(&mut self, call: &str, seq: Seq) {
        let open = |state: &State| {
            let child = state.open_children().find(|child| child.call == seq)?;
            Some((child.session, child.agent.clone(), child.wait.intent))
        };
        let Some((session, agent, spawned)) = open(&self.state) else { return };
        let Some(transcript) = self.transcript.children.get(call) else { return };
        let resolved = self.state.calls().find(|call| call.seq == seq);
        let input = resolved.and_then(|call| Some(call.resolved.as_ref()?.input.value()));
        let title = input.and_then(|input| Some(input["description"].as_str()?.to_owned()));
        let parent = Parent { session: self.session, agent, title: title.unwrap_or_default() };
        let start = LogStart { session, parent: Some(parent), ..self.start.clone() };
        let Built { sessions, left_out, state } = build(&start, transcript);
        self.children.extend(sessions);
        self.concluded += 1;
        self.left_out.add(left_out);
        let Delegated { mut usage, mut cost } = state.delegated;
        let (mut answer, mut reason) = (String::new(), EndReason::Aborted);
        if let Some(ended) = state.ended {
            usage += ended.usage;
            cost += ended.cost;
            reason = ended.reason;
            answer =
                if ended.text.is_empty() { ended.error.unwrap_or_default() } else { ended.text };
        }
        let ended = Subagent::Ended { session, answer, reason, usage, cost };
        self.fact(Fact::for_intent(spawned, ended));
    }

    /// Ends the calls that still wait for their sessions, whose end is unknown.
    pub(super) fn give_up_children(&mut self) {
        let mut last = 0;
        // A call that was stopped takes no result.
        while let Some((call, seq, of)) =
            self.waiting_for_child().filter(|(_, seq, _)| *seq != last)
        {
            last = seq;
            self.conclude(&call, seq);
            let finished = Finished {
                call,
                title: String::new(),
                output: NO_RESULT.into(),
                is_error: true,
                metadata: Json::object(),
                spill: None,
                attachments: Vec::new(),
            };
            self.fact(Fact::for_intent(of, Tool::Finished(Box::new(finished))));
        }
    }

    fn waiting_for_child(&self) -> Option<(String, Seq, Seq)> {
        let mut children = self.state.calls().filter(|call| call.class() == Class::Child);
        children.find_map(|call| {
            let Phase::Running { wait, .. } = &call.phase else { return None };
            Some((call.id.clone(), call.seq, wait.intent))
        })
    }
}
