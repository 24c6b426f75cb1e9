//! Content-addressed text: events carry the hash, stores and exports keep the contents beside them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest;

/// A SHA-256 digest, shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    pub fn digest(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 hex digits; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = u8::try_from(high << 4 | low).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::from_hex(&text).ok_or_else(|| {
                de::Error::custom(format!("`{text}` is not a SHA-256: expected 64 hex digits"))
            })
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Self)
        }
    }
}

/// Text with its hash. Only the hash is serialised, so code that decodes an event must
/// [`fill`](Payload::fill) the payload before folding. Until then `text` is empty.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload {
    sha256: Sha256,
    text: Arc<str>,
}

impl Payload {
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self { sha256: Sha256::digest(text.as_bytes()), text }
    }

    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Sets the contents. The caller has checked them against the hash.
    pub fn fill(&mut self, text: Arc<str>) {
        self.text = text;
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, {} bytes)", self.sha256, self.text.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.sha256.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sha256 = Sha256::deserialize(deserializer)?;
        Ok(Self { sha256, text: Arc::from("") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips() {
        let sha = Sha256::digest(b"abc");
        assert!(sha.to_string().starts_with("ba7816bf"));
        assert_eq!(Sha256::from_hex(&sha.to_string()), Some(sha));
        assert_eq!(Sha256::from_hex("ba78"), None);
        assert_eq!(Sha256::from_hex(&"é".repeat(32)), None);
    }

    #[test]
    fn serialises_as_its_hash() {
        let payload = Payload::new("abc");
        let json = serde_json::to_string(&payload).unwrap();
        let back: Payload = serde_json::from_str(&json).unwrap();
        assert_eq!(back.sha256(), payload.sha256());
        assert_eq!(&**back.text(), "");
    }
}
