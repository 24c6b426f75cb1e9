//! Inputs: real ones with changes, and random ones from pieces that have a meaning.

use std::sync::LazyLock;

use crate::random::Random;

/// Separates texts of one input.
const NEXT: u8 = 0xff;

static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let rows = include_str!("../../../tools/tests/tables/shell_lines.txt");
    let cells = rows
        .lines()
        .filter(|row| !row.starts_with('#'))
        .filter_map(|row| row.splitn(3, '\t').nth(2));
    cells.map(|line| line.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")).collect()
});

#[rustfmt::skip]
const SHELL: &[&str] = &[
    " ", " ", " ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{ ", "; }", "$(", "`", "'", "\"", "\\", "\\\n", "#", "<", ">", ">>", "2>&1",
    "<<E\n", "<<'E'\n", "<<-E\n", "\nE\n", "<<<", "<(", ">(", "$", "${", "}", "${x}", "${x:-", "${!x}", "${x@P}", "$[", "]", "$((", "))", "((", "[[ ",
    " ]]", "[ ", " ]", "=", "+=", "x=1", "x", "*", "?", "~", "!", "-c", "-e", "--", "-", "a[$(rm x)]", "echo ", "echo hi", "git log", "git -c x=y log", "rm -rf x",
    "cat f", "sudo ", "env A=1 ", "xargs ", "eval ", "bash -c ", "sh ", "find . -exec ", " \\;", "exec ", "command ", "builtin ", "timeout 5 ", "if ", "; then ",
    "; else ", "; fi", "for x in a; do ", "while ", "; do ", "; done", "case x in ", ") ", ";; esac", "f() { ", "function f ", "test -v ", "printf -v ", "read ",
    "declare ", "let ", "unset ", "cd sub", "cd ..", "leftfold run", "$'", "\\x41", "$\"", "é", "漢", "\u{a0}", "\t", "\r", "\0", "first-of-all",
];

pub(crate) fn bash(random: &mut Random) -> Vec<u8> {
    let line = match random.below(4) {
        0 => random.concatenated(SHELL, 24),
        _ => {
            let [line, other] = [(); 2].map(|()| random.pick(&LINES));
            random.mutated(line, other, SHELL)
        }
    };
    random.bytes(line)
}

#[rustfmt::skip]
const SCREEN: &[&str] = &[
    "a", "text", " ", "\n", "\r", "\r\n", "\t", "\u{8}", "\u{7}", "\0", "\u{1b}", "\u{1b}[", "\u{1b}[31m", "\u{1b}[2J", "\u{1b}[1;1H", "\u{1b}[?1049h", "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://host\u{1b}\\", "\u{1b}]52;c;eA==\u{7}", "\u{1b}]", "\u{1b}P", "\u{1b}X", "\u{1b}^", "\u{1b}_", "\u{1b}\\", "\u{1b}(B", "\u{1b}c", "\u{1b}#8",
    "\u{90}", "\u{98}", "\u{9b}", "\u{9b}31m", "\u{9c}", "\u{9d}0;t\u{9c}", "\u{9e}", "\u{9f}", "\u{85}", "\u{7f}", "\u{e}", "\u{f}", "\u{5}", "\u{18}", "\u{1a}", ";", "?", "0", "9", "m", "H", "[", "]", "\\",
    "\u{200b}", "\u{200c}", "\u{200d}", "\u{200e}", "\u{200f}", "\u{2028}", "\u{2029}", "\u{202a}", "\u{202d}", "\u{202e}", "\u{202c}", "\u{2060}", "\u{2066}", "\u{2067}", "\u{2069}",
    "\u{feff}", "\u{ad}", "\u{61c}", "\u{180e}", "\u{fe0f}", "\u{e0041}", "e\u{301}", "漢字", "🦀", "👩\u{200d}💻", "\u{1f1e9}\u{1f1ea}", "\u{fffd}", "\u{fff9}", "é", "שלום", "10%\r50%\r",
];

const SCREENS: &[&str] = &[
    "\u{1b}[1m\u{1b}[32m   Compiling\u{1b}[0m leftfold v0.1.0\n\u{1b}[1m\u{1b}[33mwarning\u{1b}[0m: unused\n",
    "\u{1b}]0;user@host: ~\u{7}\u{1b}[01;32muser@host\u{1b}[00m:\u{1b}[01;34m~\u{1b}[00m$ ls\r\nCargo.toml  src\r\n",
    "\u{1b}]8;;file:///x\u{1b}\\x\u{1b}]8;;\u{1b}\\ 12:3  error  Missing semicolon\n",
    "\u{1b}[?25l\u{1b}[2K\u{1b}[1G⠋ installing\u{1b}[2K\u{1b}[1G⠙ installing\u{1b}[?25h\n",
    "  0%\r 50%\r100%\r\ndone\n",
    "rm -rf x \u{202e}cod.txt\u{202c} # harmless",
    "| a | b |\n|---|---|\n| 漢字 | 🦀 |\n\n```rust\nfn main() {}\n```\n",
    "\u{1b}P1$r0m\u{1b}\\\u{1b}_Gi=1;AAAA\u{1b}\\\u{1b}[6n\u{1b}[c\u{1b}[>0q",
];

