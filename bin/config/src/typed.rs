//! A tree read into Rust types by serde. Each error has the place and the path of the value that is wrong.
//!
//! A type can get more than serde gives it:
//! - [`At`] also has the value's place, and its variables that are not set.
//! - An enum whose serde name begins with `@` has a variant for each kind of value (`a string`, `an object`,
//!   `false`, …). The rest of its name says what is expected.
//! - A struct takes the keys that it has no field for into a field called [`REST`]. Without that field, such a
//!   key is an error in Leftfold's own files, and left out of others.
//!
//! It knows nothing of particular settings.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Hint, alternatives, in_quotes, is_slip};
use crate::source::SettingPlace;
use crate::tree::{Node, Tree, below};

/// The serde name of a field for keys that have none.
const REST: &str = "@rest";
const AT: &str = "@at";

/// A key that is left out, and its path.
pub(crate) type LeftOutKey = (SettingPlace, String);

/// Reads a tree, and answers the keys that were left out.
pub(crate) fn read<T: DeserializeOwned>(root: &Node) -> Result<(T, Vec<LeftOutKey>), Error> {
    let strangers = RefCell::default();
    let view = View { node: root, key_at: &root.at, path: String::new(), strangers: &strangers };
    let value = T::deserialize(view.clone()).map_err(|fault| view.settle(fault))?;
    Ok((value, strangers.into_inner()))
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename = "@at")]
pub struct At<T> {
    value: T,
    here: SourcePlace,
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SourcePlace {
    place: SettingPlace,
    key_place: SettingPlace,
    path: String,
    /// The kind of the value, in words.
    kind: String,
    unset: Vec<String>,
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> At<T> {
    pub fn place(&self) -> &SettingPlace {
        &self.here.place
    }

    /// The place of its key; for an object, in the last source that sets a part of it.
    pub fn key_place(&self) -> &SettingPlace {
        &self.here.key_place
    }

    /// The variables that the value refers to and that are not set.
    pub fn unset_variables(&self) -> &[String] {
        &self.here.unset
    }

    /// An error for each of [`unset_variables`](Self::unset_variables).
    pub fn unset(&self) -> impl Iterator<Item = Error> {
        let unset = |variable| Error::unset(&self.here.place, &self.here.path, variable);
        self.here.unset.iter().map(move |variable| unset(variable))
    }

    pub(crate) fn wrong(&self, expected: &str, found: &str) -> Error {
        Error::wrong(&self.here.place, &self.here.path, expected, found)
    }

    /// Rejects a key of Leftfold's own files that is one typing mistake away from one of `known`,
    /// in places that accept any key.
    pub(crate) fn no_slip_of(&self, key: &str, known: &[&str]) -> Result<(), Error> {
        let is_meant = |known: &&&str| self.here.key_place.source.own && is_slip(key, known);
        let Some(right) = known.iter().find(is_meant) else { return Ok(()) };
        let (place, key) = (self.here.key_place.clone(), self.here.path.clone());
        Err(Error::UnknownKey { place, key, hint: Hint::exactly(right) })
    }
}

impl At<Value> {
    /// The text of a string; "" for anything else.
    pub(crate) fn text(&self) -> &str {
        self.value.as_str().unwrap_or_default()
    }

    /// Rejects all names except these.
    pub(crate) fn one_of(&self, names: &[&str]) -> Result<(), Error> {
        match self.value.as_str() {
            Some(text) => one_of(&self.here, text, names),
            None => Err(self.wrong(&alternatives(names), &self.here.kind)),
        }
    }

    /// Rejects anything but a string.
    pub(crate) fn is_text(&self) -> Result<(), Error> {
        match self.value.is_string() {
            true => Ok(()),
            false => Err(self.wrong("a string", &self.here.kind)),
        }
    }
}

impl AsRef<str> for At<String> {
    fn as_ref(&self) -> &str {
        &self.value
    }
}

/// Rejects all texts except these names; the text is known not to be a secret.
fn one_of(here: &SourcePlace, text: &str, names: &[&str]) -> Result<(), Error> {
    if names.contains(&text) {
        return Ok(());
    }
    if let Some(variable) = here.unset.first() {
        return Err(Error::unset(&here.place, &here.path, variable));
    }
    let mut error = Error::wrong(&here.place, &here.path, alternatives(names), in_quotes(text));
    if let Error::Wrong { hint, .. } = &mut error {
        *hint = Hint::only_near(text, names);
    }
    Err(error)
}

/// A setting of OpenCode that is accepted and has no effect.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(inline, bound = "T: JsonSchema", extend("deprecated" = true))]
pub struct Idle<T>(#[schemars(with = "T")] PhantomData<T>);

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Idle<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|_| Self::default())
    }
}

/// A string; an empty one, for example from a variable that is not set, counts as absent.
pub(crate) fn filled<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + AsRef<str>,
{
    T::deserialize(deserializer).map(|text| Some(text).filter(|t| !t.as_ref().trim().is_empty()))
}

