//! Replaces names by values in the arguments of a call that is about to run.

use serde_json::Value;

use super::Secrets;
use super::forms::{self, BEGIN, END, Form};
use crate::json::Json;

/// A call names a secret that it cannot get.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSecret {
    #[error("The call was not run: there is no secret named `{name}`. {known}")]
    Name { name: String, known: String },
    #[error(
        "The call was not run: the secret `{name}` is a key of Leftfold's own, which calls are not \
         given; to allow it, the user has to name it under `secrets` in the settings. {known}"
    )]
    NotUsable { name: String, known: String },
    #[error(
        "The call was not run: only a part of the secret `{name}` stands there, or an encoding \
         of it, which cannot be written again. {known}"
    )]
    Form { name: String, known: String },
}

impl Secrets {
    /// `input` with values in place of names, in every string. Names of fields do not change.
    ///
    /// # Errors
    /// A name that no secret has, or whose value calls do not get.
    pub fn put_back(&self, input: &Json) -> Result<Json, UnknownSecret> {
        if !input.as_str().contains(BEGIN) {
            return Ok(input.clone());
        }
        let mut value = input.value();
        self.fill(&mut value)?;
        Ok(Json::from_value(&value))
    }

    fn fill(&self, value: &mut Value) -> Result<(), UnknownSecret> {
        match value {
            Value::String(text) => *text = self.filled(text)?,
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.fill(item))?,
            Value::Object(fields) => fields.values_mut().try_for_each(|field| self.fill(field))?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }

    fn filled(&self, text: &str) -> Result<String, UnknownSecret> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(BEGIN) {
            let (before, named) = rest.split_at(at);
            filled.push_str(before);
            let inside = &named[BEGIN.len()..];
            match inside.split_once(END).filter(|(name, _)| is_name(name)) {
                Some((name, after)) => {
                    filled.push_str(&self.value(name)?);
                    rest = after;
                }
                None => {
                    filled.push_str(BEGIN);
                    rest = inside;
                }
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// The value for `NAME` or `NAME:FORM`.
    fn value(&self, named: &str) -> Result<String, UnknownSecret> {
        let (name, form) = named.split_once(':').unwrap_or((named, ""));
        let (name, known) = (name.to_owned(), || self.names());
        let Some(secret) = self.secrets().iter().find(|secret| secret.name == name) else {
            return Err(UnknownSecret::Name { name, known: known() });
        };
        if !secret.usable {
            return Err(UnknownSecret::NotUsable { name, known: known() });
        }
        match Form::named(form) {
            Some(Form::Plain) => Ok(secret.value.clone()),
            Some(Form::Json) => Ok(forms::json(&secret.value)),
            Some(Form::Url) => Ok(forms::strict_url(&secret.value)),
            Some(Form::Base64 | Form::Line | Form::Part | Form::Bytes) => {
                Err(UnknownSecret::Form { name, known: known() })
            }
            None => Err(UnknownSecret::Name { name: named.to_owned(), known: known() }),
        }
    }

    fn names(&self) -> String {
        let names = self.secrets().iter().filter(|secret| secret.usable);
        let names: Vec<&str> = names.map(|secret| secret.name.as_str()).collect();
        if names.is_empty() {
            "There are no secrets that calls may use.".to_owned()
        } else {
            format!("Calls may use: {}.", names.join(", "))
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| forms::is_plain(c) || c == ':')
}
