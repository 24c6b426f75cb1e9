//! The ways to sign in instead of storing a key, from the vendors' own public clients.

use leftfold_oauth::{Account, Browser, DeviceCode, Enterprise, SignIn};

/// Every way to sign in. A provider has at most one.
pub(crate) const SIGN_INS: &[SignIn] = &[
    SignIn {
        provider: "openai",
        label: "ChatGPT",
        vendor: "chatgpt",
        client_id: "app_EMoamEEZ73f0CkXaXp7hrann",
        scopes: "openid profile email offline_access",
        issuer: "https://auth.openai.com",
        issuer_variable: "CHATGPT_AUTH_URL",
        api: "https://chatgpt.com/backend-api/codex",
        api_variable: "CHATGPT_BASE_URL",
        // its list depends on the version of OpenAI's own client
        models: None,
        token: "/oauth/token",
        revoke: Some("/oauth/revoke"),
        browser: Some(Browser {
            page: "/oauth/authorize",
            parameters: &[
                ("id_token_add_organizations", "true"),
                ("codex_cli_simplified_flow", "true"),
                ("originator", "leftfold"),
            ],
            redirect: "/auth/callback",
            ports: &[1455, 1457],
        }),
        device: DeviceCode::OpenAi {
            start: "/api/accounts/deviceauth/usercode",
            poll: "/api/accounts/deviceauth/token",
            page: "/codex/device",
            redirect: "/deviceauth/callback",
        },
        account: Some(Account {
            claims: &[
                &["chatgpt_account_id"],
                &["https://api.openai.com/auth", "chatgpt_account_id"],
            ],
            header: "chatgpt-account-id",
        }),
        enterprise: None,
    },
    SignIn {
        provider: "github-copilot",
        label: "GitHub Copilot",
        vendor: "github-copilot",
        client_id: "Ov23li8tweQw6odWQebz",
        scopes: "read:user",
        issuer: "https://github.com",
        issuer_variable: "COPILOT_AUTH_URL",
        api: "https://api.githubcopilot.com",
        api_variable: "COPILOT_BASE_URL",
        models: Some("/models"),
        token: "/login/oauth/access_token",
        // needs a secret that a public client has not
        revoke: None,
        browser: None,
        device: DeviceCode::Standard("/login/device/code"),
        account: None,
        enterprise: Some(Enterprise {
            issuer: "https://{host}",
            api: "https://copilot-api.{host}",
        }),
    },
];
