//! The table of routes. The router and the OpenAPI document at `/doc` are both made from it. Queries
//! and bodies are documented from the types that a handler takes, so the document cannot differ from
//! the code.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::api::{
    Api, Directory, GivenDirectory, JsonBody, Named, NewProject, Path, Query, config, control,
    events, files, keys, lists, mcp, pages, prompt, questions, sessions, sign_in, terminals, vcs,
};
use crate::error::ApiError;
use crate::front::Front;

/// A method and a path, the handler, and what `/doc` says of both.
struct Route {
    method: Method,
    path: &'static str,
    group: Group,
    answer: Answers,
    handler: MethodRouter<Arc<Api>>,
    describe: fn(&mut Operation<'_>),
}

#[derive(Clone, Copy, Debug)]
enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// The first client that needs a route.
#[derive(Clone, Copy, Debug)]
enum Group {
    /// `opencode attach` and `opencode run --attach`
    Terminal,
    Sdk,
    /// The web app, the desktop app, and remote control of a terminal.
    Web,
    /// Leftfold's own.
    Leftfold,
}

impl Group {
    fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Sdk => "sdk",
            Self::Web => "web",
            Self::Leftfold => "leftfold",
        }
    }
}

/// The kind of body with which a route answers a request that succeeds.
#[derive(Clone, Copy, Debug)]
enum Answers {
    Object,
    List,
    True,
    /// 204
    Nothing,
    /// Server-sent events without an end.
    Feed,
}

fn route<H, T>(
    group: Group,
    method: Method,
    path: &'static str,
    answer: Answers,
    handler: H,
) -> Route
where
    H: Handler<T, Arc<Api>>,
    T: Described + 'static,
{
    Route {
        method,
        path,
        group,
        answer,
        handler: on(method.filter(), handler),
        describe: T::describe,
    }
}

