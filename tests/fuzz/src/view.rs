//! Properties of the cleaner that hold for any text.

use leftfold_view::clean::{
    Cleaner, clean, clean_line, clip, escape_json, guarded, printable, printable_line, visible,
    visible_line,
};
use unicode_width::UnicodeWidthStr;

/// Input: any bytes, read as text. No function of the cleaner lets a character through that controls the terminal or
/// has no look of its own. Cleaned text stays as it is when it is cleaned again or printed, and so does harmless text.
///
/// # Errors
/// The property that does not hold.
pub fn cleaner(data: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(data);
    let (cleaned, line, seen) = (clean(&text), clean_line(&text), visible(&text));
    let printed = printable(&text);
    for (shown, may_have) in [
        (cleaned.as_str(), "\n"),
        (&line, ""),
        (&seen, "\n"),
        (&visible_line(&text), ""),
        (&printed, "\n\t"),
        (&printable_line(&text), ""),
        (&guarded(&text), "\n\t"),
    ] {
        if let Some(bad) = shown.chars().find(|c| drives(*c) && !may_have.contains(*c)) {
            return Err(format!("{bad:?} is left of {text:?}: {shown:?}"));
        }
    }
    for (name, again) in [
        ("cleaned again", clean(&cleaned)),
        ("printed", printable(&cleaned).into_owned()),
        ("guarded", guarded(&cleaned).into_owned()),
    ] {
        if again != cleaned {
            return Err(format!("{text:?} is cleaned to {cleaned:?}, and {name} to {again:?}"));
        }
    }
    if printable(&seen) != seen || printable(&printed) != printed {
        return Err(format!("{text:?} changes when it is printed again"));
    }
    if !text.chars().any(|c| c != '\n' && (drives(c) || joins(c)))
        && plain(&text) != plain(&cleaned)
    {
        return Err(format!("{text:?} is harmless and becomes {cleaned:?}"));
    }
    apart(&text)?;
    json(&text)?;
    pieces(&text, data.len())?;
    let columns = data.len() % 23 + 1;
    let clipped = clip(&line, columns);
    if clipped.width() > columns {
        return Err(format!("{clipped:?} has more than {columns} columns"));
    }
    Ok(())
}

/// Texts that differ look different where a person decides on them.
fn apart(text: &str) -> Result<(), String> {
    let (shown, lines) = (visible_line(text), visible(text));
    for (at, c) in text.char_indices().take(8) {
        let without = [&text[..at], &text[at + c.len_utf8()..]].concat();
        if without != text && (visible_line(&without) == shown || visible(&without) == lines) {
            return Err(format!("{text:?} and {without:?} both look like {shown:?}"));
        }
    }
    // an escape that is written out is not the character itself
    if shown != text && visible_line(&shown) == shown {
        return Err(format!("{text:?} and {shown:?} look alike"));
    }
    Ok(())
}

/// Escaped JSON is equal to what it was made of, and shows nothing that controls the terminal.
fn json(text: &str) -> Result<(), String> {
    let json = serde_json::Value::from(text);
    let written = json.to_string();
    let escaped = escape_json(&written);
    if let Some(bad) = escaped.chars().find(|c| drives(*c) || joins(*c)) {
        return Err(format!("{bad:?} is left of {written}: {escaped}"));
    }
    match serde_json::from_str::<serde_json::Value>(&escaped) {
        Ok(read) if read == json => Ok(()),
        read => Err(format!("{written} became {escaped}, which reads as {read:?}")),
    }
}

/// A text that comes in two pieces is cleaned as if it came in one.
fn pieces(text: &str, seed: usize) -> Result<(), String> {
    let whole = Cleaner::default().clean(text);
    let at = (0..=text.len()).rev().find(|at| at % 7 == seed % 7 && text.is_char_boundary(*at));
    let (first, second) = text.split_at(at.unwrap_or(0));
    let mut cleaner = Cleaner::default();
    let joined = cleaner.clean(first) + &cleaner.clean(second);
    if joined != whole {
        return Err(format!("{first:?} and {second:?} become {joined:?}, not {whole:?}"));
    }
    if let Some(bad) = joined.chars().find(|c| drives(*c) && *c != '\n') {
        return Err(format!("{bad:?} is left of {text:?}: {joined:?}"));
    }
    Ok(())
}

/// Without what the cleaner may change in harmless text.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Characters that move the cursor, start a sequence, change the direction of the text around them or have no look of
/// their own. The list is independent of the cleaner's own.
fn drives(c: char) -> bool {
    let code = u32::from(c);
    code < 0x20
        || (0x7f..0xa0).contains(&code)
        || matches!(code, 0xad | 0x61c | 0x180e | 0x200b | 0x200e | 0x200f | 0x2028..=0x202e)
        || matches!(code, 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe0fff)
}

/// Characters without a look of their own that belong to some emoji and words.
fn joins(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}
