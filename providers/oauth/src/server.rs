//! One authorization server: its addresses, and the requests for tokens that every way of signing in ends with.
//!
//! `bin/runtime/src/account/sign_in.rs` decides when tokens of sign-ins at vendors are refreshed.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leftfold_framing::clip;
use oauth2::basic::{
    BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse,
    BasicTokenType,
};
use oauth2::{
    AuthorizationCode, ClientId, EndpointNotSet, EndpointSet, ErrorResponse, ExtraTokenFields,
    PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope, StandardRevocableToken,
    StandardTokenResponse, TokenResponse, TokenUrl,
};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::{self, Http, NoAnswer, passes};
use crate::claims;
use crate::row::SignIn;

/// Bytes kept of a server's error.
const MAX_WHY: usize = 500;

/// Why there are no tokens. The text is for people.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server has decided: asking again changes nothing.
    #[error("{0}")]
    Refused(String),
    /// The server cannot be reached, or cannot answer now.
    #[error("{0}")]
    Unavailable(String),
}

/// The tokens that a server granted.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    pub access: String,
    /// `None`: the old one stays valid, or there is none.
    pub refresh: Option<String>,
    /// Milliseconds since 1970; `None`: not known.
    pub expires: Option<u64>,
    /// The account that they are for, if they name one.
    pub account: Option<String>,
}

/// Shows no token.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// The member of OpenID Connect in the answer of a token endpoint.
#[derive(Deserialize, Serialize)]
pub(crate) struct IdToken {
    id_token: Option<String>,
}

/// Shows no token.
impl fmt::Debug for IdToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdToken").finish_non_exhaustive()
    }
}

impl ExtraTokenFields for IdToken {}

pub(crate) type Granted = StandardTokenResponse<IdToken, BasicTokenType>;

pub(crate) type Client<Auth = EndpointNotSet, Device = EndpointNotSet> = oauth2::Client<
    BasicErrorResponse,
    Granted,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    Auth,
    Device,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// An error of an endpoint that is not part of the standard.
pub(crate) struct Answered {
    pub(crate) status: u64,
    pub(crate) code: String,
    pub(crate) about: String,
}

/// The authorization server of a row, at its own address or at another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub row: &'static SignIn,
    /// Without a `/` at the end.
    pub(crate) issuer: String,
    /// The address of the API, without a `/` at the end.
    api: String,
}

impl Server {
    /// `host`: an organization's own. `variable` gives the value of an environment variable.
    ///
    /// # Errors
    /// An address cannot be used, in words for people.
    pub fn new(
        row: &'static SignIn,
        host: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let (issuer, api) = match (host, &row.enterprise) {
            (Some(host), Some(enterprise)) => {
                let host = self::host(host)?;
                (
                    enterprise.issuer.replace("{host}", &host),
                    enterprise.api.replace("{host}", &host),
                )
            }
            (Some(_), None) => return Err(format!("{} has no other hosts", row.label)),
            (None, _) => (row.issuer.to_owned(), row.api.to_owned()),
        };
        let at = |name: &str, usual: String| match variable(name) {
            Some(other) => address(name, &other),
            None => Ok(usual),
        };
        Ok(Self { row, issuer: at(row.issuer_variable, issuer)?, api: at(row.api_variable, api)? })
    }

    /// The address of the API that accepts the tokens.
    pub fn api(&self) -> &str {
        &self.api
    }

    /// Exchanges a refresh token.
    ///
    /// # Errors
    /// The server refuses or is not available.
    pub async fn refresh(&self, refresh: &str) -> Result<Tokens, Error> {
        let http = self.http().await?;
        let client = self.client()?;
        let token = RefreshToken::new(refresh.to_owned());
        let granted = client.exchange_refresh_token(&token).request_async(http).await;
        self.tokens(&granted.map_err(|error| self.failed(error, &[refresh]))?)
    }

