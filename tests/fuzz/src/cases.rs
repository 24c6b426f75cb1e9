//! Random cases of the properties that no target of the driver checks, or only with other inputs.

use leftfold_fuzz::providers::{event_stream, framed, sse, wire};
use leftfold_fuzz::tools::{apply_patch, bash, edit};
use leftfold_providers::Wire;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

/// Fixed random cases, so that a failure comes from the change at hand. `LEFTFOLD_RANDOM=1` picks new cases,
/// `PROPTEST_CASES` sets their number.
fn config() -> ProptestConfig {
    let given = |name| std::env::var(name).ok();
    let cases = given("PROPTEST_CASES").and_then(|n| n.parse().ok()).unwrap_or(600);
    let is_random = given("LEFTFOLD_RANDOM").is_some();
    let rng_seed = if is_random { RngSeed::Random } else { RngSeed::Fixed(1) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// Bytes, and pieces that are likely to have a meaning.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"\xff", b"\xff", b"\n", b"\r\n", b" ", b"\t", b"a", b"b", b"ab\n", b"  a\n", b"{\n",
        b"}\n", b"\\n", b"\\", b"\"", b"*** Begin Patch\n", b"*** End Patch\n",
        b"*** Update File: f\n", b"*** Add File: g\n", b"*** Delete File: f\n",
        b"*** Move to: h\n", b"*** End of File\n", b"@@\n", b"@@ a\n", b"+a\n", b"-a\n", b" a\n",
        b"\xef\xbb\xbf", b"\xc3\xa4", b"\xe2\x80\x9c", b"git log", b"rm -rf x", b"$(", b")", b"`",
        b"&&", b"|", b";", b"'", b"<<E\n", b"\nE\n", b">", b"$x", b"sudo ", b"xargs ", b"if ",
        b"; then ", b"; fi", b"-c ", b"env A=1 ", b"#", b"~", b"/", b"..", b"=", b"!", b"&",
    ];
    let piece = prop_oneof![
        8 => select(PIECES).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..6),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn of_edit(data in texts()) {
        prop_assert_eq!(edit(&data), Ok(()));
    }

    #[test]
    fn of_apply_patch(data in texts()) {
        prop_assert_eq!(apply_patch(&data), Ok(()));
    }

    #[test]
    fn of_bash(data in texts()) {
        prop_assert_eq!(bash(&data), Ok(()));
    }
}

/// Random bytes mixed with fragments of real answers.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&str] = &[
        "data: ",
        "data:",
        "event: ",
        ": c\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\u{feff}",
        "[DONE]",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "1",
        "-1",
        "1e400",
        "true",
        "\\u00",
        "data: {\"type\":\"message_stop\"}\n\n",
        "data: {\"type\":\"message_start\",\"message\":{}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"usage\":{\"prompt_tokens\":-1}}\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"delta\":\"a\"}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
        "data: {\"error\":{}}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n",
        "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
        "data: []\n\n",
        "data: 7\n\n",
    ];
    let piece = prop_oneof![
        6 => select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ];
    vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

/// Lines of [`framed`], mostly those of real answers.
fn framed_answers() -> impl Strategy<Value = Vec<u8>> {
    const LINES: &[&str] = &[
        r#"messageStart {"role":"assistant"}"#,
        r#"contentBlockStart {"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}"#,
        r#"contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"a"}}"#,
        r#"contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"{"}}}"#,
        r#"contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}"#,
        r#"contentBlockStop {"contentBlockIndex":0}"#,
        r#"messageStop {"stopReason":"end_turn"}"#,
        r#"metadata {"usage":{"inputTokens":1,"outputTokens":-1}}"#,
        r#"!throttlingException {"message":"slow"}"#,
        "contentBlockDelta {",
        "metadata",
        "",
    ];
    let line = prop_oneof![
        6 => select(LINES).prop_map(|line| line.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..12),
    ];
    let damage = prop_oneof![3 => Just([0, 0]), 1 => any::<[u8; 2]>()];
    (damage, vec(line, 0..10))
        .prop_map(|(damage, lines)| [damage.to_vec(), lines.join(&b'\n')].concat())
}

proptest! {
    #[test]
    fn of_events(data in answers()) {
        prop_assert_eq!(sse(&data), Ok(()));
    }

    #[test]
    fn of_binary_messages(data in framed_answers()) {
        prop_assert_eq!(framed(Wire::BEDROCK, &data), Ok(()));
        prop_assert_eq!(event_stream(&data), Ok(()));
    }

    #[test]
    fn of_every_wire(data in answers()) {
        for each in leftfold_providers::WIRES {
            prop_assert_eq!(wire(each, &data), Ok(()), "{:?}", each);
        }
    }
}
