//! Properties of tools that hold for any bytes. The byte `0xff`, which occurs in no text, separates texts.
//!
//! # Errors
//! Every function here returns the property that does not hold.

use leftfold_events::event::CallSpec;
use leftfold_events::{Json, rules};
use leftfold_tools::{Workspace, dry_run_patch, replace, resolve};

/// The texts in `data`. The last contains the rest if there are more than `N`; missing texts are
/// empty.
fn texts<const N: usize>(data: &[u8]) -> [String; N] {
    let mut parts = data.splitn(N, |byte| *byte == 0xff);
    std::array::from_fn(|_| String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned())
}

/// Input: a text, `old` and `new`. If `old` occurs exactly once, exactly that is replaced. A
/// refusal has a reason.
pub fn edit(data: &[u8]) -> Result<(), String> {
    let [text, old, new] = texts(data);
    let once = text.match_indices(&old).take(2).count() == 1;
    // two overlapping occurrences are two places
    let alone = once && text.find(&old) == text.rfind(&old);
    let plain = ![&text, &old, &new].iter().any(|text| text.contains(['\r', '\u{feff}']));
    for all in [false, true] {
        match replace(&text, &old, &new, all, "f") {
            Ok(done) if plain && alone && done.text != text.replacen(&old, &new, 1) => {
                return Err(format!("{old:?} in {text:?} became {:?}", done.text));
            }
            Ok(done) if done.count == 0 => return Err("nothing was replaced".to_owned()),
            Ok(_) => {}
            Err(_) if plain && alone && !old.is_empty() && old != new => {
                return Err(format!("{old:?} was not replaced in {text:?}"));
            }
            Err(error) if error.to_string().is_empty() => return Err("no reason".to_owned()),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Input: a text and a patch. Any patch is parsed or refused, and so are its hunks.
pub fn apply_patch(data: &[u8]) -> Result<(), String> {
    let [before, patch] = texts(data);
    let wrapped = format!("*** Begin Patch\n*** Update File: f\n{patch}\n*** End Patch\n");
    for patch in [patch.as_str(), &wrapped] {
        let [one, other] = [(); 2].map(|()| dry_run_patch(&before, patch));
        if one != other {
            return Err(format!("{one:?} and then {other:?}"));
        }
    }
    Ok(())
}

/// Input: a shell line. Rules always see at least one pattern of it, and "always" allows only
/// patterns that were asked about. A command on a line of its own before it is seen whatever follows, since the shell
/// runs it before it reads on.
pub fn bash(data: &[u8]) -> Result<(), String> {
    let [line] = texts(data);
    let start = std::time::Instant::now();
    let (patterns, always) = leftfold_shell::seen(&line);
    let input = Json::from_value(&serde_json::json!({ "command": line }));
    let call = CallSpec { id: String::new(), name: "bash".to_owned(), input };
    let nowhere = "/nonexistent";
    let resolved = resolve(&call, &Workspace::new(nowhere, nowhere, nowhere));
    if resolved.error.is_none() && resolved.access.is_empty() {
        return Err(format!("{line:?} needs no permission"));
    }
    if start.elapsed().as_secs() >= 5 {
        return Err(format!("{:?} for {line:?}", start.elapsed()));
    }
    if patterns.is_empty() {
        return Err(format!("nothing is seen of {line:?}"));
    }
    let asked = |rule: &String| patterns.iter().any(|pattern| rules::matches(rule, pattern));
    if let Some(rule) = always.iter().find(|rule| !asked(rule)) {
        return Err(format!("{rule:?} is none of {patterns:?}, seen of {line:?}"));
    }
    let (patterns, _) = leftfold_shell::seen(&format!("{FIRST}\n{line}"));
    let is_allowed = |pattern: &String| {
        rules::matches("echo *", pattern) || rules::matches("git log *", pattern)
    };
    if patterns.iter().all(is_allowed) {
        return Err(format!("{FIRST:?} is hidden by {line:?}: {patterns:?}"));
    }
    Ok(())
}

/// A command that no line of the targets has.
const FIRST: &str = "first-of-all x";
