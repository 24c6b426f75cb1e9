//! Any event survives its encoding, and no bytes make the decoder panic.

use crate::common::{every_variant, id};
use leftfold_events::event::{
    CallSpec, Finished, Model, PartKind, PromptKind, PromptPart, Session, StreamedPart, Tool, Turn,
};
use leftfold_events::event::{Exchange, NoteMembers, Owner, SlashCommand};
use leftfold_events::{Envelope, Event, Json, Notes, SessionId, Time};
use leftfold_store::{SCHEMA, decode, encode, encode_as};
use proptest::prelude::*;

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        ".*".prop_map(|title| Session::Titled { title }.into()),
        (any::<[u8; 16]>(), any::<u64>()).prop_map(|(from, at)| {
            let from = SessionId::from_bytes(from);
            Session::Forked { from, at }.into()
        }),
        (".*", ".*", any::<Option<String>>()).prop_map(|(text, by, mime)| {
            let part = PromptPart { kind: PromptKind::Media, text, mime, name: None };
            Turn::Prompted { parts: vec![part], agent: by.clone(), model: Default::default(), by }
                .into()
        }),
        (".*", any::<Option<String>>(), any::<bool>()).prop_map(|(text, signature, redacted)| {
            let kind = PartKind::Reasoning;
            let part = StreamedPart { id: "p".into(), kind, text, signature, redacted };
            Model::Streamed { parts: vec![part.clone(), part] }.into()
        }),
        json().prop_map(|input| {
            Tool::Called { call: CallSpec { id: "c".into(), name: "n".into(), input } }.into()
        }),
        (json(), ".*", any::<bool>()).prop_map(|(metadata, output, is_error)| {
            Tool::Finished(Box::new(Finished {
                metadata,
                output: output.into(),
                is_error,
                ..crate::common::finished()
            }))
            .into()
        }),
    ]
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".*".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop::collection::vec((".*", inner), 0..4)
            .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect()))
    })
    .prop_map(|value| Json::from_value(&value))
}

fn notes() -> impl Strategy<Value = Notes> {
    let owner = (".*", any::<Option<String>>(), any::<Option<u64>>())
        .prop_map(|(version, node, epoch)| Owner { version, node, epoch });
    let exchange = any::<Option<String>>()
        .prop_map(|request_id| Exchange { request_id, ..Exchange::default() });
    let command = (".*", ".*").prop_map(|(name, arguments)| SlashCommand { name, arguments });
    let other = prop::collection::btree_map("later.*", json(), 0..3);
    // null is read as no member
    let parts = || json().prop_filter("not null", |json| *json != Json::default());
    (
        any::<Option<String>>(),
        prop::option::of(parts()),
        prop::option::of(command),
        prop::option::of(owner),
        any::<Option<String>>(),
        prop::option::of(exchange),
        any::<Option<String>>(),
        prop::collection::vec(".*", 0..3),
        prop::option::of(parts()),
        any::<bool>(),
        other,
    )
        .prop_map(
            |(
                client,
                parts,
                command,
                owner,
                executor,
                exchange,
                reason,
                denials,
                structured,
                recovered,
                other,
            )| {
                NoteMembers {
                    client,
                    parts,
                    command,
                    owner,
                    executor,
                    exchange,
                    reason,
                    denials,
                    structured,
                    recovered,
                    other,
                }
                .into()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_event_round_trips(
        event in event(),
        seq in any::<u64>(),
        at in any::<u64>(),
        of in any::<Option<u64>>(),
        until in any::<Option<u64>>(),
        notes in notes(),
    ) {
        let (at, until) = (Time::from_millis(at), until.map(Time::from_millis));
        let envelope = Envelope { session: id(1), seq, at, of, until, event, notes };
        prop_assert_eq!(&decode(SCHEMA, &encode(&envelope).unwrap()).unwrap(), &envelope);
        let old = decode(2, &encode_as(2, &envelope).unwrap()).unwrap();
        prop_assert_eq!(old, Envelope { notes: Notes::default(), ..envelope });
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (decode(SCHEMA, &bytes), decode(2, &bytes));
    }

    #[test]
    fn damaged_events_do_not_panic(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let events = every_variant(id(1));
        let mut bytes = encode(which.get(&events)).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode(SCHEMA, &bytes);
    }
}
