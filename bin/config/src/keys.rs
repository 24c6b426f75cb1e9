//! The keys of the conversation: what each does, which it has by default, and which settings give it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Error, in_quotes};
use crate::typed::At;

/// Declares the actions once: as an enum, and as the members of `terminal.keys`.
macro_rules! actions {
    ($($variant:ident $name:ident $place:ident [$($key:literal),+] $about:literal)*) => {
        /// The effect of a key in the conversation. Actions from [`KeyAction::RowUp`] on edit the text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum KeyAction {
            $(#[doc = $about] $variant,)*
        }

        impl KeyAction {
            /// In the order of the help.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in settings.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)*
                }
            }

            /// Its effect in words, for people.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)*
                }
            }

            fn place(self) -> KeyContext {
                match self {
                    $(Self::$variant => KeyContext::$place,)*
                }
            }

            /// The keys without settings.
            pub fn defaults(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => &[$($key),+],)*
                }
            }
        }

        /// Keys of the conversation, such as `"ctrl+g"`. They replace the default ones of the action; `"none"` or an
        /// empty list: it has no key.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
        #[serde(default)]
        #[schemars(inline)]
        pub struct KeySettings {
            $(#[doc = $about] $name: Option<At<Keys>>,)*
        }

        impl KeySettings {
            /// The actions whose keys are set.
            fn entries(&self) -> Vec<(KeyAction, &At<Keys>)> {
                let all = [$((KeyAction::$variant, self.$name.as_ref())),*];
                all.into_iter().filter_map(|(action, keys)| Some((action, keys?))).collect()
            }
        }
    };
}

actions! {
    Send send Always ["enter"] "send the prompt; while a turn is running, queue it"
    Newline newline Always ["alt+enter", "shift+enter", "ctrl+enter", "ctrl+j"] "start a new line"
    Interrupt interrupt Always ["esc"]
        "take back the last queued prompt; interrupt the turn; twice on an empty line: go back to an earlier prompt"
    Cancel cancel Always ["ctrl+c"] "clear the text; interrupt the turn; leave"
    Leave leave Empty ["ctrl+d"] "leave, on an empty line"
    NextAgent next_agent Empty ["tab"] "choose the next agent, on an empty line"
    NextMode next_mode Always ["shift+tab"] "choose the next way to treat permission questions"
    PreviousPrompt previous_prompt Always ["ctrl+p"] "recall queued and earlier prompts"
    NextPrompt next_prompt Always ["ctrl+n"] "recall later prompts"
    SearchPrompts search_prompts Always ["ctrl+r"] "search earlier prompts"
    Editor editor Always ["ctrl+g"] "write the prompt in $VISUAL or $EDITOR"
    PasteImage paste_image Always ["ctrl+v"] "attach the image of the clipboard"
    Expand expand Always ["ctrl+o"] "show whole what was folded; again: what was folded before"
    Redraw redraw Always ["ctrl+l"] "draw the screen again"
    Suspend suspend Always ["ctrl+z"] "suspend"
    RowUp row_up Always ["up"] "row above; in the first one: queued and earlier prompts"
    RowDown row_down Always ["down"] "row below; in the last one: later prompts"
    Left left Always ["left", "ctrl+b"] "left"
    Right right Always ["right", "ctrl+f"] "right"
    WordLeft word_left Always ["alt+b", "ctrl+left", "alt+left"] "word left"
    WordRight word_right Always ["alt+f", "ctrl+right", "alt+right"] "word right"
    LineStart line_start Always ["home", "ctrl+a"] "start of the line"
    LineEnd line_end Always ["end", "ctrl+e"] "end of the line"
    TextStart text_start Always ["ctrl+home", "alt+<"] "start of the text"
    TextEnd text_end Always ["ctrl+end", "alt+>"] "end of the text"
    DeleteLeft delete_left Always ["backspace", "ctrl+h"] "delete left"
    DeleteRight delete_right Text ["delete", "ctrl+d"] "delete right"
    DeleteWordLeft delete_word_left Always ["alt+backspace", "ctrl+backspace"] "cut the word before"
    DeleteWordRight delete_word_right Always ["alt+d", "ctrl+delete", "alt+delete"] "cut the word behind"
    DeleteToBlank delete_to_blank Always ["ctrl+w"] "cut back to a blank"
    DeleteToStart delete_to_start Always ["ctrl+u"] "cut to the start of the line"
    DeleteToEnd delete_to_end Always ["ctrl+k"] "cut to the end of the line"
    Yank yank Always ["ctrl+y"] "insert what was cut"
    Transpose transpose Always ["ctrl+t"] "swap two characters"
    Undo undo Always ["ctrl+_", "ctrl+7", "ctrl+/"] "undo"
}

