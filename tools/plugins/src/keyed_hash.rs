//! Keyed hashes: they show whether two values are equal and nothing else. The key is random for
//! each process, so nobody can find a value by trying candidates.

use std::io::Read;
use std::sync::LazyLock;

use leftfold_events::Sha256;

const BLOCK: usize = 64;

static KEY: LazyLock<[u8; 32]> = LazyLock::new(|| {
    let mut key = [0; 32];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut key));
    if let Err(error) = random {
        tracing::warn!("no random key for the hashes of headers and variables: {error}");
        let hasher = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8);
        key[..8].copy_from_slice(&hasher.to_le_bytes());
    }
    key
});

/// The first half of the value's HMAC-SHA-256.
pub(super) fn hash(value: &str) -> String {
    let whole = hmac(&*KEY, value.as_bytes()).to_string();
    format!("hmac-sha256:{}", &whole[..32])
}

fn hmac(key: &[u8], message: &[u8]) -> Sha256 {
    let pad = |byte: u8| {
        let mut pad = [byte; BLOCK];
        pad.iter_mut().zip(key).for_each(|(pad, key)| *pad ^= key);
        pad.to_vec()
    };
    let inner = Sha256::digest(&[pad(0x36), message.to_vec()].concat());
    Sha256::digest(&[pad(0x5c), inner.as_bytes().to_vec()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn it_is_hmac() {
        let hash = hmac(b"Jefe", b"what do ya want for nothing?").to_string();
        assert_eq!(hash, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn the_same_value_has_the_same_hash_and_none_has_its_own() {
        assert_eq!(hash("a"), hash("a"));
        assert_ne!(hash("a"), hash("b"));
        assert!(hash("secret").starts_with("hmac-sha256:") && hash("").len() == 44);
    }
}