/// `PROVIDER/MODEL`; the model's own name may have slashes in it.
pub(crate) fn model_name<'de, D>(deserializer: D) -> Result<Option<At<String>>, D::Error>
where
    D: Deserializer<'de>,
{
    let Some(name) = filled::<D, At<String>>(deserializer)? else { return Ok(None) };
    match name.split_once('/') {
        Some((provider, id)) if !provider.is_empty() && !id.is_empty() => Ok(Some(name)),
        Some(_) | None => {
            Err(D::Error::invalid_value(Unexpected::Str(&name), &"\"PROVIDER/MODEL\""))
        }
    }
}

/// A whole number above 0.
pub(crate) fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    NonZeroU64::deserialize(deserializer).map(NonZeroU64::get)
}

/// A number that is not negative.
pub(crate) fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number < 0.0 {
        return Err(D::Error::custom(AMOUNT));
    }
    Ok(Some(number))
}

pub(crate) const AMOUNT: &str = "a number that is not negative";

/// An error of serde or of a type, which gets its place once the value is known.
#[derive(Debug)]
enum UnplacedError {
    Placed(Box<Error>),
    Expected { expected: String, found: Option<String> },
}

impl Display for UnplacedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed(error) => error.fmt(f),
            Self::Expected { expected, .. } => write!(f, "expected {expected}"),
        }
    }
}

impl std::error::Error for UnplacedError {}

impl de::Error for UnplacedError {
    /// The text says what was expected.
    fn custom<T: Display>(expected: T) -> Self {
        Self::Expected { expected: in_words(&expected.to_string()), found: None }
    }

    /// The value may be a secret, so it is not printed.
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(expected)
    }

    /// Types that report a string this way are certain that it is not a secret.
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = in_words(&expected.to_string());
        let found = if let Unexpected::Str(text) = found {
            Some(in_quotes(text))
        } else if let Unexpected::Other(found) = found {
            Some(found.to_owned())
        } else {
            None
        };
        Self::Expected { expected, found }
    }
}

/// Replaces serde's names of Rust types with words for people who write settings.
fn in_words(expected: &str) -> String {
    match expected {
        "u64" => "a whole number that is not negative".to_owned(),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "a nonzero u16" => format!("a whole number from 1 to {}", u16::MAX),
        "a nonzero u32" => format!("a whole number from 1 to {}", u32::MAX),
        "a nonzero u64" => "a whole number above 0".to_owned(),
        "f64" => AMOUNT.to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        _ => expected.to_owned(),
    }
}

/// A value with the path of keys that leads to it.
#[derive(Clone)]
struct View<'a> {
    node: &'a Node,
    /// The place of its key, if it has one; errors about the key are reported there.
    key_at: &'a SettingPlace,
    path: String,
    strangers: &'a RefCell<Vec<LeftOutKey>>,
}

impl<'a> View<'a> {
    fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> {
        self.node.entries().iter().map(|entry| {
            let path = below(&self.path, &entry.key);
            let view = Self { node: &entry.node, key_at: &entry.at, path, ..self.clone() };
            (entry.key.as_str(), view)
        })
    }

    /// Adds place and path to an error that has none. Of the value it names only the type, because
    /// the value may be a secret.
    fn settle(&self, fault: UnplacedError) -> Error {
        match fault {
            UnplacedError::Placed(error) => *error,
            UnplacedError::Expected { expected, found } => {
                let found = found.as_deref().unwrap_or(self.kind());
                Error::wrong(&self.node.at, &self.path, expected, found)
            }
        }
    }

    fn kind(&self) -> &'static str {
        match &self.node.tree {
            Tree::Null => "null",
            Tree::Bool(_) => "a boolean",
            Tree::Number(number) if number.as_f64().is_some_and(|n| n < 0.0) => "a negative number",
            Tree::Number(_) if self.whole() == Some(0) => "0",
            Tree::Number(_) if self.whole().is_none() => "a number that is not whole",
            Tree::Number(_) => "a number",
            Tree::Text(_) => "a string",
            Tree::List(_) => "a list",
            Tree::Map(_) => "an object",
        }
    }

    fn whole(&self) -> Option<u64> {
        // The largest whole number that a float represents exactly, together with its neighbours.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let Tree::Number(number) = &self.node.tree else { return None };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        let from_float =
            |n: f64| ((0.0..=EXACT).contains(&n) && n.fract() == 0.0).then_some(n as u64);
        number.as_u64().or_else(|| number.as_f64().and_then(from_float))
    }

    fn here(&self) -> SourcePlace {
        let mut unset = Vec::new();
        if let Tree::Text(text) = &self.node.tree {
            unset.extend(text.unset().map(str::to_owned));
        }
        let (place, key_place) = (self.node.at.clone(), self.key_at.clone());
        SourcePlace {
            place,
            key_place,
            path: self.path.clone(),
            kind: self.kind().to_owned(),
            unset,
        }
    }
}

