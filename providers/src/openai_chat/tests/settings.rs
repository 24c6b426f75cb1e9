//! From settings to address and headers.

use super::*;

fn config(name: &str, base: Option<&str>, key: Option<&str>) -> Config {
    let mut config = Config::new(name, Wire::OPENAI_CHAT);
    config.base_url = base.map(str::to_owned);
    config.api_key = key.map(str::to_owned);
    config
}

fn error(config: Config) -> String {
    client(config).unwrap_err().to_string()
}

#[test]
fn addresses() {
    for (name, base, url) in [
        ("openai", None, "https://api.openai.com/v1/chat/completions"),
        ("groq", None, "https://api.groq.com/openai/v1/chat/completions"),
        ("perplexity", None, "https://api.perplexity.ai/chat/completions"),
        ("mine", Some("http://127.0.0.1:8080/v1/"), "http://127.0.0.1:8080/v1/chat/completions"),
        ("mine", Some("http://127.0.0.1:8080"), "http://127.0.0.1:8080/chat/completions"),
        (
            "azure",
            Some("https://r.openai.azure.com/openai/deployments/d?api-version=1"),
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=1",
        ),
    ] {
        let provider = client(config(name, base, Some("key"))).unwrap();
        assert_eq!(provider.endpoint.url.as_str(), url);
    }
    assert!(
        error(config("azure", None, Some("key"))).contains("`provider.azure.options.resourceName`")
    );
    assert!(error(config("p", Some("localhost:80"), None)).contains("baseURL"));
}

#[test]
fn keys() {
    let missing = error(config("groq", None, Some(" ")));
    assert!(missing.contains("GROQ_API_KEY"), "{missing}");
    // a server of the user's may need no key
    for (name, base) in [("mine", Some("http://127.0.0.1/v1")), ("ollama", None)] {
        let provider = client(config(name, base, None)).unwrap();
        assert!(!provider.endpoint.headers.contains_key("authorization"));
    }
    for (name, header, value) in
        [("mine", "authorization", "Bearer k-1"), ("azure", "api-key", "k-1")]
    {
        let provider = client(config(name, Some("http://127.0.0.1/v1"), Some(" k-1\n"))).unwrap();
        let headers = &provider.endpoint.headers;
        assert_eq!(headers.get(header).unwrap(), value);
        assert!(headers.get(header).unwrap().is_sensitive());
        assert!(!headers.contains_key("anthropic-version"));
    }
    let mut gateway = config("openai", None, None);
    gateway.headers = vec![("Authorization".into(), "Token x".into())];
    let provider = client(gateway).unwrap();
    assert_eq!(provider.endpoint.headers.get("authorization").unwrap(), "Token x");
    let newline = error(config("p", Some("http://127.0.0.1/v1"), Some("sk-secret\nx")));
    assert!(newline.contains("apiKey") && !newline.contains("sk-secret"), "{newline}");
    let mut bad = config("p", Some("http://127.0.0.1/v1"), None);
    bad.headers = vec![("a b".into(), "c".into())];
    assert!(error(bad).contains("`a b`"));
}
