//! A tree read into Rust types by serde. Each error has the place and the path of the value that is wrong.
//!
//! A type can ask for more than serde tells it:
//! - [`At`] also has the value's place, and the variables it lacks.
//! - An enum whose serde name begins with `@` has a variant for each kind of value (`a string`, `an object`,
//!   `false`, …). The rest of its name says what is expected.
//! - A struct takes the keys that it has no field for into a field called [`REST`]. Without that field, such a
//!   key is an error in Leftfold's own files, and left out of others.
//!
//! Never knows which settings there are.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected,
    IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Hint, alternatives, is_slip};
use crate::source::Place;
use crate::tree::{Node, Tree, below};

/// The serde name of a field for keys that have none.
const REST: &str = "@rest";
const AT: &str = "@at";

/// A key that is left out, and its path.
pub(crate) type Stranger = (Place, String);

/// Reads a whole tree, and tells which keys were left out.
pub(crate) fn read<T: DeserializeOwned>(root: &Node) -> Result<(T, Vec<Stranger>), Error> {
    let strangers = RefCell::default();
    let view = View { node: root, key_at: &root.at, path: String::new(), strangers: &strangers };
    match T::deserialize(view.clone()).map_err(|fault| view.settle(fault)) {
        Ok(value) => Ok((value, strangers.into_inner())),
        Err(Fault::Placed(error)) => Err(*error),
        Err(Fault::Expected { expected, .. }) => Err(view.wrong(expected)),
    }
}

/// A value, and where it stands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename = "@at")]
pub struct At<T> {
    value: T,
    here: Here,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Here {
    place: Place,
    key_place: Place,
    path: String,
    unset: Vec<String>,
}

impl<T> At<T> {
    pub fn place(&self) -> &Place {
        &self.here.place
    }

    /// Where its key stands: of an object, the place where the last source says something of it.
    pub fn key_place(&self) -> &Place {
        &self.here.key_place
    }

    /// An error for each variable that the value refers to and that is not set.
    pub fn unset(&self) -> impl Iterator<Item = Error> {
        self.here.unset.iter().map(|variable| Error::Unset {
            place: self.here.place.clone(),
            key: self.here.path.clone(),
            variable: variable.clone(),
        })
    }

    /// The variables that the value refers to and that are not set.
    pub fn unset_variables(&self) -> &[String] {
        &self.here.unset
    }

    pub(crate) fn wrong(&self, expected: &str, found: &str) -> Error {
        Error::Wrong {
            place: self.here.place.clone(),
            key: format!("`{}`", self.here.path),
            expected: expected.to_owned(),
            found: found.to_owned(),
            hint: Hint::default(),
        }
    }

    /// Where any key may stand: refuses one of Leftfold's own files that is but a slip away from
    /// one of `known`, which nobody else would mean.
    pub(crate) fn no_slip_of(&self, key: &str, known: &[&str]) -> Result<(), Error> {
        let is_meant = |known: &&&str| self.here.key_place.source.own && is_slip(key, known);
        match known.iter().find(is_meant) {
            Some(right) => Err(Error::UnknownKey {
                place: self.here.key_place.clone(),
                key: self.here.path.clone(),
                hint: Hint::exactly(right),
            }),
            None => Ok(()),
        }
    }
}

impl At<String> {
    /// Refuses any but these names.
    pub(crate) fn one_of(&self, names: &[&str]) -> Result<(), Error> {
        if names.contains(&self.value.as_str()) {
            return Ok(());
        }
        let (place, key) = (self.place().clone(), format!("`{}`", self.here.path));
        Err(self.unset().next().unwrap_or_else(|| one_of(place, key, &self.value, names)))
    }
}

/// The error that a string, which surely is no secret, is none of `names`.
fn one_of(place: Place, key: String, found: &str, names: &[&str]) -> Error {
    let hint = Hint::only_near(found, names);
    let (expected, found) = (alternatives(names), in_quotes(found));
    Error::Wrong { place, key, expected, found, hint }
}

fn in_quotes(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
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

/// A setting of OpenCode's that is accepted and has no effect.
#[derive(Debug, PartialEq)]
pub struct Idle<T>(PhantomData<T>);

impl<T> Clone for Idle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Idle<T> {}

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

impl<T: JsonSchema> JsonSchema for Idle<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = generator.subschema_for::<T>();
        schema.insert("deprecated".to_owned(), true.into());
        schema
    }
}

/// A string; an empty one (a variable that is not set, perhaps) says nothing.
pub(crate) fn filled<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + AsRef<str>,
{
    T::deserialize(deserializer).map(|text| Some(text).filter(|t| !t.as_ref().trim().is_empty()))
}