#[rustfmt::skip]
fn table() -> Vec<Route> {
    use Answers::{Feed, List, Nothing, Object, True};
    use Group::{Leftfold, Sdk, Terminal, Web};
    use Method::{Delete, Get, Patch, Post, Put};
    vec![
        // the feed
        route(Terminal, Get, "/global/event", Feed, events::global),
        route(Terminal, Get, "/event", Feed, events::of_directory),
        // settings, models, agents, tools, commands
        route(Sdk, Get, "/global/health", Object, config::health),
        route(Web, Get, "/api/health", Object, config::health),
        route(Leftfold, Get, "/doc", Object, documentation),
        route(Terminal, Get, "/config", Object, config::config),
        route(Sdk, Patch, "/config", Object, config::change),
        route(Web, Get, "/global/config", Object, config::config),
        route(Web, Patch, "/global/config", Object, config::change),
        route(Terminal, Get, "/config/providers", Object, config::config_providers),
        route(Terminal, Get, "/provider", Object, config::providers),
        route(Terminal, Get, "/provider/auth", Object, sign_in::methods),
        route(Web, Post, "/provider/{providerID}/oauth/authorize", Object, sign_in::authorize),
        route(Web, Post, "/provider/{providerID}/oauth/callback", True, sign_in::callback),
        route(Web, Put, "/auth/{providerID}", True, keys::store),
        route(Web, Delete, "/auth/{providerID}", True, keys::forget),
        route(Terminal, Get, "/agent", List, config::agent_list),
        route(Terminal, Get, "/command", List, config::commands),
        route(Web, Get, "/skill", List, lists::skills),
        route(Terminal, Get, "/lsp", List, lists::language_servers),
        route(Terminal, Get, "/formatter", List, lists::formatters),
        route(Terminal, Get, "/mcp", Object, mcp::list),
        route(Sdk, Post, "/mcp", Object, mcp::add),
        route(Sdk, Post, "/mcp/{name}/auth", Object, mcp::authorize),
        route(Sdk, Delete, "/mcp/{name}/auth", Object, mcp::forget),
        route(Sdk, Post, "/mcp/{name}/auth/callback", Object, mcp::callback),
        route(Sdk, Post, "/mcp/{name}/auth/authenticate", Object, mcp::authenticate),
        route(Web, Post, "/mcp/{name}/connect", True, mcp::connect),
        route(Web, Post, "/mcp/{name}/disconnect", True, mcp::disconnect),
        route(Sdk, Get, "/experimental/tool/ids", List, config::tools),
        route(Web, Get, "/experimental/tool", List, lists::tools),
        route(Terminal, Get, "/experimental/capabilities", Object, config::capabilities),
        route(Terminal, Get, "/experimental/console", Object, config::console),
        route(Terminal, Get, "/experimental/resource", Object, config::empty_object),
        route(Terminal, Get, "/experimental/workspace", List, config::empty_list),
        route(Terminal, Get, "/experimental/workspace/status", List, config::empty_list),
        route(Web, Get, "/experimental/worktree", List, config::empty_list),
        route(Sdk, Post, "/log", True, control::log),
        route(Sdk, Post, "/instance/dispose", True, control::dispose),
        route(Web, Post, "/global/dispose", True, control::dispose_all),
        // projects and files
        route(Terminal, Get, "/path", Object, config::path),
        route(Sdk, Get, "/project", List, config::projects),
        route(Terminal, Get, "/project/current", Object, config::current_project),
        route(Web, Post, "/project/git/init", Object, vcs::init),
        route(Terminal, Get, "/project/{projectID}/directories", List, config::directories),
        route(Terminal, Get, "/vcs", Object, files::vcs),
        route(Terminal, Get, "/vcs/diff", List, files::vcs_diff),
        route(Web, Get, "/vcs/status", List, vcs::status),
        route(Sdk, Get, "/find", List, files::find),
        route(Sdk, Get, "/find/file", List, files::find_file),
        route(Sdk, Get, "/find/symbol", List, config::empty_list),
        route(Sdk, Get, "/file", List, files::list),
        route(Sdk, Get, "/file/content", Object, files::content),
        route(Sdk, Get, "/file/status", List, vcs::files),
        // sessions
        route(Terminal, Get, "/session", List, sessions::list),
        route(Terminal, Post, "/session", Object, sessions::create),
        route(Web, Get, "/experimental/session", List, lists::sessions),
        route(Terminal, Get, "/session/status", Object, sessions::statuses),
        route(Terminal, Get, "/session/{sessionID}", Object, sessions::one),
        route(Terminal, Patch, "/session/{sessionID}", Object, sessions::change),
        route(Terminal, Delete, "/session/{sessionID}", True, sessions::remove),
        route(Sdk, Get, "/session/{sessionID}/children", List, sessions::children),
        route(Terminal, Get, "/session/{sessionID}/todo", List, sessions::todo),
        route(Terminal, Get, "/session/{sessionID}/diff", List, sessions::diff),
        route(Terminal, Get, "/session/{sessionID}/message", List, sessions::messages),
        route(Terminal, Post, "/session/{sessionID}/message", Object, prompt::prompt),
        route(Sdk, Get, "/session/{sessionID}/message/{messageID}", Object, sessions::message),
        route(Sdk, Delete, "/session/{sessionID}/message/{messageID}", True, sessions::remove_message),
        route(Sdk, Patch, "/session/{sessionID}/message/{messageID}/part/{partID}", Object, sessions::change_part),
        route(Sdk, Delete, "/session/{sessionID}/message/{messageID}/part/{partID}", True, sessions::change_part),
        route(Sdk, Post, "/session/{sessionID}/prompt_async", Nothing, prompt::prompt_async),
        route(Terminal, Post, "/session/{sessionID}/command", Object, prompt::command),
        route(Terminal, Post, "/session/{sessionID}/shell", Object, prompt::shell),
        route(Terminal, Post, "/session/{sessionID}/summarize", True, prompt::summarize),
        route(Sdk, Post, "/session/{sessionID}/init", True, prompt::init),
        route(Leftfold, Post, "/session/{sessionID}/resume", True, prompt::resume),
        route(Terminal, Post, "/session/{sessionID}/abort", True, sessions::abort),
        route(Terminal, Post, "/session/{sessionID}/fork", Object, sessions::fork),
        route(Terminal, Post, "/session/{sessionID}/revert", Object, sessions::revert),
        route(Terminal, Post, "/session/{sessionID}/unrevert", Object, sessions::unrevert),
        // permissions and questions
        route(Sdk, Get, "/permission", List, questions::permissions),
        route(Terminal, Post, "/permission/{requestID}/reply", True, questions::permission),
        route(Sdk, Post, "/session/{sessionID}/permissions/{permissionID}", True, questions::respond),
        route(Sdk, Get, "/question", List, questions::questions),
        route(Terminal, Post, "/question/{requestID}/reply", True, questions::reply),
        route(Terminal, Post, "/question/{requestID}/reject", True, questions::reject),
        // the page of a run
        route(Leftfold, Get, "/leftfold/overview", Object, pages::overview),
        route(Leftfold, Get, "/leftfold/run/{sessionID}/feed", Feed, pages::feed),
        route(Leftfold, Get, "/leftfold/run/{sessionID}/block/{name}", Object, pages::block),
        route(Leftfold, Post, "/leftfold/run/{sessionID}/fork", Object, pages::fork),
        route(Leftfold, Post, "/leftfold/run/{sessionID}/revert", True, pages::revert),
        // remote control of terminals
        route(Web, Post, "/tui/append-prompt", True, control::append_prompt),
        route(Web, Post, "/tui/submit-prompt", True, control::submit_prompt),
        route(Web, Post, "/tui/clear-prompt", True, control::clear_prompt),
        route(Web, Post, "/tui/open-help", True, control::open_help),
        route(Web, Post, "/tui/open-sessions", True, control::open_sessions),
        route(Web, Post, "/tui/open-themes", True, control::open_themes),
        route(Web, Post, "/tui/open-models", True, control::open_models),
        route(Web, Post, "/tui/execute-command", True, control::execute_command),
        route(Web, Post, "/tui/show-toast", True, control::show_toast),
        route(Web, Post, "/tui/select-session", True, control::select_session),
        route(Web, Post, "/tui/publish", True, control::publish),
        route(Web, Get, "/tui/control/next", Object, control::next),
        route(Web, Post, "/tui/control/response", True, control::response),
        // terminals of the person
        route(Web, Get, "/pty/shells", List, terminals::shells),
        route(Web, Get, "/pty", List, terminals::list),
        route(Web, Post, "/pty", Object, terminals::create),
        route(Web, Get, "/pty/{ptyID}", Object, terminals::one),
        route(Web, Put, "/pty/{ptyID}", Object, terminals::change),
        route(Web, Delete, "/pty/{ptyID}", True, terminals::remove),
        route(Web, Post, "/pty/{ptyID}/connect-token", Object, terminals::ticket),
        route(Web, Get, "/pty/{ptyID}/connect", True, terminals::connect),
        // the second version of the API, as far as clients of the first read it
        route(Terminal, Get, "/api/location", Object, config::location),
        route(Terminal, Get, "/api/fs/find", Object, files::find_located),
        route(Web, Get, "/api/session", Object, lists::located_sessions),
        route(Terminal, Get, "/api/agent", Object, config::located_list),
        route(Terminal, Get, "/api/model", Object, config::located_list),
        route(Terminal, Get, "/api/provider", Object, config::located_list),
        route(Terminal, Get, "/api/integration", Object, config::located_list),
        route(Terminal, Get, "/api/command", Object, config::located_list),
        route(Terminal, Get, "/api/skill", Object, config::located_list),
        route(Terminal, Get, "/api/reference", Object, config::located_list),
    ]
}