impl KeyAction {
    /// Whether it edits the text, as in other programs.
    pub fn edits(self) -> bool {
        self >= Self::RowUp
    }
}

/// The text at which a key has its action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyContext {
    Always,
    /// On an empty line.
    Empty,
    /// If something is written.
    Text,
}

impl KeyContext {
    fn overlaps(self, other: Self) -> bool {
        self == other || self == Self::Always || other == Self::Always
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@a key such as \"ctrl+g\", a list of keys, or \"none\"")]
#[schemars(untagged, inline)]
enum Keys {
    #[serde(rename = "a string")]
    One(At<String>),
    #[serde(rename = "a list")]
    Many(Vec<At<String>>),
}

impl Keys {
    fn texts(&self) -> &[At<String>] {
        match self {
            Self::One(text) if text.trim() == "none" => &[],
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

/// A key with its modifiers. Its text is that of settings, such as `ctrl+g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub code: KeyName,
    pub control: bool,
    pub alt: bool,
    pub shift: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyName {
    /// In lower case.
    Char(char),
    /// F1 and so on.
    Function(u8),
    Enter,
    Tab,
    Esc,
    Backspace,
    Delete,
    Insert,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

/// Keys without a character. The first name of each is the one to print.
const NAMES: [(KeyName, &[&str]); 14] = [
    (KeyName::Enter, &["enter", "return"]),
    (KeyName::Tab, &["tab"]),
    (KeyName::Esc, &["esc", "escape"]),
    (KeyName::Backspace, &["backspace"]),
    (KeyName::Delete, &["delete", "del"]),
    (KeyName::Insert, &["insert", "ins"]),
    (KeyName::Up, &["up"]),
    (KeyName::Down, &["down"]),
    (KeyName::Left, &["left"]),
    (KeyName::Right, &["right"]),
    (KeyName::Home, &["home"]),
    (KeyName::End, &["end"]),
    (KeyName::PageUp, &["pageup", "pgup"]),
    (KeyName::PageDown, &["pagedown", "pgdn"]),
];

/// The expected form, for a text that names no usable key.
const ANY: &str = "a key such as \"ctrl+g\", \"alt+enter\" or \"f5\"";
/// Most terminals send the same for two keys.
const SAME: [(char, &str); 3] = [
    ('i', "\"tab\", because most terminals send the same for both"),
    ('m', "\"enter\", because most terminals send the same for both"),
    ('[', "\"esc\", because most terminals send the same for both"),
];

impl FromStr for Key {
    /// The expected form.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().to_lowercase();
        // the key `+` itself
        let (modifiers, name) = match text.strip_suffix("++") {
            Some(modifiers) => (modifiers, "+"),
            None => text.rsplit_once('+').unwrap_or(("", &text)),
        };
        let (mut control, mut alt, mut shift) = (false, false, false);
        for modifier in modifiers.split('+').filter(|modifier| !modifier.is_empty()) {
            match modifier {
                "ctrl" | "control" => control = true,
                "alt" | "meta" | "option" => alt = true,
                "shift" => shift = true,
                _ => return Err(ANY),
            }
        }
        let named = NAMES.iter().find(|(_, names)| names.contains(&name));
        let function = || name.strip_prefix('f')?.parse().ok().filter(|n| (1..=12).contains(n));
        let mut chars = name.chars();
        let code = match (named, chars.next(), chars.next()) {
            (Some((code, _)), ..) => *code,
            (None, Some(only), None) => KeyName::Char(only),
            (None, ..) if name == "space" => KeyName::Char(' '),
            (None, ..) => KeyName::Function(function().ok_or(ANY)?),
        };
        if let KeyName::Char(c) = code {
            if shift {
                return Err("a key without \"shift\", which terminals do not tell of characters");
            }
            if !control && !alt {
                return Err("a key that types nothing, such as \"ctrl+g\"");
            }
            if let Some((_, instead)) = SAME.iter().find(|(same, _)| control && *same == c) {
                return Err(instead);
            }
        }
        Ok(Self { code, control, alt, shift })
    }
}

impl Key {
    fn parts(self) -> (Vec<&'static str>, String) {
        let all = [(self.control, "ctrl"), (self.alt, "alt"), (self.shift, "shift")];
        let modifiers = all.into_iter().filter_map(|(is, name)| is.then_some(name)).collect();
        let named = NAMES.iter().find(|(known, _)| *known == self.code);
        let name = if let Some((_, names)) = named {
            names.first().copied().unwrap_or_default().to_owned()
        } else if let KeyName::Function(n) = self.code {
            format!("f{n}")
        } else if let KeyName::Char(c) = self.code {
            if c == ' ' { "space".to_owned() } else { c.to_string() }
        } else {
            String::new()
        };
        (modifiers, name)
    }

    /// As people write it: `Ctrl-G`.
    pub fn label(self) -> String {
        let (modifiers, name) = self.parts();
        let capital = |word: &str| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_uppercase().chain(chars).collect::<String>())
        };
        let words = modifiers.into_iter().chain([name.as_str()]).filter_map(capital);
        words.collect::<Vec<_>>().join("-")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (modifiers, name) = self.parts();
        modifiers.iter().try_for_each(|modifier| write!(f, "{modifier}+"))?;
        f.write_str(&name)
    }
}

/// The keys of all actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap(Vec<(KeyAction, Vec<Key>)>);

impl Default for Keymap {
    fn default() -> Self {
        let keys = |action: &KeyAction| {
            action.defaults().iter().filter_map(|text| text.parse().ok()).collect()
        };
        Self(KeyAction::ALL.iter().map(|action| (*action, keys(action))).collect())
    }
}

impl Keymap {
    /// The action of a key, if it has one where the text is empty or is not. A key with `shift` that has none is as
    /// without it.
    pub fn action(&self, key: Key, is_empty: bool) -> Option<KeyAction> {
        let here = if is_empty { KeyContext::Empty } else { KeyContext::Text };
        let of = |key: Key| {
            let mut all = self.0.iter();
            all.find(|(action, keys)| action.place().overlaps(here) && keys.contains(&key))
        };
        let found = of(key).or_else(|| key.shift.then(|| of(Key { shift: false, ..key }))?);
        found.map(|(action, _)| *action)
    }

