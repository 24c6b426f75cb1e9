//! The environment of commands: an allow-list, so that keys in the node's environment never reach
//! them.

use std::ffi::{OsStr, OsString};

use leftfold_events::secrets::is_credential;

/// Variables that are always passed on.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "CI",
    // toolchains
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTFLAGS",
    "RUST_BACKTRACE",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "GOCACHE",
    "GOFLAGS",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "NVM_DIR",
    "NVM_BIN",
    "NODE_PATH",
    "PNPM_HOME",
    "VOLTA_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "DENO_INSTALL",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYTHONPATH",
    "PYENV_ROOT",
    "UV_CACHE_DIR",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_PATH",
    "COMPOSER_HOME",
    "DOTNET_ROOT",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "NIX_SSL_CERT_FILE",
    "HOMEBREW_PREFIX",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "CMAKE_PREFIX_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
];

/// Variables with addresses, passed on unless the value may contain a user name and password.
const ADDRESSES: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "GOPROXY",
    "PIP_INDEX_URL",
    "UV_INDEX_URL",
    "npm_config_registry",
    "NPM_CONFIG_REGISTRY",
];

/// They lead to programs of the user that would act for the command: the SSH agent, the screen, the
/// session's services. Passed on only if the settings name them in full.
const SERVICES: &[&str] = &["DISPLAY", "SSH_AUTH_SOCK", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"];

/// Variables set for every command, so that none waits for input from a terminal.
const FIXED: &[(&str, &str)] =
    &[("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true")];

/// The environment of commands: the allowed part of this process's environment. `added` names
/// further variables; a `*` at the end of a name stands for any rest.
pub fn environment(added: &[String]) -> Vec<(OsString, OsString)> {
    allowed(std::env::vars_os(), added)
}

fn allowed(
    all: impl Iterator<Item = (OsString, OsString)>,
    added: &[String],
) -> Vec<(OsString, OsString)> {
    let fixed = FIXED.iter().map(|(name, value)| (name.into(), value.into()));
    all.filter(|(name, value)| passes(name, value, added)).chain(fixed).collect()
}

fn passes(name: &OsStr, value: &OsStr, added: &[String]) -> bool {
    let Some(name) = name.to_str() else { return false };
    if SERVICES.contains(&name) {
        return added.iter().any(|added| added == name);
    }
    let asked_for = |added: &String| match added.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == added,
    };
    let ours = name.starts_with("LEFTFOLD_");
    NAMES.contains(&name)
        || (ADDRESSES.contains(&name) && !value.as_encoded_bytes().contains(&b'@'))
        || (!ours && !is_credential(name) && {
            name.starts_with("LC_") || name.starts_with("XDG_") || added.iter().any(asked_for)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_here() {
        for (name, value, passed) in [
            ("PATH", "/bin", true),
            ("LC_ALL", "C", true),
            ("XDG_DATA_DIRS", "/d", true),
            ("XDG_SESSION_TOKEN", "t", false),
            ("SSH_AUTH_SOCK", "/s", false),
            ("DISPLAY", ":0", false),
            ("XDG_RUNTIME_DIR", "/run/user/1", false),
            ("CARGO_HOME", "/c", true),
            ("ANTHROPIC_API_KEY", "sk", false),
            ("OPENAI_API_KEY", "sk", false),
            ("GITHUB_TOKEN", "t", false),
            ("AWS_SECRET_ACCESS_KEY", "s", false),
            ("LEFTFOLD_HOME", "/l", false),
            ("LEFTFOLD_CALL", "outer", false),
            ("BASH_ENV", "/evil", false),
            ("MYPATH", "x", false),
            ("https_proxy", "http://proxy:3128", true),
            ("https_proxy", "http://me:pw@proxy:3128", false),
        ] {
            let vars = allowed([(name.into(), value.into())].into_iter(), &[]);
            let found = vars.contains(&(name.into(), value.into()));
            assert_eq!(found, passed, "{name}={value}");
        }
    }

    #[test]
    fn settings_add_names_but_never_those_of_credentials() {
        let added =
            ["DATABASE_URL", "MY_*", "NPM_TOKEN", "LEFTFOLD_*", "*", "SSH_AUTH_SOCK", "DISPLAY"]
                .map(str::to_owned);
        for (name, count, passed) in [
            ("DATABASE_URL", 1, true),
            ("DATABASE_URL_2", 4, false),
            ("MY_PORT", 2, true),
            ("MY_", 2, true),
            ("MY_API_KEY", 5, false),
            ("MY_DB_PASSWORD", 5, false),
            ("NPM_TOKEN", 5, false),
            ("LEFTFOLD_CALL", 5, false),
            ("ANYTHING", 4, false),
            ("ANYTHING", 5, true),
            ("GITHUB_PAT", 5, false),
            ("PATIENCE", 5, true),
            ("KEYBOARD", 5, true),
            ("SSH_AUTH_SOCK", 5, false),
            ("SSH_AUTH_SOCK", 6, true),
            ("DISPLAY", 6, false),
            ("DISPLAY", 7, true),
        ] {
            assert_eq!(passes(name.as_ref(), "x".as_ref(), &added[..count]), passed, "{name}");
        }
    }
}