impl AsRef<str> for At<String> {
    fn as_ref(&self) -> &str {
        &self.value
    }
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

const AMOUNT: &str = "a number that is not negative";

/// What serde or a type says is wrong, until it is known where.
#[derive(Debug)]
enum Fault {
    Placed(Box<Error>),
    Expected { expected: String, found: Option<String> },
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed(error) => error.fmt(f),
            Self::Expected { expected, .. } => write!(f, "expected {expected}"),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    /// The text says what was expected.
    fn custom<T: Display>(expected: T) -> Self {
        Self::Expected { expected: in_words(&expected.to_string()), found: None }
    }

    /// The value may be a secret, and is not told.
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(expected)
    }

    /// A type that says this of a string is sure that it is no secret.
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

/// In the words of people who write settings what serde calls by Rust's names.
fn in_words(expected: &str) -> String {
    match expected {
        "u64" => "a whole number that is not negative".to_owned(),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "a nonzero u16" => "a whole number from 1 to 65535".to_owned(),
        "a nonzero u32" | "a nonzero u64" => "a whole number above 0".to_owned(),
        "f64" => AMOUNT.to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        _ => expected.to_owned(),
    }
}

/// A value together with the path of keys that leads to it.
#[derive(Clone)]
struct View<'a> {
    node: &'a Node,
    /// Where its key stands, if it has one: what is wrong about the key is wrong there.
    key_at: &'a Place,
    path: String,
    strangers: &'a RefCell<Vec<Stranger>>,
}

impl<'a> View<'a> {
    fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> {
        self.node.entries().iter().map(|entry| {
            let path = below(&self.path, &entry.key);
            let view = Self { node: &entry.node, key_at: &entry.at, path, ..self.clone() };
            (entry.key.as_str(), view)
        })
    }

    /// Says where it is, if that is not said yet.
    fn settle(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Placed(_) => fault,
            Fault::Expected { expected, found } => {
                let hint = Hint::default();
                let found = found.unwrap_or_else(|| self.found().to_owned());
                let (place, key) = (self.node.at.clone(), self.name());
                Error::Wrong { place, key, expected, found, hint }.into()
            }
        }
    }

    /// The error that this is not what was expected. It tells the type and never the value,
    /// which may be a secret.
    fn wrong(&self, expected: impl Into<String>) -> Error {
        Error::Wrong {
            place: self.node.at.clone(),
            key: self.name(),
            expected: expected.into(),
            found: self.found().to_owned(),
            hint: Hint::default(),
        }
    }

    /// The path in quotes, or words for the whole.
    fn name(&self) -> String {
        if self.path.is_empty() {
            return "the settings as a whole".to_owned();
        }
        format!("`{}`", self.path)
    }

    fn found(&self) -> &'static str {
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

    /// The names that a variant for this kind of value may have.
    fn kinds(&self) -> [&'static str; 2] {
        match &self.node.tree {
            Tree::Bool(false) => ["false", "a boolean"],
            Tree::Number(_) => ["a number"; 2],
            Tree::Null | Tree::Bool(true) | Tree::Text(_) | Tree::List(_) | Tree::Map(_) => {
                [self.found(); 2]
            }
        }
    }

    fn whole(&self) -> Option<u64> {
        // the largest whole number of which a float still knows its neighbours
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let Tree::Number(number) = &self.node.tree else { return None };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        let from_float =
            |n: f64| ((0.0..=EXACT).contains(&n) && n.fract() == 0.0).then_some(n as u64);
        number.as_u64().or_else(|| number.as_f64().and_then(from_float))
    }

    fn here(&self) -> Here {
        let unset = match &self.node.tree {
            Tree::Text(text) => text.unset().map(str::to_owned).collect(),
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::List(_) | Tree::Map(_) => {
                Vec::new()
            }
        };
        let (place, key_place) = (self.node.at.clone(), self.key_at.clone());
        Here { place, key_place, path: self.path.clone(), unset }
    }

    /// Visits the entries that have a field, and the others as [`REST`] if there is such a field.
    fn fields<'de, V: Visitor<'de>>(
        &self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            self.entries().partition(|(key, _)| fields.contains(key));
        if fields.contains(&REST) {
            return visitor.visit_map(Entries::new(known, Some(unknown)));
        }
        for (key, view) in unknown {
            let (place, path) = (view.key_at.clone(), view.path);
            if place.source.own {
                let hint = Hint::toward(key, fields);
                return Err(Error::UnknownKey { place, key: path, hint }.into());
            }
            self.strangers.borrow_mut().push((place, path));
        }
        visitor.visit_map(Entries::new(known, None))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Placed(Box::new(error))
    }
}

