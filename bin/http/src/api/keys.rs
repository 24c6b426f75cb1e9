//! Keys of providers. They go to the file that `leftfold auth login` writes, and come out in no answer.

use std::fmt;

use leftfold_config::auth::{self, SignedIn};
use leftfold_runtime::{model, sign_in};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Answer, Directory, JsonBody, Path, blocking, config, yes};
use crate::error::ApiError;

/// The credentials of OpenCode's clients. Leftfold stores keys, and tokens of sign-ins that it knows.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schemars(rename = "Auth")]
pub(super) enum Credentials {
    Api {
        key: String,
    },
    #[serde(rename_all = "camelCase")]
    Oauth {
        access: String,
        refresh: String,
        /// Milliseconds since 1970; 0: they do not expire.
        expires: u64,
        account_id: Option<String>,
        enterprise_url: Option<String>,
    },
    Wellknown {},
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Api { .. } => "Api",
            Self::Oauth { .. } => "Oauth",
            Self::Wellknown {} => "Wellknown",
        })
    }
}

pub(super) async fn store(
    Path(provider): Path<String>,
    Directory(directory): Directory,
    JsonBody(credentials): JsonBody<Credentials>,
) -> Answer<bool> {
    let secret = |name: &str, text: &str| {
        auth::parse_key(text).map_err(|why| ApiError::bad_request(format!("body: `{name}`: {why}")))
    };
    let no_sign_in = || {
        ApiError::bad_request("body: `type`: only `api`, a provider's key, can be stored for it")
    };
    let key = match credentials {
        Credentials::Api { key } => key,
        Credentials::Oauth { access, refresh, expires, account_id, enterprise_url } => {
            let row = sign_in::for_provider(&provider).ok_or_else(no_sign_in)?;
            let host = enterprise_url.as_deref().map(|url| {
                let host = url.strip_prefix("https://").unwrap_or(url);
                host.trim_end_matches('/').to_owned()
            });
            let (access, refresh) = (secret("access", &access)?, secret("refresh", &refresh)?);
            let account = account_id;
            let signed_in = SignedIn { access, refresh, expires, account, host };
            blocking(move || sign_in::store(row, &signed_in)).await?;
            return yes();
        }
        Credentials::Wellknown {} => return Err(no_sign_in()),
    };
    let settings = config::settings(&directory).await?;
    if settings.provider_summary(&provider, &model::environment).is_none() {
        return Err(ApiError::not_found(
            "there is no provider of this name: add it to leftfold.json first",
        ));
    }
    let key = secret("key", &key)?;
    blocking(move || Ok(auth::store(&model::environment, &provider, &key)?)).await?;
    yes()
}

/// True also if there was no key.
pub(super) async fn forget(Path(provider): Path<String>) -> Answer<bool> {
    blocking(move || Ok(auth::forget(&model::environment, &provider)?)).await?;
    yes()
}
