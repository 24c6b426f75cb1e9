//! The environment of commands: an allow-list, so that keys in the node's environment never reach
//! them.

use std::ffi::{OsStr, OsString};

use leftfold_events::secrets::is_credential;

/// Variables that are always passed on: general ones, and those of toolchains.
const NAMES: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "LANGUAGE", "TERM",
    "COLORTERM", "NO_COLOR", "TZ", "TMPDIR", "TMP", "TEMP", "CI", "CARGO_HOME", "CARGO_TARGET_DIR",
    "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUST_BACKTRACE", "GOPATH", "GOROOT", "GOBIN",
    "GOCACHE", "GOFLAGS", "JAVA_HOME", "MAVEN_HOME", "GRADLE_HOME", "GRADLE_USER_HOME",
    "ANDROID_HOME", "ANDROID_SDK_ROOT", "NVM_DIR", "NVM_BIN", "NODE_PATH", "PNPM_HOME",
    "VOLTA_HOME", "BUN_INSTALL", "DENO_DIR", "DENO_INSTALL", "VIRTUAL_ENV", "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV", "PYTHONPATH", "PYENV_ROOT", "UV_CACHE_DIR", "RBENV_ROOT", "GEM_HOME",
    "GEM_PATH", "BUNDLE_PATH", "COMPOSER_HOME", "DOTNET_ROOT", "ASDF_DIR", "ASDF_DATA_DIR",
    "NIX_PATH", "NIX_PROFILES", "NIX_SSL_CERT_FILE", "HOMEBREW_PREFIX", "CC", "CXX", "CFLAGS",
    "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
];

/// Variables with addresses, passed on unless the value may contain a user name and password.
const ADDRESSES: &[&str] = &[
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy",
    "no_proxy", "GOPROXY", "PIP_INDEX_URL", "UV_INDEX_URL", "npm_config_registry",
    "NPM_CONFIG_REGISTRY",
];

/// They lead to programs of the user that would act for the command: the SSH agent, the screen, the
/// session's services. Passed on only if the settings name them in full.
const SERVICES: &[&str] = &["DISPLAY", "SSH_AUTH_SOCK", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"];

/// Variables set for every command, so that none waits for input from a terminal.
const FIXED: &[(&str, &str)] =
    &[("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true")];

/// The setting of git for repositories without a worktree.
const BARE_REPOSITORY: &str = "safe.bareRepository";

/// The most settings of git that the user's variables may hold.
const MAX_GIT_SETTINGS: usize = 1_000;

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
    let passed: Vec<_> = all.filter(|(name, value)| passes(name, value, added)).collect();
    let guard = git_guard(&passed);
    passed.into_iter().chain(fixed).chain(guard).collect()
}

/// Variables that let git use a bare repository only where a command names it (`--git-dir`, `GIT_DIR`). A project
/// can contain one, and git would run the programs in its settings. They follow the settings of git that are
/// `passed`, if these do not decide it.
fn git_guard(passed: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let value = |name: &str| {
        let found = passed.iter().find(|(passed, _)| passed == name);
        found.and_then(|(_, value)| value.to_str())
    };
    let count = value("GIT_CONFIG_COUNT").and_then(|count| count.parse::<usize>().ok());
    let count = count.filter(|count| *count < MAX_GIT_SETTINGS).unwrap_or_default();
    let key = |n| value(&format!("GIT_CONFIG_KEY_{n}")).unwrap_or_default();
    if (0..count).any(|n| key(n).eq_ignore_ascii_case(BARE_REPOSITORY)) {
        return Vec::new();
    }
    vec![
        (format!("GIT_CONFIG_KEY_{count}").into(), BARE_REPOSITORY.into()),
        (format!("GIT_CONFIG_VALUE_{count}").into(), "explicit".into()),
        ("GIT_CONFIG_COUNT".into(), (count + 1).to_string().into()),
    ]
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
    // the name of a setting of git, not a key
    let is_credential = is_credential(name) && !name.starts_with("GIT_CONFIG_KEY_");
    NAMES.contains(&name)
        || (ADDRESSES.contains(&name) && !value.as_encoded_bytes().contains(&b'@'))
        || (!ours && !is_credential && {
            name.starts_with("LC_") || name.starts_with("XDG_") || added.iter().any(asked_for)
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
    fn git_uses_a_bare_repository_only_where_it_is_named_unless_the_user_says_otherwise() {
        let setting = |n: usize, key: &str, value: &str| {
            let name = |what| format!("GIT_CONFIG_{what}_{n}");
            [(name("KEY"), key.to_owned()), (name("VALUE"), value.to_owned())]
        };
        let count = |n: &str| [("GIT_CONFIG_COUNT".to_owned(), n.to_owned())];
        let guard = |n| setting(n, "safe.bareRepository", "explicit");
        let names = [setting(0, "user.name", "me"), setting(1, "user.email", "a@b")].concat();
        let off = setting(0, "Safe.barerepository", "all");
        for (of_user, added, expected) in [
            (vec![], "", [count("1").as_slice(), &guard(0)].concat()),
            // they do not reach the command
            (
                [count("2").as_slice(), &names].concat(),
                "",
                [count("1").as_slice(), &guard(0)].concat(),
            ),
            (
                [count("2").as_slice(), &names].concat(),
                "GIT_CONFIG_*",
                [names.as_slice(), &count("3"), &guard(2)].concat(),
            ),
            (
                [count("1").as_slice(), &off].concat(),
                "GIT_CONFIG_*",
                [count("1").as_slice(), &off].concat(),
            ),
            (count("-1").to_vec(), "GIT_*", [count("1").as_slice(), &guard(0)].concat()),
        ] {
            let of_user = of_user.into_iter().map(|(name, value)| (name.into(), value.into()));
            let all = allowed(of_user, &[added.to_owned()]);
            // the last one counts
            let found: BTreeMap<String, String> = all
                .into_iter()
                .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
                .filter(|(name, _)| name.starts_with("GIT_CONFIG_"))
                .collect();
            assert_eq!(found, BTreeMap::from_iter(expected), "{added}");
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
