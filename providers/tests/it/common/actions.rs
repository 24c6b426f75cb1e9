//! Random sessions of every kind.

use leftfold_events::event::{
    Attachment, CallSpec, Class, FailureClass, Finish, Finished, Model, ModelRef, PartKind,
    PromptKind, PromptPart, StreamedPart, Tool, Turn,
};
use leftfold_events::state::PendingKind;
use leftfold_events::turn_config::ToolSpec;
use leftfold_events::{Envelope, Fact, Json, TurnConfig};
use proptest::prelude::*;

use crate::harness::{self, Run, Step};

/// Signatures of each wire, and placeholders for them.
pub(crate) const SIGNATURES: [&str; 12] = [
    "EqsFCqgF",
    "reasoning_content",
    "reasoning",
    r#"{"call_members":{"extra_content":{"google":{"thought_signature":"Cg=="}}}}"#,
    r#"{"message_members":{"reasoning_details":[{"type":"reasoning.encrypted","data":"AA=="}]}}"#,
    r#"{"id":"rs_1","encrypted_content":"gAAA=","summary":[{"type":"summary_text","text":"so"}]}"#,
    r#"{"id":"rs_2","encrypted_content":"gAAB="}"#,
    r#"{"phase":"commentary"}"#,
    r#"{"call":"Cg=="}"#,
    r#"{"text":"CgE="}"#,
    r#"{"thought":"CgI="}"#,
    r#"{"part":{"text":"","thoughtSignature":"Eg=="}}"#,
];

/// Names of tools as models write them; only the first exists.
pub(crate) const NAMES: [&str; 5] = [
    "read",
    "we.ird name",
    "",
    "1st",
    "ünïcode_and_more_than_sixty_four_letters_so_that_it_has_to_be_cut_short",
];

const MIMES: [&str; 6] =
    ["image/png", "IMAGE/JPG; q=1", "application/pdf", "audio/wav", "text/x-invented", ""];

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Step(Step),
    /// Text and a file, which may be empty.
    Media(&'static str, &'static str),
    /// Reasoning, and text of that part if any.
    Think(&'static str, Option<&'static str>, bool),
    PendingText(&'static str),
    /// Id, name and input of a call.
    Call(&'static str, &'static str, &'static str),
    /// The first tool that runs returns a file.
    Attach(&'static str, &'static str),
    /// A whole step: a call with this id, and its result.
    Round(&'static str),
    /// Further requests go to the model with this number.
    Switch(u8),
}

const IDS: [&str; 7] = ["a", "b", "c", "", "call_1", "functions.read:0", "ü b"];
const TEXTS: [&str; 4] = ["hi", "", " ", "Héllo 世\n"];
const INPUTS: [&str; 5] = ["{}", r#"{"path":"ä\n"}"#, "[1]", "\"{broken\"", "null"];

const FAILURES: [FailureClass; 3] =
    [FailureClass::Overloaded, FailureClass::Overflow, FailureClass::Auth];

fn id() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&IDS[..])
}

fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&TEXTS[..])
}

/// Random sequences of everything that can happen in a session.
pub(crate) fn actions() -> impl Strategy<Value = Vec<Action>> {
    let some = prop_oneof![
        3 => answer(),
        2 => text().prop_map(|text| vec![Action::Step(Step::Prompt(text))]),
        5 => event().prop_map(|step| vec![Action::Step(step)]),
        4 => other().prop_map(|action| vec![action]),
    ];
    let begin = vec![Action::Step(Step::Prompt("go")), Action::Step(Step::Title("going"))];
    prop::collection::vec(some, 1..24)
        .prop_map(move |some| [vec![begin.clone()], some].concat().concat())
}

/// A piece of an answer.
fn piece() -> impl Strategy<Value = Action> {
    let signature = prop::option::of(prop::sample::select(&SIGNATURES[..]));
    let call = (id(), prop::sample::select(&NAMES[..]), prop::sample::select(&INPUTS[..]));
    prop_oneof![
        2 => (text(), signature, any::<bool>())
            .prop_map(|(text, signature, redacted)| Action::Think(text, signature, redacted)),
        2 => text().prop_map(Action::PendingText),
        3 => call.prop_map(|(id, name, input)| Action::Call(id, name, input)),
    ]
}

/// A whole answer, and the results of its calls.
fn answer() -> impl Strategy<Value = Vec<Action>> {
    let finish =
        prop::sample::select(&[Finish::Stop, Finish::ToolCalls, Finish::Length, Finish::Pause][..]);
    (prop::collection::vec(piece(), 1..6), finish, any::<bool>()).prop_map(
        |(mut actions, finish, works)| {
            let called: Vec<&str> = actions
                .iter()
                .filter_map(
                    |action| if let Action::Call(id, ..) = action { Some(*id) } else { None },
                )
                .collect();
            actions.push(Action::Step(Step::Reply(finish)));
            for id in called.into_iter().filter(|_| works) {
                actions.push(Action::Step(Step::Resolve(id, Class::Read, harness::READ, "")));
                actions.push(Action::Step(Step::Done(id, "ok")));
            }
            actions
        },
    )
}

