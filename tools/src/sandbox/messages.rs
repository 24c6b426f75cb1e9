//! The texts of errors in the language of commands: read from the C library's catalog of the user's locale, as programs do.
//! Nothing here changes a locale.

use std::ffi::OsStr;
use std::path::Path;

/// Folders of catalogs.
const FOLDERS: &[&str] =
    &["/usr/share/locale", "/usr/share/locale-langpack", "/usr/local/share/locale"];

/// The largest catalog that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// The translations of texts in the user's locale, each with the index of its text. None if there is no catalog for the
/// locale, as for English.
pub(super) fn translations(texts: &[&str]) -> Vec<(usize, String)> {
    let languages = languages(|name| std::env::var_os(name));
    let files = languages.iter().flat_map(|language| {
        FOLDERS
            .iter()
            .map(move |folder| Path::new(folder).join(language).join("LC_MESSAGES/libc.mo"))
    });
    let catalog =
        files.into_iter().find_map(|file| leftfold_files::read(&file, None, MAX_BYTES).ok());
    catalog.map(|catalog| translated(&catalog, texts)).unwrap_or_default()
}

/// The names of catalogs' folders for the user's variables, the best first: `LANGUAGE`, then the locale with less and less of
/// its parts.
fn languages<T: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<T>) -> Vec<String> {
    let value = |name: &str| {
        let value = variable(name)?.as_ref().to_str()?.to_owned();
        (!value.is_empty()).then_some(value)
    };
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(value);
    let Some(locale) = locale.filter(|name| !is_plain(name)) else { return Vec::new() };
    let listed = value("LANGUAGE").unwrap_or_default();
    let names = listed.split(':').filter(|name| !name.is_empty()).chain([locale.as_str()]);
    let mut found = Vec::new();
    for name in names.filter(|name| !name.contains('/')) {
        if is_plain(name) || name.starts_with("en") {
            break;
        }
        let (name, modifier) = name.split_once('@').unwrap_or((name, ""));
        let name = name.split('.').next().unwrap_or_default();
        let language = name.split('_').next().unwrap_or_default();
        for part in [name, language] {
            if !modifier.is_empty() {
                found.push(format!("{part}@{modifier}"));
            }
            found.push(part.to_owned());
        }
    }
    found.dedup();
    found
}

/// Whether the locale is that of the standard, whose texts are English.
fn is_plain(name: &str) -> bool {
    let name = name.split('.').next().unwrap_or_default();
    matches!(name, "C" | "POSIX")
}

/// Looks texts up in a catalog of `gettext` (a `.mo` file). Texts that are missing or not UTF-8 are left out.
fn translated(catalog: &[u8], texts: &[&str]) -> Vec<(usize, String)> {
    let is_big = match catalog.get(..4) {
        Some([0xde, 0x12, 0x04, 0x95]) => false,
        Some([0x95, 0x04, 0x12, 0xde]) => true,
        Some(_) | None => return Vec::new(),
    };
    let number = |at: usize| {
        let bytes = catalog.get(at..at.checked_add(4)?)?.try_into().ok()?;
        let number = if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        usize::try_from(number).ok()
    };
    // a table has a length and an offset for each text
    let text = |table: usize, index: usize| {
        let entry = table.checked_add(index.checked_mul(8)?)?;
        let (length, start) = (number(entry)?, number(entry.checked_add(4)?)?);
        std::str::from_utf8(catalog.get(start..start.checked_add(length)?)?).ok()
    };
    let (Some(count), Some(originals), Some(others)) = (number(8), number(12), number(16)) else {
        return Vec::new();
    };
    // no more than the file can hold
    let indices = 0..count.min(catalog.len() / 8);
    let found = indices.filter_map(|index| {
        let original = text(originals, index)?;
        let place = texts.iter().position(|wanted| *wanted == original)?;
        Some((place, text(others, index)?.to_owned()))
    });
    found.filter(|(_, text)| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_locale_decides_which_catalogs_are_looked_for() {
        type Variables<'a> = &'a [(&'a str, &'a str)];
        let table: [(Variables<'_>, &[&str]); 10] = [
            (&[], &[]),
            (&[("LANG", "C.UTF-8")], &[]),
            (&[("LANG", "en_GB.UTF-8")], &[]),
            (&[("LANG", "de_DE.UTF-8")], &["de_DE", "de"]),
            (&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "fr_FR")], &["fr_FR", "fr"]),
            (&[("LANG", "de_DE"), ("LC_MESSAGES", "C")], &[]),
            (&[("LANG", "C"), ("LANGUAGE", "de")], &[]),
            (&[("LANG", "de_DE"), ("LANGUAGE", "sv:fr_FR")], &["sv", "fr_FR", "fr", "de_DE", "de"]),
            (&[("LANG", "sr_RS.UTF-8@latin")], &["sr_RS@latin", "sr_RS", "sr@latin", "sr"]),
            (&[("LANG", "../../x")], &[]),
        ];
        for (variables, expected) in table {
            let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
            let found = languages(|name| variables.get(name).copied());
            assert_eq!(found, expected, "{variables:?}");
        }
    }

    /// A catalog with these texts, as `msgfmt` writes it.
    fn catalog(texts: &[(&str, &str)], number: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let count = texts.len();
        let (originals, others) = (28, 28 + 8 * count);
        let mut start = others + 8 * count;
        let (mut tables, mut strings) = (Vec::new(), Vec::new());
        for list in
            [texts.iter().map(|it| it.0).collect::<Vec<_>>(), texts.iter().map(|it| it.1).collect()]
        {
            for text in list {
                tables.extend([text.len(), start].map(|it| number(it.try_into().unwrap())));
                start += text.len() + 1;
                strings.extend(text.bytes().chain([0]));
            }
        }
        let head = [0x9504_12de, 0, count, originals, others, 0, 0];
        let head = head.map(|it| number(it.try_into().unwrap()));
        [head.concat(), tables.concat(), strings].concat()
    }

    #[test]
    fn texts_are_found_in_a_catalog() {
        let texts = [("", "Content-Type: text/plain"), ("a", "Ä"), ("b", ""), ("c", "see")];
        let expected = [(0, "see".to_owned()), (1, "Ä".to_owned())];
        for number in [u32::to_le_bytes, u32::to_be_bytes] {
            let whole = catalog(&texts, number);
            let mut found = translated(&whole, &["c", "a", "b", "d"]);
            found.sort();
            assert_eq!(found, expected);
            // a damaged file costs nothing but its texts
            for end in 0..whole.len() {
                translated(&whole[..end], &["c", "a"]);
            }
            for at in 0..whole.len() {
                let mut broken = whole.clone();
                broken[at] = 0xff;
                translated(&broken, &["c", "a"]);
            }
        }
    }
}
