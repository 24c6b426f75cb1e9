//! A fast parser for by far the most frequent chunks: text and counts. It builds no tree of values.
//! All other chunks do not match these types and are parsed as trees.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::usage::PlainCounts;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    candidates: [Candidate<'a>; 1],
    usage_metadata: Option<PlainCounts>,
    error: Option<IgnoredAny>,
    prompt_feedback: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Content<'a>,
    #[serde(default)]
    index: u64,
    finish_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Vec<PlainPart<'a>>,
}

/// A part with only text and the flag for thoughts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainPart<'a> {
    #[serde(borrow)]
    pub(super) text: std::borrow::Cow<'a, str>,
    #[serde(default)]
    pub(super) thought: bool,
}

/// The parts and counts of a chunk; `None` if the chunk has anything else.
pub(super) fn read(data: &str) -> Option<(Vec<PlainPart<'_>>, Option<PlainCounts>)> {
    let chunk: Chunk<'_> = serde_json::from_str(data).ok()?;
    let [candidate] = chunk.candidates;
    let is_more = chunk.error.is_some()
        || chunk.prompt_feedback.is_some()
        || candidate.finish_reason.is_some()
        || candidate.index != 0;
    (!is_more).then_some((candidate.content.parts, chunk.usage_metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_plain_is_read() {
        let words = |data: &str| {
            let (parts, _) = read(data)?;
            Some(parts.iter().map(|part| format!("{}{}", part.text, part.thought)).collect())
        };
        let plain = r#"{"candidates":[{"content":{"parts":[{"text":"a\n"},{"text":"b","thought":true}],"role":"model"}}],"responseId":"r"}"#;
        assert_eq!(words(plain), Some(vec!["a\nfalse".to_owned(), "btrue".to_owned()]));
        for (part, more) in [
            (r#"{"text":"a","thoughtSignature":"s"}"#, ""),
            (r#"{"functionCall":{"name":"f"}}"#, ""),
            (r#"{"text":1}"#, ""),
            (r#"{"text":"a"}"#, r#","finishReason":"STOP""#),
            (r#"{"text":"a"}"#, r#","index":1"#),
        ] {
            let chunk = format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}}{more}}}]}}"#);
            assert!(read(&chunk).is_none(), "{chunk}");
        }
        for chunk in ["{}", r#"{"candidates":[]}"#, r#"{"error":{}}"#, "[]", "x"] {
            assert!(read(chunk).is_none(), "{chunk}");
        }
    }
}
