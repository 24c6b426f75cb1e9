//! Plants secrets and searches for them.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use super::{Ran, Random, Site, all, number};

/// A planted secret.
pub struct Canary {
    pub name: String,
    pub value: String,
    /// Byte sequences that must not occur anywhere.
    needles: Vec<Needle>,
}

type Needle = [u8; LENGTH];

/// Length in bytes of each sequence.
const LENGTH: usize = 12;

impl Canary {
    fn new(number: usize, random: &mut Random) -> Self {
        let (word, other) = (random.word(32), random.word(32));
        let value = match number % 4 {
            0 => word.clone(),
            1 => format!("p\"w\\{word}'/ä+"),
            2 => format!("-----BEGIN CANARY-----\n{word}\n{other}\n-----END CANARY-----"),
            _ => format!("a&b=?{word} %#"),
        };
        let mut needles = pieces(&word, 0);
        if value.contains(&other) {
            needles.extend(pieces(&other, 0));
        }
        // the ends of a base64 text depend on the text around it
        needles.extend(
            ["", "x", "xx"].iter().flat_map(|skip| pieces(&base64(&format!("{skip}{value}")), 8)),
        );
        Self { name: format!("CANARY_{number}"), value, needles }
    }
}

/// Overlapping pieces of a text without its ends.
fn pieces(text: &str, ends: usize) -> Vec<Needle> {
    let text = &text.as_bytes()[ends..text.len() - ends];
    text.windows(LENGTH).step_by(5).map(|piece| piece.try_into().unwrap()).collect()
}

pub fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut coded = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            coded.push(char::from(ALPHABET[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    coded
}

pub fn url(text: &str) -> String {
    text.bytes().fold(String::new(), |mut coded, byte| {
        if byte.is_ascii_alphanumeric() {
            coded.push(char::from(byte));
        } else {
            write!(coded, "%{byte:02X}").unwrap();
        }
        coded
    })
}

/// The searched places, and the findings.
pub struct Search {
    pub canaries: Vec<Canary>,
    pub places: Vec<&'static str>,
    pub texts: usize,
    pub bytes: usize,
    pub found: Vec<String>,
    /// Whether a needle begins with these two bytes; usually none does.
    begins: Vec<bool>,
    /// The canary that a needle belongs to.
    needles: HashMap<Needle, usize>,
}

impl Search {
    /// Plants as many canaries as `LEFTFOLD_CANARIES` says.
    pub fn begin() -> Self {
        let mut random = Random::seeded();
        let count = number("LEFTFOLD_CANARIES", 12).max(12);
        let canaries: Vec<_> = (0..count).map(|number| Canary::new(number, &mut random)).collect();
        let (mut begins, mut needles) = (vec![false; 1 << 16], HashMap::new());
        for (number, canary) in canaries.iter().enumerate() {
            for needle in &canary.needles {
                begins[two(needle)] = true;
                needles.insert(*needle, number);
            }
        }
        let (places, found) = (Vec::new(), Vec::new());
        Self { canaries, places, texts: 0, bytes: 0, found, begins, needles }
    }

    pub fn everything(&self) -> String {
        let values: Vec<&str> = self.canaries.iter().map(|canary| canary.value.as_str()).collect();
        values.join(" | ")
    }

    pub fn look(&mut self, place: &str, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.texts += 1;
        self.bytes += bytes.len();
        let mut seen = BTreeSet::new();
        for at in 0..bytes.len().saturating_sub(LENGTH - 1) {
            if self.begins[two(&bytes[at..])]
                && let Some(number) = self.needles.get(&bytes[at..at + LENGTH])
                && seen.insert(*number)
            {
                let around = &bytes[at.saturating_sub(40)..bytes.len().min(at + 60)];
                let around = String::from_utf8_lossy(around);
                self.found.push(format!("{} in {place}: …{around}…", self.canaries[*number].name));
            }
        }
    }

    pub fn look_at(&mut self, place: &str, ran: &Ran) {
        self.look(&format!("the output of {place}"), &ran.stdout);
        self.look(&format!("the errors of {place}"), &ran.stderr);
    }

    /// Searches every file in the home except the keys, and its name.
    pub fn look_below(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = path.display().to_string();
            self.look("a file's name", &name);
            if path.is_dir() {
                self.look_below(&path);
            } else if !name.ends_with("auth.json")
                && let Ok(bytes) = std::fs::read(&path)
            {
                self.look(&name, bytes);
            }
        }
    }

    /// Searches everything that commands print about the last session after its end.
    pub fn look_back(&mut self, site: &Site) {
        for args in [
            &["export", "last"][..],
            &["export", "last", "--unmasked"],
            &["replay", "last"],
            &["replay", "last", "--format", "json"],
            &["stats", "last"],
            &["stats", "last", "--format", "json"],
            &["sessions"],
            &["sessions", "--format", "json"],
            &["why", "last"],
            &["diff", "last", "last"],
            &["diff", "last"],
            &["diff", "last", "--format", "json"],
            &["check", "last"],
            &["verify", "last"],
            &["rerun", "last"],
        ] {
            let ran = site.run(args);
            self.look_at(&args.join(" "), &ran);
            if let "verify" | "rerun" | "check" | "export" = args[0] {
                ran.ok();
            }
        }
        for asked in all(&site.exported(), "model.requested").into_iter().step_by(6) {
            let seq = asked["seq"].to_string();
            for more in [&[][..], &["--format", "json"], &["--request"]] {
                let args = [&["explain", "last", &seq], more].concat();
                let ran = site.run(&args);
                self.look_at(&args.join(" "), &ran);
            }
        }
        self.look_below(&site.path("home"));
    }
}

fn two(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) << 8 | usize::from(bytes[1])
}
