//! Keys of providers. They go to the file that `leftfold auth login` writes, and come out in no answer.

use std::fmt;

use leftfold_config::auth;
use leftfold_runtime::model;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Answer, Directory, JsonBody, Path, blocking, config, yes};
use crate::error::ApiError;

/// The credentials of OpenCode's clients. Leftfold stores keys.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Credentials {
    Api { key: String },
    Oauth {},
    Wellknown {},
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Api { .. } => "Api",
            Self::Oauth {} => "Oauth",
            Self::Wellknown {} => "Wellknown",
        })
    }
}

pub(super) async fn store(
    Path(provider): Path<String>,
    Directory(directory): Directory,
    JsonBody(credentials): JsonBody<Credentials>,
) -> Answer {
    let key = match credentials {
        Credentials::Api { key } => key,
        Credentials::Oauth {} | Credentials::Wellknown {} => {
            return Err(ApiError::bad_request(
                "body: `type`: only `api`, a provider's key, can be stored",
            ));
        }
    };
    let settings = config::settings(&directory).await?;
    let known = settings.provider_summaries(&model::environment);
    if !known.iter().any(|known| known.name == provider) {
        return Err(ApiError::not_found(
            "there is no provider of this name: add it to leftfold.json first",
        ));
    }
    let key = auth::parse_key(&key)
        .map_err(|why| ApiError::bad_request(format!("body: `key`: {why}")))?;
    blocking(move || Ok(auth::store(&model::environment, &provider, &key)?)).await?;
    yes()
}

/// True also if there was no key.
pub(super) async fn forget(Path(provider): Path<String>) -> Answer {
    blocking(move || Ok(auth::forget(&model::environment, &provider)?)).await?;
    yes()
}