/// A random event of the harness.
fn event() -> impl Strategy<Value = Step> {
    let failure = prop::sample::select(&FAILURES[..]);
    prop_oneof![
        2 => id().prop_map(|id| Step::Resolve(id, Class::Read, harness::READ, "")),
        1 => id().prop_map(|id| Step::Resolve(id, Class::Command, harness::ASK, "")),
        1 => id().prop_map(Step::Unresolved),
        1 => id().prop_map(Step::Task),
        1 => id().prop_map(Step::ChildEnds),
        1 => (id(), 0..3_usize).prop_map(|(id, count)| Step::Batch(id, count)),
        2 => (id(), text()).prop_map(|(id, text)| Step::Done(id, text)),
        1 => (failure, any::<bool>()).prop_map(|(class, again)| Step::Fail(class, again)),
        1 => Just(Step::Interrupt),
        2 => Just(Step::Elapse),
        1 => any::<bool>().prop_map(|close| Step::Resume { close }),
        1 => Just(Step::Full(9_900)),
        1 => Just(Step::Compact),
        1 => Just(Step::Summary("so far")),
        1 => Just(Step::Title("title")),
    ]
}

fn other() -> impl Strategy<Value = Action> {
    let mime = || prop::sample::select(&MIMES[..]);
    let data = || prop::sample::select(&["iVBORw0KGgo=", ""][..]);
    prop_oneof![
        1 => (mime(), data()).prop_map(|(mime, data)| Action::Media(mime, data)),
        2 => piece(),
        2 => (mime(), data()).prop_map(|(mime, data)| Action::Attach(mime, data)),
        2 => id().prop_map(Action::Round),
        1 => (0..2_u8).prop_map(Action::Switch),
    ]
}

/// A session's turn configuration with tools and one of two models. A small `steps` limits its
/// steps.
pub(crate) fn config(steps: u32) -> TurnConfig {
    let tool = |name: &str, schema: &str| ToolSpec {
        name: name.into(),
        description: "What it does.".into(),
        schema: Json::parse(schema).expect("JSON"),
    };
    let mut config = harness::titled();
    config.system =
        vec!["You are good.".into(), "The project.".into(), " ".into(), "Today.".into()];
    config.options.max_steps = steps;
    config.tools = vec![
        tool(
            "read",
            r##"{"$schema":"x","type":"object","properties":{"path":{"type":"string"},"how":{"enum":["a",1,null]},
                "any":{"anyOf":[{"type":"integer","exclusiveMinimum":0},{"$ref":"#/$defs/d"}]},"list":{"type":"array"}},
                "required":["path","gone"],"additionalProperties":false,"$defs":{"d":{"type":["object","null"]}}}"##,
        ),
        tool("list", r#"{"type":"object"}"#),
    ];
    config
}

fn seen(part: StreamedPart, run: &Run) -> Fact {
    asked(run, Model::Streamed { parts: vec![part] })
}

fn asked(run: &Run, event: impl Into<leftfold_events::Event>) -> Fact {
    let open = run.state.open();
    let wait = open.iter().find(|(kind, _)| *kind == PendingKind::Request);
    Fact::for_intent(wait.map_or(0, |(_, wait)| wait.intent), event)
}

impl Action {
    pub(crate) fn happen(&self, run: &mut Run) {
        // each piece is a part of its own
        let id = run.log.len().to_string();
        let fact = match self {
            Self::Step(step) => run.fact(step),
            Self::Round(id) => return round(run, id),
            Self::Media(mime, data) => prompt(mime, data),
            Self::Think(text, signature, redacted) => {
                let (kind, text) = (PartKind::Reasoning, (*text).to_owned());
                let signature = signature.map(str::to_owned);
                let redacted = *redacted && signature.is_some();
                seen(StreamedPart { id, kind, text, signature, redacted }, run)
            }
            Self::PendingText(text) => {
                let (kind, text) = (PartKind::Text, (*text).to_owned());
                seen(StreamedPart { id, kind, text, signature: None, redacted: false }, run)
            }
            Self::Call(id, name, input) => {
                let input = Json::parse(input).expect("JSON");
                let call = CallSpec { id: (*id).into(), name: (*name).into(), input };
                asked(run, Tool::Called { call })
            }
            Self::Attach(mime, data) => attached(run, mime, data),
            Self::Switch(number) => {
                let mut config = run.state.config.clone();
                config.model.id = format!("m{number}");
                Fact::new(Turn::Configured(config.payloads()))
            }
        };
        run.tell(fact);
    }
}

fn round(run: &mut Run, id: &'static str) {
    for step in [
        Step::Call(id, "read"),
        Step::Reply(Finish::ToolCalls),
        Step::Resolve(id, Class::Read, harness::READ, ""),
        Step::Done(id, "ok"),
    ] {
        run.step(&step);
    }
}

fn prompt(mime: &str, data: &str) -> Fact {
    let media = PromptPart {
        kind: PromptKind::Media,
        text: data.to_owned(),
        mime: (!mime.is_empty()).then(|| mime.to_owned()),
        name: Some("a.b".into()),
    };
    Fact::new(Turn::Prompted {
        parts: vec![PromptPart::text("look"), media],
        agent: "build".into(),
        model: ModelRef { provider: "p".into(), id: "m".into() },
        by: "test".into(),
    })
}

fn attached(run: &Run, mime: &str, data: &str) -> Fact {
    let open = run.state.open();
    let wait = open.iter().find(|(kind, _)| *kind == PendingKind::Tool);
    let file = |name: &str| Attachment {
        mime: mime.to_owned(),
        name: name.to_owned(),
        base64: data.to_owned(),
    };
    let finished = Finished {
        call: String::new(),
        title: String::new(),
        output: "".into(),
        is_error: mime.is_empty(),
        metadata: Json::object(),
        spill: None,
        attachments: vec![file("one"), file("")],
    };
    Fact::for_intent(wait.map_or(0, |(_, wait)| wait.intent), Tool::Finished(Box::new(finished)))
}

/// The log of a session in which all this has happened.
pub(crate) fn session(config: &TurnConfig, actions: &[Action]) -> Vec<Envelope> {
    let mut run = Run::new(config);
    actions.iter().for_each(|action| action.happen(&mut run));
    run.log
}
