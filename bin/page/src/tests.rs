use proptest::prelude::*;
use serde_json::{Value, json};

use crate::patch::{apply, diff};
use crate::pool::{Pool, Runs};

/// Values with few names and texts, so that two of them often have parts in common.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4_i64).prop_map(Value::from),
        "[ab$]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The value that the page has in place of an encoded one.
fn decoded(value: &Value, texts: &[Value]) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix('$') {
            None => value.clone(),
            Some(rest) if rest.starts_with('$') => json!(rest),
            Some(number) => texts[number.parse::<usize>().unwrap()].clone(),
        },
        Value::Array(items) => items.iter().map(|item| decoded(item, texts)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), decoded(v, texts))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// All texts of the pool.
fn items(pool: &Pool) -> Vec<Value> {
    let blocks = (0..pool.texts.starts.len()).map(|at| pool.texts.block(at).unwrap());
    blocks.flat_map(|block| serde_json::from_str::<Vec<Value>>(&block).unwrap()).collect()
}

proptest! {
    #[test]
    fn a_patch_leads_from_one_value_to_the_other(old in values(), new in values()) {
        let mut ops = Vec::new();
        diff(&mut Vec::new(), &old, &new, &mut ops);
        let mut patched = old.clone();
        for op in &ops {
            apply(&mut patched, op).unwrap();
        }
        prop_assert_eq!(&patched, &new);
        if old == new {
            prop_assert!(ops.is_empty());
        }
    }

    #[test]
    fn an_encoded_value_is_the_same_with_its_texts(value in values(), long in "[$x]{60,70}") {
        let value = json!([value, long, { "again": long }]);
        let mut pool = Pool::default();
        let encoded = pool.encode(value.clone());
        let texts = items(&pool);
        prop_assert_eq!(decoded(&encoded, &texts), value);
        prop_assert!(texts.len() <= 1);
    }
}

#[test]
fn a_patch_that_does_not_fit_is_an_error() {
    let mut ops = Vec::new();
    diff(&mut Vec::new(), &json!({ "a": ["x"] }), &json!({ "a": ["xy"] }), &mut ops);
    let error = apply(&mut json!({ "a": [] }), &ops[0]).unwrap_err();
    assert_eq!(error.to_string(), "/a/0");
}

#[test]
fn runs_are_short() {
    let runs: Runs = [3, 4, 5, 9, 9, 10].into_iter().collect();
    assert_eq!(json!(runs), json!([[3, 3], [9, 1], [9, 2]]));
}

/// Equal texts of any size count once, and each block is read alone.
#[test]
fn blocks_end_at_their_size() {
    let mut pool = Pool::default();
    for at in 0..40 {
        let text = format!("{at} {}", "x".repeat(20 << 10));
        assert_eq!(pool.encode(json!(text)), json!(format!("${at}")));
        assert_eq!(pool.encode(json!(text)), json!(format!("${at}")));
    }
    assert_eq!(items(&pool).len(), 40);
    let first: Vec<Value> = serde_json::from_str(&pool.texts.block(0).unwrap()).unwrap();
    assert_eq!(pool.texts.starts[..2], [0, first.len()]);
}
