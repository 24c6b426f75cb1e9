//! Tests of the prompts' texts.

use super::*;

#[test]
fn the_model_decides_on_the_prompt() {
    for (id, name) in [
        ("gpt-5-codex", "codex"),
        ("gpt-5.1-codex-mini", "codex"),
        ("openai/gpt-5.2-codex", "codex"),
        ("gpt-5", "codex"),
        ("openai/GPT-5.2", "codex"),
        ("gpt-6.2-sol", "codex"),
        ("gpt-oss-120b", "gpt"),
        ("gpt-3.5-turbo", "gpt"),
        ("gpt-4o", "gpt"),
        ("openai/GPT-4.1", "gpt"),
        ("o1", "gpt"),
        ("o3-mini", "gpt"),
        ("openai/o4-mini", "gpt"),
        ("gemini-2.5-pro", "gemini"),
        ("google/gemini-3-flash", "gemini"),
        ("claude-opus-4-5", "anthropic"),
        ("anthropic.claude-sonnet-4-v1:0", "anthropic"),
        ("arcee-ai/Trinity-Mini", "trinity"),
        ("qwen3:8b", "default"),
        ("llama-o3x", "default"),
        ("o3000", "default"),
        ("", "default"),
    ] {
        assert_eq!(ModelFamily::of(id).name(), name, "{id}");
    }
}

#[test]
fn items_that_name_a_missing_tool_are_left_out() {
    let text = "Intro `edit`.\n- a `edit`\n- b `path:line`\n  goes on with\n  `read` here\n- c\n\nAfter\n- d `read`";
    assert_eq!(fitting(text, &|_| false), "Intro `edit`.\n- c\n\nAfter");
    assert_eq!(fitting(text, &|_| true), text);
    assert!(fitting(text, &|name| name == "read").ends_with("here\n- c\n\nAfter\n- d `read`"));
}

#[test]
fn prompts_are_short_and_have_no_empty_part() {
    let families = [
        ModelFamily::Codex,
        ModelFamily::Gpt,
        ModelFamily::Gemini,
        ModelFamily::Anthropic,
        ModelFamily::Trinity,
        ModelFamily::Default,
    ];
    let own = families.map(ModelFamily::text);
    for text in own.into_iter().chain([CORE, THOROUGH]) {
        assert!(text.len() < 2_600, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        // Even without tools, each heading keeps text below it.
        let bare = fitting(text, &|_| false);
        let lines: Vec<&str> = bare.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with(['-', ' ']))
        {
            let next = lines.get(at + 1).copied();
            let heads = at > 0 && !line.is_empty() && lines[at - 1].is_empty();
            assert!(!heads || next.is_some_and(|next| next.starts_with("- ")), "{line} in {bare}");
        }
    }
}
