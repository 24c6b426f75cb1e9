//! The table of routes. The router and the OpenAPI document at `/doc` are both made from it and from the types of the
//! handlers.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::openapi::{Answers, Described, Documented, Effect, Operation};
use super::{
    Api, config, control, events, files, keys, lists, mcp, pages, prompt, questions, sessions,
    sign_in, terminals, vcs,
};
use crate::error::ApiError;
use crate::front::Front;
use crate::shapes::failure::Failure;
use crate::shapes::message::Part;
use crate::shapes::{Free, Shaped, shaped, simplify};

/// A method and a path, the handler, and what `/doc` says of both.
struct Route {
    method: Method,
    path: &'static str,
    /// The operation's name. Generated clients have a function of this name, as OpenCode's SDK has.
    id: &'static str,
    group: Group,
    handler: MethodRouter<Arc<Api>>,
    describe: fn(&mut Operation<'_>),
    /// Failures that the types of the handler do not tell.
    failures: &'static [Failure],
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

    fn effect(self) -> Effect {
        match self {
            Self::Get => Effect::Reads,
            Self::Post | Self::Put | Self::Patch | Self::Delete => Effect::Changes,
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
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Group {
    /// `opencode attach` and `opencode run --attach`
    Terminal,
    Sdk,
    /// The web app, the desktop app, and remote control of a terminal.
    Web,
    /// Leftfold's own.
    Leftfold,
}

fn route<H, T>(
    group: Group,
    method: Method,
    path: &'static str,
    id: &'static str,
    handler: H,
) -> Route
where
    H: Handler<T, Arc<Api>> + Documented<T>,
    T: 'static,
{
    Route {
        method,
        path,
        id,
        group,
        handler: on(method.filter(), handler),
        describe: H::describe,
        failures: &[],
    }
}

impl Route {
    fn fails(self, failures: &'static [Failure]) -> Self {
        Self { failures, ..self }
    }
}

#[rustfmt::skip]
fn table() -> Vec<Route> {
    use Failure::{Busy, NoPermission, NoQuestion, NoServer, NoSignIn, NoTerminal, NotFound, NotSupported, QuotaReached, Stale, TerminalForbidden};
    use Group::{Leftfold, Sdk, Terminal, Web};
    use Method::{Delete, Get, Patch, Post, Put};
    vec![
        // the feed
        route(Terminal, Get, "/global/event", "global.event", events::global),
        route(Terminal, Get, "/event", "event.subscribe", events::of_directory),
        // settings, models, agents, tools, commands
        route(Sdk, Get, "/global/health", "global.health", config::health),
        route(Web, Get, "/api/health", "v2.health.get", config::health),
        route(Leftfold, Get, "/doc", "leftfold.doc", documentation),
        route(Terminal, Get, "/config", "config.get", config::config),
        route(Sdk, Patch, "/config", "config.update", config::change),
        route(Web, Get, "/global/config", "global.config.get", config::config),
        route(Web, Patch, "/global/config", "global.config.update", config::change),
        route(Terminal, Get, "/config/providers", "config.providers", config::config_providers),
        route(Terminal, Get, "/provider", "provider.list", config::providers),
        route(Terminal, Get, "/provider/auth", "provider.auth", sign_in::methods),
        route(Web, Post, "/provider/{providerID}/oauth/authorize", "provider.oauth.authorize", sign_in::authorize),
        route(Web, Post, "/provider/{providerID}/oauth/callback", "provider.oauth.callback", sign_in::callback),
        route(Web, Put, "/auth/{providerID}", "auth.set", keys::store).fails(&[NotFound]),
        route(Web, Delete, "/auth/{providerID}", "auth.remove", keys::forget),
        route(Terminal, Get, "/agent", "app.agents", config::agent_list),
        route(Terminal, Get, "/command", "command.list", config::commands),
        route(Web, Get, "/skill", "app.skills", lists::skills),
        route(Terminal, Get, "/lsp", "lsp.status", lists::language_servers),
        route(Terminal, Get, "/formatter", "formatter.status", lists::formatters),
        route(Terminal, Get, "/mcp", "mcp.status", mcp::list),
        route(Sdk, Post, "/mcp", "mcp.add", mcp::add),
        route(Sdk, Post, "/mcp/{name}/auth", "mcp.auth.start", mcp::authorize).fails(&[NoServer, NoSignIn]),
        route(Sdk, Delete, "/mcp/{name}/auth", "mcp.auth.remove", mcp::forget).fails(&[NoServer]),
        route(Sdk, Post, "/mcp/{name}/auth/callback", "mcp.auth.callback", mcp::callback).fails(&[NoServer]),
        route(Sdk, Post, "/mcp/{name}/auth/authenticate", "mcp.auth.authenticate", mcp::authenticate).fails(&[NoServer, NoSignIn]),
        route(Web, Post, "/mcp/{name}/connect", "mcp.connect", mcp::connect).fails(&[NoServer]),
        route(Web, Post, "/mcp/{name}/disconnect", "mcp.disconnect", mcp::disconnect).fails(&[NoServer]),
        route(Sdk, Get, "/experimental/tool/ids", "tool.ids", config::tools),
        route(Web, Get, "/experimental/tool", "tool.list", lists::tools),
        route(Terminal, Get, "/experimental/capabilities", "experimental.capabilities.get", config::capabilities),
        route(Terminal, Get, "/experimental/console", "experimental.console.get", config::console),
        route(Terminal, Get, "/experimental/resource", "experimental.resource.list", config::empty_object),
        route(Terminal, Get, "/experimental/workspace", "experimental.workspace.list", config::empty_list),
        route(Terminal, Get, "/experimental/workspace/status", "experimental.workspace.status", config::empty_list),
        route(Web, Get, "/experimental/worktree", "worktree.list", config::empty_list),
        route(Sdk, Post, "/log", "app.log", control::log),
        route(Sdk, Post, "/instance/dispose", "instance.dispose", control::dispose),
        route(Web, Post, "/global/dispose", "global.dispose", control::dispose_all),
        // projects and files
        route(Terminal, Get, "/path", "path.get", config::path),
        route(Sdk, Get, "/project", "project.list", config::projects),
        route(Terminal, Get, "/project/current", "project.current", config::current_project),
        route(Web, Post, "/project/git/init", "project.initGit", vcs::init),
        route(Terminal, Get, "/project/{projectID}/directories", "project.directories", config::directories),
        route(Terminal, Get, "/vcs", "vcs.get", files::vcs),
        route(Terminal, Get, "/vcs/diff", "vcs.diff", files::vcs_diff).fails(&[NotFound]),
        route(Web, Get, "/vcs/status", "vcs.status", vcs::status),
        route(Sdk, Get, "/find", "find.text", files::find),
        route(Sdk, Get, "/find/file", "find.files", files::find_file),
        route(Sdk, Get, "/find/symbol", "find.symbols", config::empty_list),
        route(Sdk, Get, "/file", "file.list", files::list).fails(&[NotFound]),
        route(Sdk, Get, "/file/content", "file.read", files::content).fails(&[NotFound]),
        route(Sdk, Get, "/file/status", "file.status", vcs::files),
        // sessions
        route(Terminal, Get, "/session", "session.list", sessions::list),
        route(Terminal, Post, "/session", "session.create", sessions::create),
        route(Web, Get, "/experimental/session", "experimental.session.list", lists::sessions),
        route(Terminal, Get, "/session/status", "session.status", sessions::statuses),
        route(Terminal, Get, "/session/{sessionID}", "session.get", sessions::one),
        route(Terminal, Patch, "/session/{sessionID}", "session.update", sessions::change),
        route(Terminal, Delete, "/session/{sessionID}", "session.delete", sessions::remove),
        route(Sdk, Get, "/session/{sessionID}/children", "session.children", sessions::children),
        route(Terminal, Get, "/session/{sessionID}/todo", "session.todo", sessions::todo),
        route(Terminal, Get, "/session/{sessionID}/diff", "session.diff", sessions::diff),
        route(Terminal, Get, "/session/{sessionID}/message", "session.messages", sessions::messages),
        route(Terminal, Post, "/session/{sessionID}/message", "session.prompt", prompt::prompt).fails(&[QuotaReached]),
        route(Sdk, Get, "/session/{sessionID}/message/{messageID}", "session.message", sessions::message),
        route(Sdk, Delete, "/session/{sessionID}/message/{messageID}", "session.deleteMessage", sessions::remove_message).fails(&[NotSupported]),
        route(Sdk, Patch, "/session/{sessionID}/message/{messageID}/part/{partID}", "part.update", sessions::change_part::<Part>).fails(&[NotSupported]),
        route(Sdk, Delete, "/session/{sessionID}/message/{messageID}/part/{partID}", "part.delete", sessions::change_part::<bool>).fails(&[NotSupported]),
        route(Sdk, Post, "/session/{sessionID}/prompt_async", "session.prompt_async", prompt::prompt_async).fails(&[QuotaReached]),
        route(Terminal, Post, "/session/{sessionID}/command", "session.command", prompt::command).fails(&[QuotaReached]),
        route(Terminal, Post, "/session/{sessionID}/shell", "session.shell", prompt::shell).fails(&[QuotaReached]),
        route(Terminal, Post, "/session/{sessionID}/summarize", "session.summarize", prompt::summarize).fails(&[QuotaReached]),
        route(Sdk, Post, "/session/{sessionID}/init", "session.init", prompt::init).fails(&[QuotaReached]),
        route(Leftfold, Post, "/session/{sessionID}/resume", "leftfold.resume", prompt::resume),
        route(Terminal, Post, "/session/{sessionID}/abort", "session.abort", sessions::abort).fails(&[Busy]),
        route(Terminal, Post, "/session/{sessionID}/fork", "session.fork", sessions::fork),
        route(Terminal, Post, "/session/{sessionID}/revert", "session.revert", sessions::revert),
        route(Terminal, Post, "/session/{sessionID}/unrevert", "session.unrevert", sessions::unrevert),
        // permissions and questions
        route(Sdk, Get, "/permission", "permission.list", questions::permissions),
        route(Terminal, Post, "/permission/{requestID}/reply", "permission.reply", questions::permission).fails(&[NoPermission, Busy]),
        route(Sdk, Post, "/session/{sessionID}/permissions/{permissionID}", "permission.respond", questions::respond).fails(&[NoPermission, Busy]),
        route(Sdk, Get, "/question", "question.list", questions::questions),
        route(Terminal, Post, "/question/{requestID}/reply", "question.reply", questions::reply).fails(&[NoQuestion, Busy]),
        route(Terminal, Post, "/question/{requestID}/reject", "question.reject", questions::reject).fails(&[NoQuestion, Busy]),
        // the page of a run
        route(Leftfold, Get, "/leftfold/overview", "leftfold.overview", pages::overview),
        route(Leftfold, Get, "/leftfold/run/{sessionID}/feed", "leftfold.run.feed", pages::feed).fails(&[NotFound]),
        route(Leftfold, Get, "/leftfold/run/{sessionID}/block/{name}", "leftfold.run.block", pages::block).fails(&[NotFound, Stale]),
        route(Leftfold, Post, "/leftfold/run/{sessionID}/fork", "leftfold.run.fork", pages::fork).fails(&[NotFound, Busy]),
        route(Leftfold, Post, "/leftfold/run/{sessionID}/revert", "leftfold.run.revert", pages::revert).fails(&[NotFound, Busy]),
        // remote control of terminals
        route(Web, Post, "/tui/append-prompt", "tui.appendPrompt", control::append_prompt),
        route(Web, Post, "/tui/submit-prompt", "tui.submitPrompt", control::submit_prompt),
        route(Web, Post, "/tui/clear-prompt", "tui.clearPrompt", control::clear_prompt),
        route(Web, Post, "/tui/open-help", "tui.openHelp", control::open_help),
        route(Web, Post, "/tui/open-sessions", "tui.openSessions", control::open_sessions),
        route(Web, Post, "/tui/open-themes", "tui.openThemes", control::open_themes),
        route(Web, Post, "/tui/open-models", "tui.openModels", control::open_models),
        route(Web, Post, "/tui/execute-command", "tui.executeCommand", control::execute_command),
        route(Web, Post, "/tui/show-toast", "tui.showToast", control::show_toast),
        route(Web, Post, "/tui/select-session", "tui.selectSession", control::select_session).fails(&[NotFound]),
        route(Web, Post, "/tui/publish", "tui.publish", control::publish).fails(&[NotFound]),
        route(Web, Get, "/tui/control/next", "tui.control.next", control::next),
        route(Web, Post, "/tui/control/response", "tui.control.response", control::response),
        // terminals of the person
        route(Web, Get, "/pty/shells", "pty.shells", terminals::shells),
        route(Web, Get, "/pty", "pty.list", terminals::list),
        route(Web, Post, "/pty", "pty.create", terminals::create),
        route(Web, Get, "/pty/{ptyID}", "pty.get", terminals::one).fails(&[NoTerminal]),
        route(Web, Put, "/pty/{ptyID}", "pty.update", terminals::change).fails(&[NoTerminal]),
        route(Web, Delete, "/pty/{ptyID}", "pty.remove", terminals::remove).fails(&[NoTerminal]),
        route(Web, Post, "/pty/{ptyID}/connect-token", "pty.connectToken", terminals::ticket).fails(&[NoTerminal, TerminalForbidden]),
        route(Web, Get, "/pty/{ptyID}/connect", "pty.connect", terminals::connect).fails(&[NoTerminal, TerminalForbidden]),
        // the second version of the API, as far as clients of the first read it
        route(Terminal, Get, "/api/location", "v2.location.get", config::location),
        route(Terminal, Get, "/api/fs/find", "v2.fs.find", files::find_located),
        route(Web, Get, "/api/session", "v2.session.list", lists::located_sessions),
        route(Terminal, Get, "/api/agent", "v2.agent.list", config::located_list),
        route(Terminal, Get, "/api/model", "v2.model.list", config::located_list),
        route(Terminal, Get, "/api/provider", "v2.provider.list", config::located_list),
        route(Terminal, Get, "/api/integration", "v2.integration.list", config::located_list),
        route(Terminal, Get, "/api/command", "v2.command.list", config::located_list),
        route(Terminal, Get, "/api/skill", "v2.skill.list", config::located_list),
        route(Terminal, Get, "/api/reference", "v2.reference.list", config::located_list),
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

async fn documentation() -> axum::Json<Shaped<Free>> {
    shaped(openapi())
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
    let mut document = json!({
        "openapi": "3.1.0",
        "info": { "title": "Leftfold", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "password": { "type": "http", "scheme": "basic" } },
        },
        // only a server with a password needs it
        "security": [{}, { "password": [] }],
    });
    simplify(&mut document);
    document
}

impl Route {
    fn documented(&self, generator: &mut SchemaGenerator) -> Value {
        let mut operation = Operation::new(generator, self.path, self.method.effect());
        (self.describe)(&mut operation);
        self.failures.iter().for_each(|failure| operation.fails(*failure));
        let mut object = operation.object();
        object.insert("operationId".to_owned(), self.id.into());
        object.insert("tags".to_owned(), json!([self.group]));
        object.into()
    }
}

impl Described for terminals::OnlyTicket {}
impl Described for terminals::Upgrade {}

impl Described for terminals::AsksForTicket {
    fn describe(operation: &mut Operation<'_>) {
        // generators make no headers of one value
        let schema = json!({ "type": "string", "description": "It is `1`." });
        operation.takes("header", Self::HEADER, true, &schema);
    }
}

impl Answers for terminals::Connected {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers_nothing("101", "the WebSocket of the terminal");
    }
}