/// The router of the whole table. Everything else is the front end's, or is answered with 404 and
/// JSON.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let routes = table().into_iter();
    routes
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(api)
}

async fn unknown(request: Request) -> Response {
    let (request, _) = request.into_parts();
    let front = request.extensions.get::<Arc<Front>>();
    if let Some(front) = front
        && let Some(answer) = front.web.answer(&request).await
    {
        return answer;
    }
    ApiError::not_found(format!("this server has no `{}`", request.uri.path())).into_response()
}

async fn documentation() -> axum::Json<Value> {
    axum::Json(openapi())
}

/// The table as an OpenAPI 3.1 document.
fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in table() {
        let operation = route.documented(&mut generator);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.name()] = operation;
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Leftfold", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

impl Route {
    fn documented(&self, generator: &mut SchemaGenerator) -> Value {
        let in_path = self.path.split(['{', '}']).skip(1).step_by(2);
        let parameters =
            in_path.map(|name| parameter(name, "path", true, &json!({ "type": "string" })));
        let mut operation = Operation { generator, parameters: parameters.collect(), body: None };
        (self.describe)(&mut operation);
        let Operation { parameters, body, .. } = operation;
        let name = self.path.trim_matches('/').replace(['/', '-'], "_").replace(['{', '}'], "");
        let mut documented = json!({
            "operationId": format!("{}_{name}", self.method.name()),
            "tags": [self.group.name()],
            "parameters": parameters,
            "responses": {
                "default": content("application/json", &json!({ "type": "object" }), "why it was not done"),
            },
        });
        let (status, answer) = match self.answer {
            Answers::Object => {
                ("200", content("application/json", &json!({ "type": "object" }), "done"))
            }
            Answers::List => {
                ("200", content("application/json", &json!({ "type": "array" }), "done"))
            }
            Answers::True => {
                ("200", content("application/json", &json!({ "type": "boolean" }), "done"))
            }
            Answers::Nothing => ("204", json!({ "description": "done" })),
            Answers::Feed => {
                ("200", content("text/event-stream", &json!({}), "events without an end"))
            }
        };
        documented["responses"][status] = answer;
        if let Some(schema) = body {
            documented["requestBody"] =
                json!({ "content": { "application/json": { "schema": schema } } });
        }
        documented
    }
}

