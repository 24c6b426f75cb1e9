//! Programs on this machine that serve models without a key. They are asked only when a person looks for a model: at the
//! first start, and for `/login`.

use std::time::Duration;

use leftfold_config::environment;

/// How long the servers may take to list their models.
const LIST_TIMEOUT: Duration = Duration::from_millis(500);
/// The most models to offer of one server.
const MAX_MODELS: usize = 9;

/// A program that serves models on this machine.
#[derive(Debug)]
pub struct LocalServer {
    pub title: &'static str,
    pub provider: &'static str,
    /// Its usual address, on the loopback interface.
    base: &'static str,
    /// The variable that names another address.
    variable: &'static str,
    /// Whether Leftfold knows the provider without settings.
    pub is_builtin: bool,
}

const SERVERS: [LocalServer; 3] = [
    LocalServer {
        title: "Ollama",
        provider: "ollama",
        base: "http://127.0.0.1:11434/v1",
        variable: "OLLAMA_BASE_URL",
        is_builtin: true,
    },
    LocalServer {
        title: "LM Studio",
        provider: "lmstudio",
        base: "http://127.0.0.1:1234/v1",
        variable: "LMSTUDIO_BASE_URL",
        is_builtin: true,
    },
    LocalServer {
        title: "llama.cpp",
        provider: "llamacpp",
        base: "http://127.0.0.1:8080/v1",
        variable: "LLAMACPP_BASE_URL",
        is_builtin: false,
    },
];

/// A model of a server.
#[derive(Debug)]
pub struct ServedModel {
    pub server: &'static LocalServer,
    pub base: String,
    pub model: String,
}

/// The models of all servers that answer. Names that could not be typed are left out: any program may have the port.
pub async fn models() -> Vec<ServedModel> {
    let ask = |server: &'static LocalServer| {
        let base = environment(server.variable).unwrap_or_else(|| server.base.to_owned());
        let asking = tokio::spawn(async move {
            let models = leftfold_providers::served(&base, LIST_TIMEOUT).await;
            (base, models.unwrap_or_default())
        });
        (server, asking)
    };
    let asked: Vec<_> = SERVERS.iter().map(ask).collect();
    let mut found = Vec::new();
    for (server, answer) in asked {
        let Ok((base, models)) = answer.await else { continue };
        let can_be_typed =
            |model: &String| !model.contains(|c: char| c.is_whitespace() || c.is_control());
        let models = models.into_iter().filter(can_be_typed).take(MAX_MODELS);
        found.extend(models.map(|model| ServedModel { server, base: base.clone(), model }));
    }
    found
}
