//! Connects to servers over HTTP.

use std::collections::HashMap;

use leftfold_oauth::http;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::serve_client;
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::client_handler::ClientHandler;
use super::failure::{Failure, of_start};
use super::oauth::{self, OAuth};
use super::sse;
use super::streamable_http::RepairingClient;

pub(super) async fn connect(
    url: &str,
    headers: &[(String, String)],
    oauth: &OAuth,
    handler: &ClientHandler,
) -> Result<RunningService<RoleClient, ClientHandler>, Failure> {
    let building = tokio::task::spawn_blocking(http::client).await;
    let client = building.map_err(|error| error.to_string())??;
    let all = all(headers)?;
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(all.clone())
        .reinit_on_expired_session(true);
    // an `Authorization` header in settings replaces signing in
    let named = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let signed_in = if named { None } else { oauth::client(url, oauth, &client).await? };
    let older = sse::Requests::new(&client, signed_in.clone(), &all);
    let served = match signed_in {
        Some(client) => {
            let transport = StreamableHttpClientTransport::with_client(client, config);
            serve_client(handler.clone(), transport).await
        }
        None => {
            let client = RepairingClient(client);
            let transport = StreamableHttpClientTransport::with_client(client, config);
            serve_client(handler.clone(), transport).await
        }
    };
    let failed = match served {
        Ok(service) => return Ok(service),
        Err(error) => error,
    };
    let wanted = of_start(&failed);
    if wanted.challenge.is_some() || !sse::has_answered(&failed) {
        return Err(wanted);
    }
    match older.open(url).await {
        Some(transport) => {
            serve_client(handler.clone(), transport).await.map_err(|error| of_start(&error))
        }
        None => Err(wanted),
    }
}

fn all(headers: &[(String, String)]) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut all = HashMap::new();
    for (name, value) in headers {
        let wrong = |()| {
            format!(
                "cannot send the header `{name}`: it contains characters that HTTP does not allow"
            )
        };
        let header = HeaderName::try_from(name).map_err(|_| ()).map_err(wrong)?;
        let mut value = HeaderValue::try_from(value).map_err(|_| ()).map_err(wrong)?;
        value.set_sensitive(true);
        all.insert(header, value);
    }
    Ok(all)
}
