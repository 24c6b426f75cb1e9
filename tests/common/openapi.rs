//! Checks the answers and frames of a server against its OpenAPI document.

use std::collections::HashMap;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

const JSON: &str = "application/json";
const LOCATION: &str = "http://leftfold.test/doc";
/// Statuses that each route describes by itself, where it may answer with them. Others are the same for all.
const OWN: [u16; 6] = [200, 400, 404, 409, 429, 501];

/// The document of a server's API. Objects have no members but those that it names.
pub struct ApiDocument {
    document: Value,
    schemas: Schemas,
    /// By the pointer to the schema in the document.
    compiled: HashMap<String, SchemaIndex>,
}

/// An answer to check.
#[derive(Clone, Copy, Debug)]
pub struct ApiAnswer<'a> {
    pub method: &'a str,
    /// With its query.
    pub path: &'a str,
    pub status: u16,
    pub is_json: bool,
    pub body: &'a str,
}

impl ApiDocument {
    pub fn new(mut document: Value) -> Self {
        close(&mut document);
        let mut compiler = Compiler::new();
        compiler.add_resource(LOCATION, document.clone()).unwrap();
        let mut pointers =
            ["Event", "GlobalEvent"].map(|name| format!("/components/schemas/{name}")).to_vec();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let answers = operation["responses"].as_object().unwrap().iter();
                let of_json = answers.filter(|(_, answer)| answer["content"][JSON].is_object());
                let place = format!("/paths/{}/{method}", path.replace('/', "~1"));
                pointers.extend(of_json.map(|(status, _)| schema_of(&place, status)));
            }
        }
        let mut schemas = Schemas::new();
        let compiled = pointers.into_iter().map(|pointer| {
            let escaped = pointer.replace('{', "%7B").replace('}', "%7D");
            let schema = compiler.compile(&format!("{LOCATION}#{escaped}"), &mut schemas);
            let schema = schema.unwrap_or_else(|error| panic!("{pointer}: {error:#}"));
            (pointer, schema)
        });
        let compiled = compiled.collect();
        Self { document, schemas, compiled }
    }

    /// # Errors
    /// The document describes no such answer. Paths that it does not have may have any answer.
    pub fn check(&self, answer: ApiAnswer<'_>) -> Result<(), String> {
        let path = answer.path.split('?').next().unwrap_or_default();
        let Some(route) = self.route(answer.method, path) else { return Ok(()) };
        let known = self.document.pointer(&format!("{route}/responses")).unwrap();
        let status = answer.status.to_string();
        let status = match known.get(&status) {
            Some(_) => status.as_str(),
            None if OWN.contains(&answer.status) => return Err("is not in the document".to_owned()),
            None => "default",
        };
        let content = &known[status]["content"];
        if content.is_null() || (!answer.is_json && status == "default") {
            // without a body, or without a request that was understood
            return Ok(());
        }
        if content[JSON].is_null() == answer.is_json {
            return Err(format!("has another content type than {content}"));
        }
        if !answer.is_json {
            return Ok(());
        }
        let value = serde_json::from_str(answer.body).map_err(|error| error.to_string())?;
        self.fits(&value, &schema_of(&route, status))
    }

    /// # Errors
    /// The data of a frame of the feed are no `Event`, or no `GlobalEvent`.
    pub fn check_frame(&self, data: &Value) -> Result<(), String> {
        let name = if data.get("payload").is_some() { "GlobalEvent" } else { "Event" };
        self.fits(data, &format!("/components/schemas/{name}"))
    }

    fn fits(&self, value: &Value, pointer: &str) -> Result<(), String> {
        let fits = self.schemas.validate(value, self.compiled[pointer]);
        fits.map_err(|error| format!("{error:#}"))
    }

    /// The pointer to an operation. Names in the path of a route stand for anything, unless another route has the word.
    fn route(&self, method: &str, path: &str) -> Option<String> {
        let words: Vec<&str> = path.split('/').collect();
        let fits = |route: &str| {
            let parts: Vec<&str> = route.split('/').collect();
            let is_same = |(part, word): (&&str, &&str)| part.starts_with('{') || part == word;
            parts.len() == words.len() && parts.iter().zip(&words).all(is_same)
        };
        let paths = self.document["paths"].as_object()?;
        let fitting = paths.keys().filter(|route| fits(route));
        let route = fitting.min_by_key(|route| route.matches('{').count())?;
        let method = method.to_lowercase();
        paths[route].get(&method)?;
        Some(format!("/paths/{}/{method}", route.replace('/', "~1")))
    }
}

/// The pointer to the schema of an operation's answer.
fn schema_of(operation: &str, status: &str) -> String {
    format!("{operation}/responses/{status}/content/application~1json/schema")
}

/// Allows no other members in objects than those that are named.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_open = members.contains_key("additionalProperties");
            if members.get("type").is_some_and(|kind| kind == "object")
                && members.contains_key("properties")
                && !is_open
            {
                members.insert("additionalProperties".to_owned(), false.into());
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