    /// Exchanges the code that consent led to.
    pub(crate) async fn exchange(
        &self,
        http: &Http,
        code: &str,
        verifier: PkceCodeVerifier,
        redirect: &str,
    ) -> Result<Tokens, Error> {
        let secrets = [code.to_owned(), verifier.secret().clone()];
        let redirect = RedirectUrl::new(redirect.to_owned());
        let client = self.client()?.set_redirect_uri(redirect.map_err(|e| self.strange(&e))?);
        let request = client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let granted = request.set_pkce_verifier(verifier).request_async(http).await;
        let secrets = secrets.each_ref().map(String::as_str);
        self.tokens(&granted.map_err(|error| self.failed(error, &secrets))?)
    }

    /// Ends a grant. Returns false if the server has no such endpoint for everybody.
    ///
    /// # Errors
    /// The server refuses or is not available.
    pub async fn revoke(&self, token: &str) -> Result<bool, Error> {
        let http = self.http().await?;
        let Some(path) = self.row.revoke else { return Ok(false) };
        let body = json!({
            "token": token, "token_type_hint": "refresh_token", "client_id": self.row.client_id,
        });
        let sent = self.post(http, path, &body).await?;
        match sent {
            Ok(_) => Ok(true),
            // an answer without a body is a success too
            Err(answered) if answered.code == "no_json" => Ok(true),
            Err(answered) => Err(self.error(&answered.code, Some(&answered.about), &[token])),
        }
    }

    /// Sends JSON to an endpoint that is not part of the standard. Returns its answer, or its error.
    pub(crate) async fn post(
        &self,
        http: &Http,
        path: &str,
        body: &Value,
    ) -> Result<Result<Value, Answered>, Error> {
        let request = ::http::Request::post(self.url(path))
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(body.to_string().into_bytes())
            .map_err(|error| self.strange(&error))?;
        let answer = answer::send(http, request).await.map_err(|error| self.gone(&error))?;
        let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        if answer.status().is_success() {
            return Ok(Ok(body));
        }
        let text =
            |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let status = body.get("status").and_then(Value::as_u64).unwrap_or_default();
        Ok(Err(Answered { status, code: text("error"), about: text("error_description") }))
    }

    pub(crate) async fn http(&self) -> Result<&'static Http, Error> {
        Http::shared().await.map_err(|error| self.gone(&error))
    }

    pub(crate) fn client(&self) -> Result<Client, Error> {
        let token =
            TokenUrl::new(self.url(self.row.token)).map_err(|error| self.strange(&error))?;
        let client = oauth2::Client::new(ClientId::new(self.row.client_id.to_owned()));
        Ok(client.set_token_uri(token))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.issuer)
    }

    pub(crate) fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.row.scopes.split_whitespace().map(|scope| Scope::new(scope.to_owned()))
    }

    pub(crate) fn tokens(&self, granted: &Granted) -> Result<Tokens, Error> {
        let access = granted.access_token().secret().clone();
        if access.trim().is_empty() || !access.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(self.error("no token", Some("its answer has no usable token"), &[]));
        }
        let id = granted.extra_fields().id_token.as_deref().and_then(claims::from_token);
        let own = claims::from_token(&access);
        let account = self.row.account.as_ref().and_then(|account| {
            [&id, &own].into_iter().flatten().find_map(|all| claims::text(all, account.claims))
        });
        let lasts = granted.expires_in().and_then(|lasts| SystemTime::now().checked_add(lasts));
        let lasts = lasts.and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        let claimed =
            own.as_ref().and_then(|own| own.get("exp")?.as_u64()).map(Duration::from_secs);
        let expires = lasts.or(claimed).and_then(|end| u64::try_from(end.as_millis()).ok());
        let refresh = granted.refresh_token().map(|token| token.secret().clone());
        let refresh = refresh.filter(|token| !token.trim().is_empty());
        Ok(Tokens { access, refresh, expires, account })
    }

    pub(crate) fn failed<T: ErrorResponse>(
        &self,
        error: RequestTokenError<NoAnswer, T>,
        secrets: &[&str],
    ) -> Error {
        match error {
            RequestTokenError::ServerResponse(response) => {
                let response = serde_json::to_value(response).unwrap_or_default();
                let text = |name: &str| response.get(name).and_then(Value::as_str);
                self.error(text("error").unwrap_or("unknown"), text("error_description"), secrets)
            }
            RequestTokenError::Request(error) => self.gone(&error),
            // the error itself may quote the answer
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                Error::Unavailable(format!("the answer of {} cannot be read", self.issuer))
            }
        }
    }

    pub(crate) fn error(&self, code: &str, about: Option<&str>, secrets: &[&str]) -> Error {
        let about = about.map(|about| format!(": {about}")).unwrap_or_default();
        let mut why = format!("{} refused: {code}{about}", self.issuer);
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            why = why.replace(secret, "[hidden]");
        }
        let why = clip(why, MAX_WHY);
        if passes(code) { Error::Unavailable(why) } else { Error::Refused(why) }
    }

    fn gone(&self, error: &NoAnswer) -> Error {
        Error::Unavailable(format!("{}: {error}", self.issuer))
    }

    pub(crate) fn strange(&self, error: &dyn fmt::Display) -> Error {
        Error::Refused(format!("an address at {} cannot be used: {error}", self.issuer))
    }
}