    pub fn keys(&self, action: KeyAction) -> &[Key] {
        let found = self.0.iter().find(|(other, _)| *other == action);
        found.map(|(_, keys)| keys.as_slice()).unwrap_or_default()
    }
}

impl KeySettings {
    /// The keys of all actions. A key that settings give to an action is taken from the one that has it by default.
    /// Also answers warnings about actions that have no key left.
    ///
    /// # Errors
    /// A text names no usable key, two actions are given the same key, or nothing sends a prompt.
    pub fn keymap(&self) -> Result<(Keymap, Vec<String>), Error> {
        let mut given: Vec<(KeyAction, Key, &At<String>)> = Vec::new();
        for (action, keys) in self.entries() {
            for text in keys.texts() {
                let parsed = text.parse::<Key>();
                let key = parsed.map_err(|expected| text.wrong(expected, &in_quotes(text)))?;
                let other = given.iter().find(|(other, taken, _)| {
                    *other != action && *taken == key && other.place().overlaps(action.place())
                });
                if let Some((other, _, taken)) = other {
                    let place = taken.place();
                    let found = format!("\"{key}\", which `{}` has too ({place})", other.name());
                    return Err(text.wrong("a key of no other action", &found));
                }
                given.push((action, key, text));
            }
        }
        let mut warnings = Vec::new();
        let mut map = Keymap::default();
        for (action, keys) in &mut map.0 {
            let own = self.entries().into_iter().find(|(other, _)| other == action);
            if let Some((_, set)) = own {
                *keys =
                    given.iter().filter(|(of, ..)| of == action).map(|(_, key, _)| *key).collect();
                if keys.is_empty() && *action == KeyAction::Send {
                    return Err(set.wrong("a key, because nothing else sends a prompt", "none"));
                }
                continue;
            }
            let mut taken = None;
            keys.retain(|key| {
                let by = given.iter().find(|(other, given, _)| {
                    given == key && other.place().overlaps(action.place())
                });
                taken = by.or(taken);
                by.is_none()
            });
            let Some((other, key, text)) = taken.filter(|_| keys.is_empty()) else { continue };
            if *action == KeyAction::Send {
                let found = format!("\"{key}\", the only key of `send`");
                return Err(text.wrong("another key, or one more for `terminal.keys.send`", &found));
            }
            warnings.push(format!(
                "{}: {key} is the key of `{}` now, so `{}` has none",
                text.place(),
                other.name(),
                action.name()
            ));
        }
        Ok((map, warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_key_has_one_action_in_each_place() {
        let map = Keymap::default();
        for action in KeyAction::ALL {
            assert_eq!(map.keys(*action).len(), action.defaults().len(), "{}", action.name());
            for (text, key) in action.defaults().iter().zip(map.keys(*action)) {
                assert_eq!(key.to_string(), *text);
                let places = [true, false].map(|is_empty| map.action(*key, is_empty));
                let expected = match action.place() {
                    KeyContext::Always => [Some(*action); 2],
                    KeyContext::Empty => [Some(*action), places[1]],
                    KeyContext::Text => [places[0], Some(*action)],
                };
                assert_eq!(places, expected, "{text}");
            }
        }
    }

    #[test]
    fn keys_are_read_and_written() {
        for (text, written, label) in [
            ("Ctrl+G", "ctrl+g", "Ctrl-G"),
            ("alt+ctrl+x", "ctrl+alt+x", "Ctrl-Alt-X"),
            ("shift+F5", "shift+f5", "Shift-F5"),
            ("escape", "esc", "Esc"),
            ("ctrl+space", "ctrl+space", "Ctrl-Space"),
            ("alt++", "alt++", "Alt-+"),
            ("pgup", "pageup", "Pageup"),
        ] {
            let key: Key = text.parse().unwrap();
            assert_eq!((key.to_string().as_str(), key.label().as_str()), (written, label));
            assert_eq!(written.parse(), Ok(key));
        }
        for wrong in
            ["", "+", "ctrl+", "g", "shift+g", "hyper+g", "ctrl+foo", "f13", "<leader>s", "ctrl+i"]
        {
            assert!(wrong.parse::<Key>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_documentation_lists_every_action_with_its_keys() {
        let docs = include_str!("../../../docs/settings.md");
        for action in KeyAction::ALL {
            let keys: Vec<String> =
                action.defaults().iter().map(|key| format!("`{key}`")).collect();
            let row = format!("| `{}` | {} | {} |", action.name(), keys.join(", "), action.about());
            assert!(docs.contains(&row), "docs/settings.md lacks the row:\n{row}");
        }
    }
}
