//! From settings to address and headers.

use super::*;

fn config(name: &str, base: Option<&str>, key: Option<&str>) -> Config {
    let mut config = Config::new(name, Wire::OPENAI_RESPONSES);
    config.base_url = base.map(str::to_owned);
    config.api_key = key.map(str::to_owned);
    config
}

#[test]
fn addresses() {
    for (name, base, url) in [
        ("openai", None, "https://api.openai.com/v1/responses"),
        ("mine", None, "https://api.openai.com/v1/responses"),
        ("xai", None, "https://api.x.ai/v1/responses"),
        ("mine", Some("http://127.0.0.1:8080/v1/"), "http://127.0.0.1:8080/v1/responses"),
        (
            "azure",
            Some("https://r.openai.azure.com/openai/v1"),
            "https://r.openai.azure.com/openai/v1/responses",
        ),
        (
            "azure",
            Some("https://r.openai.azure.com/openai?api-version=2025-04-01-preview"),
            "https://r.openai.azure.com/openai/responses?api-version=2025-04-01-preview",
        ),
    ] {
        let provider = client(config(name, base, Some("key"))).unwrap();
        assert_eq!(provider.endpoint.url.as_str(), url);
    }
    let missing = client(config("azure", None, Some("key"))).unwrap_err();
    assert!(missing.to_string().contains("`provider.azure.options.resourceName`"));
}

#[test]
fn keys() {
    let missing = client(config("openai", None, None)).unwrap_err().to_string();
    assert!(missing.contains("OPENAI_API_KEY"), "{missing}");
    for (name, header, value) in
        [("openai", "authorization", "Bearer k-1"), ("azure", "api-key", "k-1")]
    {
        let base = Some("https://r.openai.azure.com/openai/v1").filter(|_| name == "azure");
        let provider = client(config(name, base, Some(" k-1\n"))).unwrap();
        let headers = &provider.endpoint.headers;
        assert_eq!(headers.get(header).unwrap(), value);
        assert!(headers.get(header).unwrap().is_sensitive());
        // a key that is given later replaces it
        let extra = Extra { key: Some(" k-2\n".into()), ..Extra::default() };
        let given = provider.endpoint.with(&extra).headers;
        assert_eq!(given.get(header).unwrap(), &value.replace("k-1", "k-2"));
        assert!(given.get(header).unwrap().is_sensitive() && given.len() == headers.len());
        assert!(!format!("{extra:?}").contains("k-2"));
    }
    // a server of the user's may need no key
    let local = client(config("mine", Some("http://127.0.0.1/v1"), None)).unwrap();
    assert!(!local.endpoint.headers.contains_key("authorization"));
}