impl<'de> Deserializer<'de> for View<'_> {
    type Error = UnplacedError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnplacedError> {
        match &self.node.tree {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            },
            Tree::Text(text) => visitor.visit_str(&text.value),
            Tree::List(items) => visitor.visit_seq(Items { list: &self, at: 0, items }),
            Tree::Map(_) => visitor.visit_map(Entries::new(self.entries())),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnplacedError> {
        match self.whole() {
            Some(whole) => visitor.visit_u64(whole),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnplacedError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnplacedError> {
        self.deserialize_u64(visitor)
    }

    /// A key with the value `null` counts as absent.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnplacedError> {
        visitor.visit_some(self)
    }

    /// serde_json's map would accept `null` as an empty map.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, UnplacedError> {
        if !self.node.is_map() {
            return Err(UnplacedError::custom("an object"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, UnplacedError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, UnplacedError> {
        if name == AT {
            let here = serde_json::to_value(self.here()).map_err(UnplacedError::custom)?;
            let parts = [("value", Item::Value(self)), ("here", Item::Here(here))];
            return visitor.visit_map(Entries::of(parts.into()));
        }
        if !self.node.is_map() {
            return Err(UnplacedError::custom("an object"));
        }
        let (known, unknown): (Vec<_>, Vec<_>) =
            self.entries().partition(|(key, _)| fields.contains(key));
        let known = known.into_iter();
        if fields.contains(&REST) {
            let rest = (REST, Item::Rest(unknown));
            let known = known.map(|(key, view)| (key, Item::Value(view)));
            return visitor.visit_map(Entries::of(known.chain([rest]).collect()));
        }
        for (key, View { key_at, path, .. }) in unknown {
            let place = key_at.clone();
            if place.source.own {
                let hint = Hint::toward(key, fields);
                return Err(Error::UnknownKey { place, key: path, hint }.into());
            }
            self.strangers.borrow_mut().push((place, path));
        }
        visitor.visit_map(Entries::new(known))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, UnplacedError> {
        if let Some(expected) = name.strip_prefix('@') {
            let kinds = match &self.node.tree {
                Tree::Bool(false) => ["false", "a boolean"],
                Tree::Number(_) => ["a number"; 2],
                Tree::Null | Tree::Bool(true) | Tree::Text(_) | Tree::List(_) | Tree::Map(_) => {
                    [self.kind(); 2]
                }
            };
            let Some(kind) = kinds.into_iter().find(|kind| variants.contains(kind)) else {
                return Err(UnplacedError::custom(expected));
            };
            let variant = Entries::of(vec![(kind, Item::Value(self))]);
            return visitor.visit_enum(MapAccessDeserializer::new(variant));
        }
        let Some(text) = self.node.text() else {
            return Err(UnplacedError::custom(alternatives(variants)));
        };
        one_of(&self.here(), text, variants)?;
        let variant: StrDeserializer<'_, UnplacedError> = text.into_deserializer();
        visitor.visit_enum(variant)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, UnplacedError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct identifier
    }
}

struct Items<'v, 'a> {
    list: &'v View<'a>,
    at: usize,
    items: &'a [Node],
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = UnplacedError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, UnplacedError> {
        let Some(node) = self.items.get(self.at) else { return Ok(None) };
        let path = format!("{}[{}]", self.list.path, self.at);
        let view = View { node, key_at: &node.at, path, ..self.list.clone() };
        self.at += 1;
        seed.deserialize(view.clone()).map(Some).map_err(|fault| view.settle(fault).into())
    }
}

/// Keys and values of an object, or of a value that serde reads as one.
struct Entries<'a> {
    entries: std::vec::IntoIter<(&'a str, Item<'a>)>,
    value: Option<Item<'a>>,
}

enum Item<'a> {
    Value(View<'a>),
    /// The entries without a field.
    Rest(Vec<(&'a str, View<'a>)>),
    Here(Value),
}

impl<'a> Entries<'a> {
    fn new(entries: impl Iterator<Item = (&'a str, View<'a>)>) -> Self {
        Self::of(entries.map(|(key, view)| (key, Item::Value(view))).collect())
    }

    fn of(entries: Vec<(&'a str, Item<'a>)>) -> Self {
        Self { entries: entries.into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = UnplacedError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, UnplacedError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        let key: StrDeserializer<'_, UnplacedError> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, UnplacedError> {
        match self.value.take() {
            Some(Item::Value(view)) => {
                seed.deserialize(view.clone()).map_err(|fault| view.settle(fault).into())
            }
            Some(Item::Rest(rest)) => {
                seed.deserialize(MapAccessDeserializer::new(Self::new(rest.into_iter())))
            }
            Some(Item::Here(here)) => seed.deserialize(here).map_err(UnplacedError::custom),
            None => Err(UnplacedError::custom("a key before its value")),
        }
    }
}

impl From<Error> for UnplacedError {
    fn from(error: Error) -> Self {
        Self::Placed(Box::new(error))
    }
}
