//! Rejects requests whose parameters do not fit their method; the agent never sees them. The answer
//! names the field, and does not repeat the received value, which may contain keys.

use agent_client_protocol::v1::schema::{
    AGENT_METHOD_NAMES, AuthenticateRequest, CloseSessionRequest, DeleteSessionRequest,
    ForkSessionRequest, InitializeRequest, ListSessionsRequest, LoadSessionRequest,
    NewSessionRequest, PromptRequest, ResumeSessionRequest, SetSessionConfigOptionRequest,
    SetSessionModeRequest,
};
use agent_client_protocol::{RawJsonRpcMessage, RawJsonRpcParams, TransportFrame};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::content::invalid;

/// The error answer for a request with wrong parameters; `None` if they are right or the method is
/// not the protocol's.
pub(super) fn refused(frame: &TransportFrame) -> Option<TransportFrame> {
    let TransportFrame::Single(RawJsonRpcMessage::Request(request)) = frame else { return None };
    let params = match &request.params {
        Some(RawJsonRpcParams::Object(params)) => params.clone(),
        Some(RawJsonRpcParams::Array(_)) => return None,
        None => Map::new(),
    };
    let error = invalid(&wrong(&request.method, &Value::Object(params))?);
    let answer = RawJsonRpcMessage::response(request.id.clone(), Err(error));
    Some(TransportFrame::Single(answer))
}

/// The problem with the parameters of a method.
fn wrong(method: &str, params: &Value) -> Option<String> {
    let names = AGENT_METHOD_NAMES;
    let check = match method {
        _ if method == names.initialize => unfit::<InitializeRequest>,
        _ if method == names.authenticate => unfit::<AuthenticateRequest>,
        _ if method == names.session_new => unfit::<NewSessionRequest>,
        _ if method == names.session_load => unfit::<LoadSessionRequest>,
        _ if method == names.session_resume => unfit::<ResumeSessionRequest>,
        _ if method == names.session_list => unfit::<ListSessionsRequest>,
        _ if method == names.session_fork => unfit::<ForkSessionRequest>,
        _ if method == names.session_close => unfit::<CloseSessionRequest>,
        _ if method == names.session_delete => unfit::<DeleteSessionRequest>,
        _ if method == names.session_set_mode => unfit::<SetSessionModeRequest>,
        _ if method == names.session_set_config_option => unfit::<SetSessionConfigOptionRequest>,
        _ if method == names.session_prompt => unfit::<PromptRequest>,
        _ => return None,
    };
    check(params)
}

fn unfit<T: DeserializeOwned>(params: &Value) -> Option<String> {
    let error = serde_path_to_error::deserialize::<_, T>(params).err()?;
    let (path, what) = (error.path().to_string(), error.inner());
    Some(if path == "." { what.to_string() } else { format!("{path}: {what}") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_field_is_named() {
        let server = json!({ "name": "x", "env": [{ "name": "KEY", "value": "secret" }] });
        for (method, params, field) in [
            ("session/new", json!({ "cwd": 42, "mcpServers": [] }), "cwd: "),
            ("session/new", json!({ "mcpServers": [] }), "`cwd`"),
            ("session/new", json!({ "cwd": "/", "mcpServers": [server] }), "mcpServers[0]: "),
            (
                "session/prompt",
                json!({ "sessionId": "s", "prompt": [{ "type": "text" }] }),
                "prompt[0]: ",
            ),
            ("session/prompt", json!({ "sessionId": 7, "prompt": [] }), "sessionId: "),
            ("session/list", json!({ "cursor": 7 }), "cursor: "),
        ] {
            let wrong = wrong(method, &params).unwrap_or_default();
            assert!(wrong.contains(field), "{method} {params}: {wrong}");
            assert!(!wrong.contains("secret"), "{wrong}");
        }
    }

    #[test]
    fn what_is_right_and_what_is_not_the_protocols_passes() {
        for (method, params) in [
            ("initialize", json!({ "protocolVersion": 1 })),
            ("session/new", json!({ "cwd": "/", "mcpServers": [] })),
            ("session/list", json!({})),
            ("_leftfold/why", json!({ "session": 7 })),
            ("no_such/method", json!({ "cwd": 42 })),
        ] {
            assert_eq!(wrong(method, &params), None, "{method}");
        }
    }
}