pub(crate) fn terminal(random: &mut Random) -> Vec<u8> {
    let text = match random.below(3) {
        0 => random.concatenated(SCREEN, 24),
        _ => {
            let [text, other] = [(); 2].map(|()| random.choose(SCREENS));
            random.mutated(text, other, SCREEN)
        }
    };
    random.bytes(text)
}

/// The texts in the tests of settings.
static SETTINGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let sources = [
        include_str!("../../../bin/config/src/tests/trust.rs"),
        include_str!("../../../bin/config/src/tests/errors.rs"),
        include_str!("../../../bin/config/src/tests/reading.rs"),
        include_str!("../../../bin/config/src/tests/models.rs"),
        include_str!("../../../bin/config/src/tests/claude_code.rs"),
    ];
    let texts = |source: &'static str| {
        let raw = source.split("r#\"").skip(1);
        raw.filter_map(|rest| Some(rest.split_once("\"#")?.0.to_owned()))
    };
    sources.into_iter().flat_map(texts).filter(|text| text.trim_start().starts_with('{')).collect()
});

#[rustfmt::skip]
const KEYS: &[&str] = &[
    "permission", "permission", "permission", "tools", "agent", "agent", "command", "instructions", "skills", "model", "small_model", "default_agent", "provider", "mcp", "plugin", "secrets",
    "environment", "sandbox", "webfetch", "websearch", "codesearch", "formatter", "lsp", "snapshot", "title", "compaction", "retry", "task", "tool_output", "$schema", "theme", "mode", "share", "enabled_providers", "disabled_providers",
    "bash", "edit", "read", "*", "external_directory", "protected_file", "leftfold", "ls", "rm *", "git *", "build", "plan", "a", "c", "p", "s", "prompt", "description",
    "template", "options", "models", "baseURL", "apiKey", "headers", "command", "url", "enabled", "paths", "urls", "wire", "npm", "mode", "color", "steps", "temperature",
    "maxSteps", "top_p", "topP", "disable", "subtask", "private", "auto", "attempts", "timeout", "max_lines", "prompt ", "", "é",
];
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "true", "false", "null", "0", "1", "-1", "1e400", "99999999999999999999", "0.5", "\"\"", "\"allow\"", "\"allow\"", "\"ask\"", "\"deny\"", "\"{env:KEY}\"", "\"{env:NONE}\"",
    "\"{file:./inside.md}\"", "\"{file:../x}\"", "\"{file:/etc/hostname}\"", "\"{env:KEY}{file:inside.md}\"", "\"~/x\"", "\"../x\"", "\"https://host/\"", "\"sub/x.md\"", "\"p/m\"", "\"!`ls`\"", "\"$1 @x\"",
    "[]", "{}", "[\"sh\", \"x.sh\"]", "[[\"sh\"], \"p\"]", "\"openai-chat\"", "\"all\"", "\"primary\"", "\"subagent\"", "\"*\"", "\"\\ud83d\"", "\"a\\u0000b\"", "DATABASE_URL", "// c\n1", "/* c */ 2",
];
#[rustfmt::skip]
const JSON: &[&str] = &[
    "{", "}", "[", "]", ":", ",", "\"", "\\", "\n", " ", "//", "/*", "*/", "{env:KEY}", "{env:", "{file:", "{file:./inside.md}", "\"permission\": ", "\"allow\"", "\"deny\"", "\"ask\"", "\"agent\": {",
    "\"mode\": {", "\"tools\": {", "\"*\": ", "true", "false", "null", "0", "1e999", "---\n", "\u{feff}", "\u{0}", "é", "🦀", "\\u0000", "\\ud800", "~", "..", "/", "!`",
];

fn object(random: &mut Random, depth: usize) -> String {
    let entries = (0..random.below(4)).map(|_| {
        let key = random.choose(KEYS);
        let value = if depth > 0 && !random.once_in(3) {
            object(random, depth - 1)
        } else {
            random.choose(VALUES).to_owned()
        };
        format!("\"{key}\": {value}")
    });
    let entries: Vec<String> = entries.collect();
    format!("{{{}}}", entries.join(", "))
}

fn agent(random: &mut Random) -> String {
    let lines = (0..random.below(5)).map(|_| {
        let (key, value) = (random.choose(KEYS), random.choose(VALUES));
        format!("{key}: {value}\n")
    });
    let lines: String = lines.collect();
    let body = random.choose(&["Help.", "", "{env:KEY}", "{file:../x}", "---"]);
    format!("---\n{lines}---\n{body}")
}

