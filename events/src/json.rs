//! JSON of arbitrary shape (tool arguments, schemas, options), stored as text.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// A JSON value as compact text, which clones share. In JSON output it is the value itself. In the log it is a string,
/// because the log's binary form cannot decode values of unknown shape.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Parses any JSON text and stores its compact form. Keys keep their order.
    ///
    /// # Errors
    /// serde_json's error for malformed text, with line and column.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Value>(text).map(|value| Self::from_value(&value))
    }

    pub fn from_value(value: &Value) -> Self {
        Self(value.to_string().into())
    }

    /// The value; `null` if the text is damaged, which no constructor allows.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    pub fn object() -> Self {
        Self("{}".into())
    }
}

impl Default for Json {
    fn default() -> Self {
        Self("null".into())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.value().serialize(serializer)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Value::deserialize(deserializer).map(|value| Self::from_value(&value))
        } else {
            let text = shared_text(deserializer)?;
            // it was compact when it was written, so a syntax check is enough; a log has many
            match serde_json::from_str::<de::IgnoredAny>(&text) {
                Ok(_) => Ok(Self(text)),
                Err(e) => Err(de::Error::custom(format!("not JSON: {e}"))),
            }
        }
    }
}

/// Reads a text without a copy in between.
pub(crate) fn shared_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<str>, D::Error> {
    struct Text;
    impl de::Visitor<'_> for Text {
        type Value = Arc<str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Arc<str>, E> {
            Ok(text.into())
        }
    }
    deserializer.deserialize_str(Text)
}

/// Merges `over` into `base`: objects recursively, everything else is replaced; `null` removes a
/// field.
pub fn merge(base: &mut Value, over: &Value) {
    let (Value::Object(base), Value::Object(over)) = (base, over) else { return };
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (_, Value::Null) => drop(base.shift_remove(key)),
            (Some(known @ Value::Object(_)), Value::Object(_)) => merge(known, value),
            (_, value) => drop(base.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_key_order_and_is_compact() {
        let json = Json::parse("{ \"b\": 1, \"a\": [1.0, 2] }").unwrap();
        assert_eq!(json.as_str(), r#"{"b":1,"a":[1.0,2]}"#);
        assert_eq!(Json::from_value(&json.value()), json);
    }
}