fn content(kind: &str, schema: &Value, description: &str) -> Value {
    json!({ "description": description, "content": { kind: { "schema": schema } } })
}

fn parameter(name: &str, place: &str, required: bool, schema: &Value) -> Value {
    json!({ "name": name, "in": place, "required": required, "schema": schema })
}

/// The parameters and the body of a handler's requests, as its extractors describe them.
struct Operation<'a> {
    generator: &'a mut SchemaGenerator,
    parameters: Vec<Value>,
    body: Option<Value>,
}

impl Operation<'_> {
    fn takes_directory(&mut self) {
        let text = json!({ "type": "string" });
        self.parameters.push(parameter("directory", "query", false, &text));
        self.parameters.push(parameter("x-opencode-directory", "header", false, &text));
    }

    fn takes_query<T: JsonSchema>(&mut self) {
        let schema = T::json_schema(self.generator).to_value();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.iter().any(|known| known == name.as_str());
            self.parameters.push(parameter(name, "query", is_required, schema));
        }
    }
}

/// An extractor, or the extractors of a handler, in the document.
trait Described {
    fn describe(_: &mut Operation<'_>) {}
}

impl Described for State<Arc<Api>> {}
impl Described for HeaderMap {}
impl Described for Named {}
impl Described for terminals::OnlyTicket {}
impl Described for terminals::Upgrade {}
impl<T> Described for Path<T> {}

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

impl<T: JsonSchema> Described for Query<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.takes_query::<T>();
    }
}

impl<T: JsonSchema> Described for JsonBody<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.body = Some(operation.generator.subschema_for::<T>().to_value());
    }
}

/// A handler without extractors.
impl Described for ((),) {}

/// The tuples that axum makes of a handler's extractors. `M` says how the last one reads the request.
macro_rules! described {
    ($($extractor:ident),+) => {
        impl<M, $($extractor: Described),+> Described for (M, $($extractor,)+) {
            fn describe(operation: &mut Operation<'_>) {
                $($extractor::describe(operation);)+
            }
        }
    };
}

described!(A);
described!(A, B);
described!(A, B, C);
described!(A, B, C, D);
described!(A, B, C, D, E);
