//! Signing in, from the first request to the tokens: with a browser on this machine, or with a code.
//!
//! Tokens of sign-ins at vendors are refreshed in `bin/runtime/src/account/sign_in.rs`.

use std::fmt;

use oauth2::{
    AuthUrl, CsrfToken, DeviceAuthorizationUrl, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl,
    StandardDeviceAuthorizationResponse,
};
use reqwest::Url;

use crate::answer::Http;
use crate::callback::{Callback, Redirect, query};
use crate::consent::{CONSENT_TIMEOUT, Consent};
use crate::row::{Browser, DeviceCode, SignIn};
use crate::server::{Error, Server, Tokens};
use crate::{consent, device};

/// The way in which a person signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// With a browser on this machine.
    Browser,
    /// With a code.
    Device,
}

impl Server {
    /// The methods that the row has, the usual one first.
    pub fn methods(row: &SignIn) -> Vec<Method> {
        let browser = row.browser.as_ref().map(|_| Method::Browser);
        browser.into_iter().chain([Method::Device]).collect()
    }

    /// Asks for a code, or listens for a browser: from here on a person can consent.
    ///
    /// # Errors
    /// The server refuses, is not available, or no port is free.
    pub async fn begin(&self, method: Method) -> Result<Started, Error> {
        let http = self.http().await?;
        let way = match (method, &self.row.browser, &self.row.device) {
            (Method::Browser, Some(browser), _) => self.browser(browser).await?,
            (Method::Browser, None, _) => {
                return Err(Error::Refused(format!(
                    "{} has no sign-in by redirect",
                    self.row.label
                )));
            }
            (Method::Device, _, DeviceCode::Standard(path)) => {
                Way::Standard(Box::new(self.device(http, path).await?))
            }
            (Method::Device, _, DeviceCode::OpenAi { start, .. }) => {
                Way::OpenAi(device::start(self, http, start).await?)
            }
        };
        Ok(Started { server: self.clone(), way })
    }

    async fn browser(&self, browser: &Browser) -> Result<Way, Error> {
        let Browser { redirect: path, ports, page, parameters } = *browser;
        let mut ports = ports.to_vec();
        if self.issuer != self.row.issuer {
            // another server may have registered any port
            ports.push(0);
        }
        let callback = Callback::open(Redirect { host: "localhost", ports: &ports, path }).await;
        let callback = callback.map_err(Error::Refused)?;
        let page = AuthUrl::new(self.url(page)).map_err(|error| self.strange(&error))?;
        let redirect = RedirectUrl::new(callback.address().to_owned());
        let redirect = redirect.map_err(|error| self.strange(&error))?;
        let client = self.client()?.set_auth_uri(page).set_redirect_uri(redirect);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = client
            .authorize_url(CsrfToken::new_random)
            .add_scopes(self.scopes())
            .set_pkce_challenge(challenge);
        for (name, value) in parameters {
            request = request.add_extra_param(*name, *value);
        }
        let (page, _) = request.url();
        Ok(Way::Browser { callback, page, verifier })
    }

    async fn device(
        &self,
        http: &Http,
        path: &str,
    ) -> Result<StandardDeviceAuthorizationResponse, Error> {
        let url = DeviceAuthorizationUrl::new(self.url(path));
        let url = url.map_err(|error| self.strange(&error))?;
        let client = self.client()?.set_device_authorization_url(url);
        let request = client.exchange_device_code().add_scopes(self.scopes());
        let code: Result<StandardDeviceAuthorizationResponse, _> =
            request.request_async(http).await;
        let code = code.map_err(|error| self.failed(error, &[]))?;
        // a browser is about to open it
        let page = Url::parse(code.verification_uri());
        if page.is_ok_and(|page| matches!(page.scheme(), "http" | "https")) {
            Ok(code)
        } else {
            Err(self.error("no_page", Some("the page for the code is not on the web"), &[]))
        }
    }
}

/// A sign-in that waits for a person. Dropping it ends it.
pub struct Started {
    server: Server,
    way: Way,
}

enum Way {
    Browser { callback: Callback, page: Url, verifier: PkceCodeVerifier },
    Standard(Box<StandardDeviceAuthorizationResponse>),
    OpenAi(device::Code),
}

/// Shows no code.
impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Started {
    /// The page to open.
    pub fn page(&self) -> String {
        match &self.way {
            Way::Browser { page, .. } => page.to_string(),
            Way::Standard(code) => code.verification_uri().to_string(),
            Way::OpenAi(code) => code.page.clone(),
        }
    }

    /// The code to type there.
    pub fn code(&self) -> Option<&str> {
        match &self.way {
            Way::Browser { .. } => None,
            Way::Standard(code) => Some(code.user_code().secret()),
            Way::OpenAi(code) => Some(&code.user),
        }
    }

    /// Waits for consent. `consent` shows the consent page; for a code, the caller shows page and code.
    ///
    /// # Errors
    /// There is no consent within some minutes, or the server refuses or is not available.
    pub async fn finish(self, consent: &impl Consent) -> Result<Tokens, Error> {
        let server = &self.server;
        let http = server.http().await?;
        match self.way {
            Way::Browser { callback, page, verifier } => {
                let url = consent::answer(page.as_str(), &callback, consent, CONSENT_TIMEOUT).await;
                let url = url.map_err(Error::Refused)?;
                let code = query(&url, "code").filter(|code| !code.is_empty());
                let Some(code) = code else {
                    return Err(Error::Refused("there was no consent".to_owned()));
                };
                server.exchange(http, &code, verifier, callback.address()).await
            }
            Way::Standard(code) => {
                let client = server.client()?;
                let request = client.exchange_device_access_token(&code);
                let granted = request
                    .request_async(http, tokio::time::sleep, Some(device::CODE_TIMEOUT))
                    .await;
                server.tokens(&granted.map_err(|error| server.failed(error, &[]))?)
            }
            Way::OpenAi(code) => device::finish(server, http, code).await,
        }
    }
}
