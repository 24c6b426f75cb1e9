//! Schemas in the form that the API accepts.

use super::*;
use crate::gemini::schema::parameters;

/// A property with this schema, as it is sent.
fn sent(schema: &Value) -> Value {
    let whole = json!({"type":"object","properties":{"p":schema},
        "$defs":{"d":{"type":"integer","description":"of d"},"loop":{"$ref":"#/$defs/loop"}}});
    parameters(&whole).unwrap()["properties"]["p"].clone()
}

#[test]
fn types_and_what_is_said_of_them() {
    for (schema, expected) in [
        (json!({"type":"string"}), json!({"type":"STRING"})),
        (json!({"type":"boolean","default":true}), json!({"type":"BOOLEAN"})),
        (
            json!({"type":"integer","minimum":1,"maximum":9,"exclusiveMinimum":0,"multipleOf":2}),
            json!({"type":"INTEGER","minimum":1,"maximum":9}),
        ),
        (
            json!({"type":"string","format":"date-time"}),
            json!({"type":"STRING","format":"date-time"}),
        ),
        (
            json!({"type":"string","format":"uri","pattern":"^a","minLength":1}),
            json!({"type":"STRING"}),
        ),
        (
            json!({"type":"array","items":{"type":"number"},"minItems":1,"uniqueItems":true}),
            json!({"type":"ARRAY","items":{"type":"NUMBER"},"minItems":1}),
        ),
        (json!({"type":"array"}), json!({"type":"ARRAY","items":{"type":"STRING"}})),
        (
            json!({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]}),
            json!({"type":"ARRAY","items":{"anyOf":[{"type":"STRING"},{"type":"INTEGER"}]}}),
        ),
        (
            json!({"type":"object","additionalProperties":{"type":"string"}}),
            json!({"type":"OBJECT"}),
        ),
        (
            json!({"properties":{"a":{}},"required":["a","a","gone"],"additionalProperties":false}),
            json!({"type":"OBJECT","properties":{"a":{"type":"STRING"}},"required":["a"]}),
        ),
        (json!({}), json!({"type":"STRING"})),
        (json!(true), json!({"type":"STRING"})),
    ] {
        assert_eq!(sent(&schema), expected, "{schema}");
    }
}

#[test]
fn values_are_texts_and_null_is_said_apart() {
    for (schema, expected) in [
        (json!({"enum":["a","b","a"]}), json!({"type":"STRING","enum":["a","b"]})),
        (json!({"type":"integer","enum":[1,2]}), json!({"type":"STRING","enum":["1","2"]})),
        (json!({"enum":["a",null,""]}), json!({"type":"STRING","enum":["a"],"nullable":true})),
        (json!({"const":false}), json!({"type":"STRING","enum":["false"]})),
        (json!({"type":["string","null"]}), json!({"type":"STRING","nullable":true})),
        (json!({"type":"string","nullable":true}), json!({"type":"STRING","nullable":true})),
        (
            json!({"anyOf":[{"type":"null"},{"type":"number"}],"description":"maybe"}),
            json!({"type":"NUMBER","nullable":true,"description":"maybe"}),
        ),
        (json!({"enum":[null]}), json!({"type":"STRING","nullable":true})),
    ] {
        assert_eq!(sent(&schema), expected, "{schema}");
    }
}

#[test]
fn alternatives_references_and_all_of_them() {
    for (schema, expected) in [
        (
            json!({"oneOf":[{"type":"string","description":"s"},{"type":"integer"}],"description":"o"}),
            json!({"anyOf":[{"type":"STRING","description":"s"},{"type":"INTEGER","description":"o"}]}),
        ),
        (
            json!({"type":["string","integer","null"]}),
            json!({"anyOf":[{"type":"STRING","nullable":true},{"type":"INTEGER","nullable":true}]}),
        ),
        (json!({"$ref":"#/$defs/d"}), json!({"type":"INTEGER","description":"of d"})),
        (
            json!({"$ref":"#/$defs/d","description":"mine"}),
            json!({"type":"INTEGER","description":"mine"}),
        ),
        (json!({"$ref":"#/$defs/gone"}), json!({"type":"STRING"})),
        (json!({"$ref":"https://example.com/s.json"}), json!({"type":"STRING"})),
        (json!({"$ref":"#/$defs/loop"}), json!({"type":"STRING"})),
        (
            json!({"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}),
            json!({"type":"OBJECT","properties":{"a":{"type":"STRING"},"b":{"type":"STRING"}},
                "required":["a","b"]}),
        ),
    ] {
        assert_eq!(sent(&schema), expected, "{schema}");
    }
}

#[test]
fn a_function_without_parameters_has_no_schema() {
    for schema in [json!({}), json!({"type":"object","properties":{}}), json!(true), json!(null)] {
        assert_eq!(parameters(&schema), None, "{schema}");
    }
}

/// A schema that contains itself ends at a limit, and one that doubles with each reference stays of
/// a size that can be sent.
#[test]
fn schemas_without_end() {
    let node =
        json!({"type":"object","properties":{"next":{"$ref":"#"},"value":{"type":"string"}}});
    let sent = parameters(&node).unwrap().to_string();
    assert!(sent.len() < 10_000, "{}", sent.len());
    let pair = |of: &str| json!({"type":"object","properties":{"a":{"$ref":of},"b":{"$ref":of}}});
    let mut defs = serde_json::Map::new();
    for n in 0..40 {
        defs.insert(format!("d{n}"), pair(&format!("#/$defs/d{}", n + 1)));
    }
    let mut whole = pair("#/$defs/d0");
    whole["$defs"] = defs.into();
    let sent = parameters(&whole).unwrap().to_string();
    assert!(sent.len() < 500_000, "{}", sent.len());
}

#[test]
fn options_have_the_names_of_the_body() {
    use crate::gemini::options::apply;
    let applied = |options: &Value, model: &str| {
        let mut body = serde_json::Map::new();
        body.insert("tools".into(), json!([]));
        apply(&mut body, options, model);
        body.remove("tools");
        Value::Object(body)
    };
    let config = |value: Value| json!({ "generationConfig": value });
    for (options, model, expected) in [
        (json!({}), "gemini-2.0-flash", json!({})),
        (
            json!({"effort":"high"}),
            "gemini-2.5-pro",
            config(json!({"thinkingConfig":{"includeThoughts":true,"thinkingBudget":24_576}})),
        ),
        (
            json!({"reasoning_effort":"max"}),
            "models/gemini-3-flash",
            config(json!({"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"high"}})),
        ),
        (
            json!({"effort":"none"}),
            "gemini-2.5-flash",
            config(json!({"thinkingConfig":{"thinkingBudget":0}})),
        ),
        (
            json!({"max_tokens":9,"topK":3,"stop":["x"],"temperature":null,"structuredOutputs":true}),
            "mine",
            config(json!({"maxOutputTokens":9,"topK":3,"stopSequences":["x"]})),
        ),
        (
            json!({"generation_config":{"top_p":0.5},"model":"x","contents":[],"store":false}),
            "mine",
            json!({"generationConfig":{"topP":0.5},"store":false}),
        ),
        (
            json!({"toolChoice":"required"}),
            "mine",
            json!({"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}),
        ),
    ] {
        assert_eq!(applied(&options, model), expected, "{options}");
    }
}
