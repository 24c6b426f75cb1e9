#![no_main]
//! The cleaner of text on the screen: however a text is cut, nothing is left in it that drives the
//! terminal, and JSON stays equal.

use leftfold_view::clean::{Cleaner, clean, escape_json, guarded, printable, visible, visible_line};

libfuzzer_sys::fuzz_target!(|texts: (&str, &str)| {
    let (head, tail) = texts;
    let text = format!("{head}{tail}");
    let whole = Cleaner::default().clean(&text);
    let mut cleaner = Cleaner::default();
    let pieces = cleaner.clean(head) + &cleaner.clean(tail);
    assert_eq!(pieces, whole, "{head:?} {tail:?}");
    let kept = Cleaner::keeping_tabs().clean(&text);
    assert_eq!(guarded(&kept), kept);
    for shown in [whole, kept, clean(&text), visible(&text), printable(&text).into_owned()] {
        assert_eq!(printable(&shown), shown, "{text:?}");
        assert!(!shown.contains(['\x1b', '\r', '\u{9b}', '\u{202e}', '\u{200b}']), "{text:?}");
    }
    let lines = (visible_line(head), visible_line(tail));
    assert!(head == tail || lines.0 != lines.1, "{head:?} {tail:?}");
    let json = serde_json::to_string(&text).unwrap_or_default();
    assert_eq!(serde_json::from_str::<String>(&escape_json(&json)).ok(), Some(text));
});