impl<'de> Deserializer<'de> for View<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let visited = match &self.node.tree {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            },
            Tree::Text(text) => visitor.visit_str(&text.value),
            Tree::List(items) => visitor.visit_seq(Items { list: &self, at: 0, items }),
            Tree::Map(_) => visitor.visit_map(Entries::new(self.entries().collect(), None)),
        };
        visited.map_err(|fault| self.settle(fault))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.whole() {
            Some(whole) => visitor.visit_u64(whole).map_err(|fault| self.settle(fault)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_u64(visitor)
    }

    /// A key that stands there has a value: `null` is none.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == AT {
            return visitor.visit_seq(Placed { view: &self, is_value_read: false });
        }
        if !self.node.is_map() {
            return Err(self.wrong("an object").into());
        }
        self.fields(fields, visitor).map_err(|fault| self.settle(fault))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if let Some(expected) = name.strip_prefix('@') {
            let found = self.kinds().into_iter().find(|kind| variants.contains(kind));
            let Some(variant) = found else { return Err(self.wrong(expected).into()) };
            return visitor.visit_enum(Kind { variant, view: self });
        }
        let Tree::Text(text) = &self.node.tree else {
            return Err(self.wrong(alternatives(variants)).into());
        };
        if let Some(variable) = text.unset().next() {
            let (place, key) = (self.node.at.clone(), self.path.clone());
            return Err(Error::Unset { place, key, variable: variable.to_owned() }.into());
        }
        if !variants.contains(&text.value.as_str()) {
            return Err(one_of(self.node.at.clone(), self.name(), &text.value, variants).into());
        }
        let variant: StrDeserializer<'_, Fault> = text.value.as_str().into_deserializer();
        visitor.visit_enum(variant)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier
    }
}

struct Items<'v, 'a> {
    list: &'v View<'a>,
    at: usize,
    items: &'a [Node],
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some(node) = self.items.get(self.at) else { return Ok(None) };
        let path = format!("{}[{}]", self.list.path, self.at);
        let view = View { node, key_at: &node.at, path, ..self.list.clone() };
        self.at += 1;
        seed.deserialize(view.clone()).map(Some).map_err(|fault| view.settle(fault))
    }
}

/// The entries of an object, and those that have no field as one more.
struct Entries<'a> {
    entries: std::vec::IntoIter<(&'a str, View<'a>)>,
    rest: Option<Vec<(&'a str, View<'a>)>>,
    value: Option<View<'a>>,
}

impl<'a> Entries<'a> {
    fn new(known: Vec<(&'a str, View<'a>)>, rest: Option<Vec<(&'a str, View<'a>)>>) -> Self {
        Self { entries: known.into_iter(), rest, value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let key = match self.entries.next() {
            Some((key, view)) => {
                self.value = Some(view);
                key
            }
            None if self.rest.is_some() => REST,
            None => return Ok(None),
        };
        let key: StrDeserializer<'_, Fault> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        if let Some(view) = self.value.take() {
            return seed.deserialize(view.clone()).map_err(|fault| view.settle(fault));
        }
        let rest = self.rest.take().unwrap_or_default();
        seed.deserialize(MapAccessDeserializer::new(Self::new(rest, None)))
    }
}

/// The two fields of [`At`].
struct Placed<'v, 'a> {
    view: &'v View<'a>,
    is_value_read: bool,
}

impl<'de> SeqAccess<'de> for Placed<'_, '_> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        if !std::mem::replace(&mut self.is_value_read, true) {
            let value = seed.deserialize(self.view.clone());
            return value.map(Some).map_err(|fault| self.view.settle(fault));
        }
        let here = serde_json::to_value(self.view.here()).map_err(Fault::custom)?;
        seed.deserialize(here).map(Some).map_err(Fault::custom)
    }
}

/// A value as the variant for its kind.
struct Kind<'a> {
    variant: &'static str,
    view: View<'a>,
}

impl<'de, 'a> EnumAccess<'de> for Kind<'a> {
    type Error = Fault;
    type Variant = View<'a>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, View<'a>), Fault> {
        let variant: StrDeserializer<'_, Fault> = self.variant.into_deserializer();
        Ok((seed.deserialize(variant)?, self.view))
    }
}

impl<'de> VariantAccess<'de> for View<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        seed.deserialize(self.clone()).map_err(|fault| self.settle(fault))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.fields(fields, visitor)
    }
}
