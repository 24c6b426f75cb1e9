//! The parts of the OpenAPI document that the types of a handler give: its extractors say what it takes, its result
//! says how it answers. A handler of other types does not compile in the table of routes.

use axum::Json;
use axum::http::HeaderMap;
use axum::response::NoContent;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{
    ApiState, Directory, EventStream, GivenDirectory, JsonBody, JsonText, LastEventId, Named,
    NewProject, Path, Query,
};
use crate::error::ApiError;
use crate::shapes::failure::{Failure, RequestError};
use crate::shapes::{any_of, simplify};

/// The method of a route, as far as the document depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    Changes,
}

/// An operation of the document, as the types of its handler describe it.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    generator: &'a mut SchemaGenerator,
    effect: Effect,
    parameters: Vec<Value>,
    body: Option<Value>,
    /// By status: what the answer is, its content type, and its schemas.
    answers: IndexMap<String, DocumentedAnswer>,
}

#[derive(Debug)]
struct DocumentedAnswer {
    description: &'static str,
    content: Option<&'static str>,
    schemas: Vec<Schema>,
}

const JSON: &str = "application/json";
const DONE: &str = "done";

impl<'a> Operation<'a> {
    pub(super) fn new(generator: &'a mut SchemaGenerator, path: &str, effect: Effect) -> Self {
        let mut operation = Self {
            generator,
            effect,
            parameters: Vec::new(),
            body: None,
            answers: IndexMap::new(),
        };
        for name in path.split(['{', '}']).skip(1).step_by(2) {
            operation.takes("path", name, true, &json!({ "type": "string" }));
        }
        operation
    }

    /// The object of the document.
    pub(super) fn object(self) -> Map<String, Value> {
        let mut responses = Map::new();
        for (status, answer) in self.answers {
            let mut response = json!({ "description": answer.description });
            if let Some(content) = answer.content {
                response["content"] = json!({ content: { "schema": any_of(&answer.schemas) } });
            }
            responses.insert(status, response);
        }
        let mut object = Map::new();
        object.insert("parameters".to_owned(), self.parameters.into());
        object.extend(self.body.map(|body| ("requestBody".to_owned(), body)));
        object.insert("responses".to_owned(), responses.into());
        object
    }

    pub(super) fn takes(&mut self, place: &str, name: &str, is_required: bool, schema: &Value) {
        let parameter =
            json!({ "name": name, "in": place, "required": is_required, "schema": schema });
        // several extractors may read it
        if !self.parameters.contains(&parameter) {
            self.parameters.push(parameter);
        }
    }

    fn takes_directory(&mut self) {
        let text = json!({ "type": "string" });
        self.takes("query", "directory", false, &text);
        self.takes("header", "x-opencode-directory", false, &text);
    }

    fn takes_query<T: JsonSchema>(&mut self) {
        let mut schema = T::json_schema(self.generator).to_value();
        simplify(&mut schema);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.iter().any(|known| known == name.as_str());
            self.takes("query", name, is_required, schema);
        }
    }

    fn takes_body<T: JsonSchema>(&mut self) {
        let is_required = T::json_schema(self.generator).get("required").is_some();
        let schema = self.generator.subschema_for::<T>();
        self.body =
            Some(json!({ "required": is_required, "content": { JSON: { "schema": schema } } }));
    }

    pub(super) fn answers_nothing(&mut self, status: &str, description: &'static str) {
        let answer = DocumentedAnswer { description, content: None, schemas: Vec::new() };
        self.answers.insert(status.to_owned(), answer);
    }

    fn answers<T: JsonSchema>(&mut self, content: &'static str, description: &'static str) {
        let schemas = vec![self.generator.subschema_for::<T>()];
        let answer = DocumentedAnswer { description, content: Some(content), schemas };
        self.answers.insert("200".to_owned(), answer);
    }

    /// A failure that has a status of its own.
    pub(super) fn fails(&mut self, failure: Failure) {
        let schema = failure.schema(self.generator);
        self.add_failure(failure.status().as_str(), schema);
    }

    fn add_failure(&mut self, status: &str, schema: Schema) {
        let answer = self.answers.entry(status.to_owned()).or_insert(DocumentedAnswer {
            description: "why it was not done",
            content: Some(JSON),
            schemas: Vec::new(),
        });
        if !answer.schemas.contains(&schema) {
            answer.schemas.push(schema);
        }
    }
}

/// An extractor in the document.
pub(super) trait Described {
    fn describe(_: &mut Operation<'_>) {}
}

impl Described for ApiState {}
impl<T> Described for Path<T> {}

impl Described for Named {
    fn describe(operation: &mut Operation<'_>) {
        operation.fails(Failure::NotFound);
        if operation.effect == Effect::Changes {
            // another process may run the session
            operation.fails(Failure::Busy);
        }
    }
}

impl Described for Directory {
    fn describe(operation: &mut Operation<'_>) {
        operation.takes_directory();
    }
}

impl Described for NewProject {
    fn describe(operation: &mut Operation<'_>) {
        operation.takes_directory();
    }
}

impl Described for GivenDirectory {
    fn describe(operation: &mut Operation<'_>) {
        operation.takes_directory();
    }
}

impl Described for LastEventId {
    fn describe(operation: &mut Operation<'_>) {
        operation.takes("header", "last-event-id", false, &json!({ "type": "string" }));
    }
}

impl<T: JsonSchema> Described for Query<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.takes_query::<T>();
    }
}

impl<T: JsonSchema> Described for JsonBody<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.takes_body::<T>();
    }
}

/// The result of a handler in the document.
pub(super) trait Answers {
    fn describe(operation: &mut Operation<'_>);
}

impl<T: JsonSchema> Answers for Json<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers::<T>(JSON, DONE);
    }
}

impl<T: JsonSchema> Answers for JsonText<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers::<T>(JSON, DONE);
    }
}

impl<T: JsonSchema> Answers for EventStream<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers::<T>("text/event-stream", "events without an end");
    }
}

impl Answers for NoContent {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers_nothing("204", DONE);
    }
}

/// An answer with headers of its own.
impl<A: Answers> Answers for (HeaderMap, A) {
    fn describe(operation: &mut Operation<'_>) {
        A::describe(operation);
    }
}

impl<A: Answers> Answers for Result<A, ApiError> {
    fn describe(operation: &mut Operation<'_>) {
        A::describe(operation);
        operation.fails(Failure::BadRequest);
        let any = operation.generator.subschema_for::<RequestError>();
        operation.add_failure("default", any);
    }
}

/// A handler whose extractors and result are in the document. `T` is the tuple that axum makes of the extractors.
pub(super) trait Documented<T> {
    fn describe(operation: &mut Operation<'_>);
}

impl<F, Fut> Documented<((),)> for F
where
    F: FnOnce() -> Fut,
    Fut: Future<Output: Answers>,
{
    fn describe(operation: &mut Operation<'_>) {
        Fut::Output::describe(operation);
    }
}

/// `M` says how the last extractor reads the request.
macro_rules! documented {
    ($($extractor:ident),+) => {
        impl<F, Fut, M, $($extractor),+> Documented<(M, $($extractor,)+)> for F
        where
            F: FnOnce($($extractor),+) -> Fut,
            Fut: Future<Output: Answers>,
            $($extractor: Described,)+
        {
            fn describe(operation: &mut Operation<'_>) {
                $($extractor::describe(operation);)+
                Fut::Output::describe(operation);
            }
        }
    };
}

documented!(A);
documented!(A, B);
documented!(A, B, C);
documented!(A, B, C, D);
documented!(A, B, C, D, E);