fn settings_text(random: &mut Random) -> String {
    match random.below(8) {
        0 => String::new(),
        1 => agent(random),
        2 | 3 => object(random, 4),
        4 => random.pick(&SETTINGS).to_owned(),
        _ => {
            let [text, other] = [(); 2].map(|()| random.pick(&SETTINGS));
            random.mutated(text, other, JSON)
        }
    }
}

/// Settings of the user: they must be valid for the project's to matter.
const USERS: &[&str] = &[
    "{}",
    r#"{"permission": {"bash": {"*": "ask", "ls": "allow", "rm *": "deny"}, "edit": "ask"}}"#,
    r#"{"permission": "deny", "agent": {"a": {"permission": {"bash": "allow"}, "model": "p/m"}}}"#,
    r#"{"permission": {"*": "ask"}, "mcp": {"s": {"command": ["sh"]}}, "model": "p/m"}"#,
    r#"{"permission": {"read": {"*": "allow", "*.env": "deny"}}, "tools": {"bash": false}}"#,
    r#"{"agent": {"plan": {"permission": {"edit": "deny"}}}, "secrets": {"S": "value-of-it"}}"#,
    r#"{"command": {"c": {"template": "t !`ls`", "agent": "build"}}, "instructions": ["a.md"]}"#,
    r#"{"provider": {"p": {"wire": "openai-chat", "options": {"baseURL": "http://h/v1"}, "models": {"m": {}}}}}"#,
];

pub(crate) fn settings(random: &mut Random) -> Vec<u8> {
    let user = match random.below(4) {
        0 => settings_text(random),
        _ => random.choose(USERS).to_owned(),
    };
    let project = settings_text(random);
    let mut bytes = random.bytes(user);
    bytes.push(NEXT);
    bytes.extend(random.bytes(project));
    bytes
}

#[rustfmt::skip]
const MESSAGES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"session/new","params":{"cwd":"/p","mcpServers":[{"name":"x","command":"/bin/x","args":[],"env":[{"name":"K","value":"v"}]}]}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}}"#,
    r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"session/load","params":{"sessionId":"s","cwd":"/p","mcpServers":[]}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"session/set_mode","params":{"sessionId":"s","modeId":"plan"}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"session/list","params":{"cursor":null}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"_leftfold/read","params":{"session":"01ARZ3NDEKTSV4RRFFQ69G5FAV","from":1,"to":9}}"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"_leftfold/watch","params":{"session":"01ARZ3NDEKTSV4RRFFQ69G5FAV","from":1,"children":{}}}"#,
    r#"{"jsonrpc":"2.0","id":9,"method":"_leftfold/answer","params":{"session":"01ARZ3NDEKTSV4RRFFQ69G5FAV","of":7,"reply":"once","by":"me"}}"#,
    r#"{"jsonrpc":"2.0","id":10,"method":"_leftfold/prompt","params":{"session":"01ARZ3NDEKTSV4RRFFQ69G5FAV","text":"go on"}}"#,
    r#"{"jsonrpc":"2.0","id":11,"result":{"outcome":{"outcome":"selected","optionId":"once"}}}"#,
    r#"{"jsonrpc":"2.0","id":12,"error":{"code":-32603,"message":"no","data":{"why":"x"}}}"#,
    r#"[{"jsonrpc":"2.0","id":1,"method":"session/list"},{"jsonrpc":"2.0","method":"session/cancel","params":{}}]"#,
    r#"[]"#,
];
#[rustfmt::skip]
const RPC: &[&str] = &[
    "{", "}", "[", "]", ":", ",", "\"", "\\", "\n", "\n\n", " ", "\t", "null", "true", "1", "-1", "1.5", "1e999", "18446744073709551616", "\"id\":", "\"id\":null,", "\"id\":{},", "\"method\":", "\"params\":", "\"params\":[],",
    "\"params\":7,", "\"jsonrpc\":\"2.0\",", "\"jsonrpc\":\"1.0\",", "\"result\":{},", "\"error\":{},", "\"_leftfold/read\"", "\"_leftfold/\"", "\"session/new\"", "\"session/prompt\"", "\\ud83d", "\\udE00", "\\u0000", "\\\\ud83d", "\u{feff}", "é", "🦀", "\0", "\r",
];

pub(crate) fn json_rpc(random: &mut Random) -> Vec<u8> {
    let lines = (0..=random.below(3)).map(|_| match random.below(6) {
        0 => random.concatenated(RPC, 24),
        1 => {
            let [id, method] = [(); 2].map(|()| random.choose(VALUES));
            let params = object(random, 3);
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}")
        }
        _ => {
            let [text, other] = [(); 2].map(|()| random.choose(MESSAGES));
            random.mutated(text, other, RPC)
        }
    });
    let lines: Vec<String> = lines.collect();
    let end = random.choose(&["", "\n"]);
    random.bytes(lines.join("\n") + end)
}