/// A host's name, from a name or an address.
fn host(given: &str) -> Result<String, String> {
    let given = given.trim();
    let text = if given.contains("://") { given.to_owned() } else { format!("https://{given}") };
    let url = Url::parse(&text).ok().filter(|url| {
        url.scheme() == "https" && url.username().is_empty() && matches!(url.path(), "" | "/")
    });
    let name = url.as_ref().and_then(|url| url.host_str().map(|host| (host, url.port())));
    match name {
        Some((host, None)) => Ok(host.to_owned()),
        Some((host, Some(port))) => Ok(format!("{host}:{port}")),
        None => Err(format!("`{given}` is not a host: expected a name such as `company.ghe.com`")),
    }
}

/// An address in a variable. Tokens go there, so it is encrypted or on this machine.
fn address(variable: &str, given: &str) -> Result<String, String> {
    let given = given.trim().trim_end_matches('/');
    let bad = |why: &str| format!("`{variable}` is `{given}`, which cannot be used: {why}");
    let url = Url::parse(given).map_err(|error| bad(&error.to_string()))?;
    let here =
        url.host_str().is_some_and(|host| matches!(host, "127.0.0.1" | "localhost" | "[::1]"));
    match url.scheme() {
        "https" => Ok(given.to_owned()),
        "http" if here => Ok(given.to_owned()),
        _ => Err(bad("expected `https://…`, or `http://` with an address of this machine")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_only_to_encrypted_addresses_or_this_machine() {
        for (given, expected) in [
            ("https://gate.test/x/", Some("https://gate.test/x")),
            ("http://127.0.0.1:9/v1", Some("http://127.0.0.1:9/v1")),
            ("http://localhost:9", Some("http://localhost:9")),
            ("http://gate.test", None),
            ("http://127.0.0.1.gate.test", None),
            ("ftp://gate.test", None),
            ("gate", None),
        ] {
            assert_eq!(address("V", given).ok().as_deref(), expected, "{given}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_the_root_of_its_address() {
        for (given, expected) in [
            ("company.ghe.com", Some("company.ghe.com")),
            ("https://company.ghe.com/", Some("company.ghe.com")),
            ("company.test:8443", Some("company.test:8443")),
            ("http://company.ghe.com", None),
            ("company.ghe.com/evil", None),
            ("me@company.ghe.com", None),
            ("", None),
        ] {
            assert_eq!(host(given).ok().as_deref(), expected, "{given}");
        }
    }
}
