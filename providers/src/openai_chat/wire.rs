//! The chunks of a stream, with the members that are read. Any of them may be absent or null, and
//! texts come in several shapes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::returned::REASONING;

#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    pub(super) object: Option<Words>,
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<Value>,
    /// Usage at Groq.
    pub(super) x_groq: Option<Value>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    pub(super) index: Option<Value>,
    pub(super) delta: Option<Delta>,
    pub(super) finish_reason: Option<Words>,
    /// Usage at Moonshot.
    pub(super) usage: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    pub(super) content: Option<Words>,
    pub(super) reasoning_content: Option<Words>,
    pub(super) reasoning: Option<Words>,
    pub(super) reasoning_text: Option<Words>,
    pub(super) reasoning_details: Option<Value>,
    pub(super) reasoning_opaque: Option<Words>,
    pub(super) refusal: Option<Words>,
    pub(super) tool_calls: Option<Vec<CallPiece>>,
    /// A call in the older form, which has only one.
    pub(super) function_call: Option<FunctionPiece>,
}

/// A piece of a call. Empty members carry no information.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CallPiece {
    pub(super) index: Option<Value>,
    pub(super) id: Option<Words>,
    pub(super) function: Option<FunctionPiece>,
    /// Google's signatures.
    pub(super) extra_content: Option<Value>,
    /// LiteLLM puts Google's signatures here.
    pub(super) provider_specific_fields: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionPiece {
    pub(super) name: Option<Words>,
    /// A string nearly everywhere; some servers send the value itself.
    pub(super) arguments: Option<Value>,
}

/// By far the most frequent chunk: a few words of the answer, and no other member that is read.
#[derive(Deserialize)]
struct PlainChunk<'a> {
    #[serde(borrow)]
    object: Option<Cow<'a, str>>,
    choices: [PlainChoice; 1],
    usage: Option<IgnoredAny>,
    x_groq: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainChoice {
    #[serde(default)]
    index: u64,
    delta: PlainDelta,
    finish_reason: Option<IgnoredAny>,
    usage: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainDelta {
    content: String,
    reasoning_content: Option<IgnoredAny>,
    reasoning: Option<IgnoredAny>,
    reasoning_text: Option<IgnoredAny>,
    reasoning_details: Option<IgnoredAny>,
    reasoning_opaque: Option<IgnoredAny>,
    refusal: Option<IgnoredAny>,
    tool_calls: Option<IgnoredAny>,
    function_call: Option<IgnoredAny>,
}

/// The text of such a chunk; `None` for any other.
pub(super) fn plain_words(data: &str) -> Option<String> {
    let chunk: PlainChunk<'_> = serde_json::from_str(data).ok()?;
    let [choice] = chunk.choices;
    let delta = choice.delta;
    let others = [
        &chunk.usage, &chunk.x_groq, &chunk.error, &choice.finish_reason, &choice.usage,
        &delta.reasoning_content, &delta.reasoning, &delta.reasoning_text,
        &delta.reasoning_details, &delta.reasoning_opaque, &delta.refusal, &delta.tool_calls,
        &delta.function_call,
    ];
    let is_error = chunk.object.is_some_and(|object| object == "error");
    let is_more = is_error || choice.index != 0 || others.iter().any(|other| other.is_some());
    (!is_more).then_some(delta.content)
}

impl Delta {
    /// The reasoning from the first member that has some, and the member's name: servers that are renaming the member
    /// send both.
    pub(super) fn take_reasoning(&mut self) -> Option<(&'static str, Words)> {
        let members = [&mut self.reasoning_content, &mut self.reasoning, &mut self.reasoning_text];
        let named = REASONING.into_iter().zip(members);
        named
            .filter_map(|(name, words)| Some((name, words.take()?)))
            .find(|(_, words)| !words.is_empty())
    }
}

/// A text as a string, a list of parts, or one part; empty for anything else.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) text: String,
    /// The text of parts of type `thinking`.
    pub(super) thinking: String,
}

impl Words {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty()
    }

    /// All of the text, if the member itself says what it is.
    pub(super) fn into_text(self) -> String {
        if self.thinking.is_empty() { self.text } else { self.thinking + &self.text }
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<Words, E> {
        Ok(Words { text, thinking: String::new() })
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Words, E> {
        self.visit_string(number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Words, E> {
        self.visit_string(number.to_string())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_unit<E>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Words, A::Error> {
        let mut all = Words::default();
        while let Some(part) = parts.next_element::<Words>()? {
            all.text.push_str(&part.text);
            all.thinking.push_str(&part.thinking);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<Words, A::Error> {
        let mut all = Words::default();
        while let Some(key) = part.next_key::<String>()? {
            match key.as_str() {
                "text" => all.text.push_str(&part.next_value::<Words>()?.into_text()),
                "thinking" => all.thinking.push_str(&part.next_value::<Words>()?.into_text()),
                _ => drop(part.next_value::<IgnoredAny>()?),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_plain_is_read_plainly() {
        let chunk = |delta: &str, choice: &str, more: &str| {
            format!(r#"{{"choices":[{{"index":0,"delta":{{{delta}}}{choice}}}]{more}}}"#)
        };
        let words = r#""content":"a\n""#;
        for (choice, more) in [("", ""), (r#","finish_reason":null"#, r#","usage":null"#)] {
            let plain = plain_words(&chunk(words, choice, more));
            assert_eq!(plain.as_deref(), Some("a\n"), "{choice}{more}");
        }
        for (delta, choice, more) in [
            (r#""content":null"#, "", ""),
            (r#""content":["a"]"#, "", ""),
            (r#""content":"a","reasoning":"b""#, "", ""),
            (r#""content":"a","tool_calls":[]"#, "", ""),
            (r#""content":"a","function_call":{}"#, "", ""),
            (r#""content":"a","reasoning_details":[]"#, "", ""),
            (words, r#","finish_reason":"stop""#, ""),
            (words, "", r#","usage":{"total_tokens":1}"#),
            (words, "", r#","error":{"message":"no"}"#),
            (words, "", r#","object":"error""#),
        ] {
            let chunk = chunk(delta, choice, more);
            assert_eq!(plain_words(&chunk), None, "{chunk}");
        }
    }

    #[test]
    fn texts_of_all_shapes() {
        for (json, text, thinking) in [
            (r#""a""#, "a", ""),
            ("null", "", ""),
            ("7", "7", ""),
            ("-7", "-7", ""),
            ("1.5", "", ""),
            ("true", "", ""),
            (r#"["a", null, {"type":"text","text":"b"}]"#, "ab", ""),
            (
                r#"[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"text":"b"}]"#,
                "b",
                "t",
            ),
            (r#"[{"type":"thinking","thinking":"t","closed":true}]"#, "", "t"),
            (r#"[{"type":"reference","reference_ids":[1,2]}]"#, "", ""),
            (r#"{"text":"é\n"}"#, "é\n", ""),
        ] {
            let words: Words = serde_json::from_str(json).unwrap();
            assert_eq!((words.text.as_str(), words.thinking.as_str()), (text, thinking), "{json}");
        }
    }
}
